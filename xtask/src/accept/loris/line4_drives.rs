//! Can drives come and go while a pool is served?
//!
//! Source: acceptance of tiers and caches, line 4: `drain`, `remove` and `replace` of a full SSD and of a
//! hard drive under load, killed half way and resumed, on a served volume: no client error, end state
//! checked, time and bytes printed; and `add`, which goes with them, into places that a drive
//! left and into those that were empty from the beginning. Clients are fio with verification over NBD, one
//! job after the other; the server is killed between two, since no NBD client of ours survives its server.

use super::Options;
use crate::fio::Fio;
use crate::row::Row;
use crate::served::{Pool, Server};
use crate::{bench, cargo, packages};
use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const CONFIG: &str = r#"[pool]
name = "accept"
[[device]]
role = "ssd"
path = "ssd.img"
size = "1GiB"
emulate = "960evo"
[[device]]
role = "hdd"
path = "hdd.img"
size = "3GiB"
emulate = "wd100efax"
profile = "wd100efax"
[[volume]]
name = "vol0"
size = "2GiB"
steer = "ssd-first"
[serve]
nbd = ["unix:tandem.sock"]
"#;

/// So much lies at least on what is drained.
const FULL_BYTES: u64 = 400 << 20;

/// Longest wait for a copy.
const LONG: Duration = Duration::from_secs(1800);

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    packages::install();
    let tandem = cargo::build_tandem(true)?;
    let mut rows = Vec::new();
    for (old, new, what) in
        [("ssd.img", "new-ssd.img", "a full SSD"), ("hdd.img", "new-hdd.img", "a hard drive")]
    {
        let wanted = format!("replace {what} under load, killed half way and resumed");
        rows.extend(match replaced(&tandem, old, new) {
            Ok(found) => {
                found.into_iter().map(|told| Row::new(wanted.clone(), told, true)).collect()
            }
            Err(error) => vec![Row::broken(wanted, &error)],
        });
    }
    for (leaves, what) in [("ssd2.img", "a full SSD"), ("hdd.img", "a hard drive")] {
        let wanted =
            format!("drain {what} under load, killed half way and resumed, remove it, add another");
        rows.extend(match drained(&tandem, leaves) {
            Ok(found) => {
                found.into_iter().map(|told| Row::new(wanted.clone(), told, true)).collect()
            }
            Err(error) => vec![Row::broken(wanted, &error)],
        });
    }
    let wanted = "a pool of two drives, with a bay for another one of each, grows under load";
    rows.extend(match grown(&tandem) {
        Ok(found) => found.into_iter().map(|told| Row::new(wanted, told, true)).collect(),
        Err(error) => vec![Row::broken(wanted, &error)],
    });
    Ok(rows)
}

/// Replaces one drive; what was found of it.
fn replaced(tandem: &Path, old: &str, new: &str) -> Result<Vec<String>> {
    let pool = Pool::new(tandem, &bench::folder(), CONFIG)?;
    pool.call(&["format", "--yes"])?;
    let size = std::fs::metadata(pool.folder().join(old))?.len();
    std::fs::File::create(pool.folder().join(new))?.set_len(size)?;
    let server = pool.serve()?;
    let all = |rw: &str| client(&pool).set("rw", rw).set("bs", "1m").set("size", "1500m");
    all("write").set("do_verify", 0).job("fill").set("end_fsync", 1).run()?;
    let status = status(&pool)?;
    let (free, bytes) = (number(&status, "ssd_free_bytes"), number(&status, "ssd_bytes"));
    call(tandem, &pool, &["replace", "pool.toml", old, new, "--detach"])?;
    let half = |how: &Value| {
        number(how, "marked_bytes") > 0
            && number(how, "copied_bytes") * 2 >= number(how, "total_bytes")
    };
    let before = work_until(&pool, "replacing", half)?;
    kill(server)?;

    let server = pool.serve()?;
    let how = work_until(&pool, "replacing", |how| !how["ended"].is_null())?;
    if how["finished"] != true {
        bail!("it ended otherwise: {how}");
    }
    if number(&how, "resumed_bytes") == 0 {
        bail!("it began anew after the kill: {how}");
    }
    all("read").set("verify_only", 1).job("verify").run()?;
    server.stop()?;
    pool.call(&["check"])?;
    let config = std::fs::read_to_string(pool.folder().join("pool.toml"))?;
    if config != CONFIG.replace(&format!("\"{old}\""), &format!("\"{new}\"")) {
        bail!("the configuration was not kept true: {config}");
    }
    let seconds = (number(&before, "ns") + number(&how, "ns")) / 1_000_000_000;
    let mib = |how: &Value, name: &str| number(how, name) >> 20;
    Ok(vec![
        format!(
            "{} MiB in {seconds} s (killed at {} MiB, went on at {} MiB), {} MiB written to both drives",
            mib(&how, "total_bytes"),
            mib(&before, "copied_bytes"),
            mib(&how, "resumed_bytes"),
            mib(&before, "doubled_bytes") + mib(&how, "doubled_bytes"),
        ),
        format!(
            "no client error; all that was written is read and verified, tandem check finds it whole; {} of \
             {} MiB of the SSDs were free when it began",
            free >> 20,
            bytes >> 20
        ),
    ])
}

/// Two SSDs, and two hard drives.
fn of_four() -> String {
    let hdd = CONFIG.find("[[device]]\nrole = \"hdd\"").expect("there is one");
    let volume = CONFIG.find("[[volume]]").expect("there is one");
    let ssd = CONFIG.find("[[device]]").expect("there is one");
    let (one, two) = (&CONFIG[ssd..hdd], &CONFIG[hdd..volume]);
    let others = [one.replace("ssd.img", "ssd2.img"), two.replace("hdd.img", "hdd2.img")];
    [&CONFIG[..hdd], &others[0], two, &others[1], &CONFIG[volume..]].concat()
}

/// Drains and removes a drive; what was found of it.
fn drained(tandem: &Path, leaves: &str) -> Result<Vec<String>> {
    let pool = Pool::new(tandem, &bench::folder(), &of_four())?;
    pool.call(&["format", "--yes"])?;
    let server = pool.serve()?;
    let all = |rw: &str| client(&pool).set("rw", rw).set("bs", "1m").set("size", "1500m");
    all("write").set("do_verify", 0).job("fill").set("end_fsync", 1).run()?;
    let before = status(&pool)?;
    let (free, bytes) = (number(&before, "ssd_free_bytes"), number(&before, "ssd_bytes"));
    // write-back takes home what the SSDs have too much of, in its own time
    let began = Instant::now();
    while number(&would_drain(tandem, &pool, leaves)?, "bytes") < FULL_BYTES {
        if began.elapsed() > LONG {
            bail!("too little comes to lie on {leaves}");
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    call(tandem, &pool, &["drain", "pool.toml", leaves, "--detach"])?;
    let half = |how: &Value| number(how, "left_bytes") * 2 <= number(how, "total_bytes");
    let first = work_until(&pool, "draining", half)?;
    kill(server)?;

    let server = pool.serve()?;
    let second = work_until(&pool, "draining", |how| how["drained"] == true)?;
    if number(&second, "total_bytes") >= number(&first, "total_bytes") {
        bail!("it began anew after the kill: {first} {second}");
    }
    let size = std::fs::metadata(pool.folder().join(leaves))?.len();
    call(tandem, &pool, &["remove", "pool.toml", leaves])?;
    std::fs::remove_file(pool.folder().join(leaves))?;
    all("read").set("verify_only", 1).job("verify").run()?;
    server.stop()?;
    pool.call(&["check"])?;
    let server = pool.serve()?;
    all("read").set("verify_only", 1).job("again").run()?;
    let (added, server) = added(tandem, &pool, (leaves, size), server)?;
    all("read").set("verify_only", 1).job("with the new one").run()?;
    server.stop()?;
    pool.call(&["check"])?;
    let seconds = (number(&first, "ns") + number(&second, "ns")) / 1_000_000_000;
    let mib = |how: &Value, name: &str| number(how, name) >> 20;
    Ok(vec![
        format!(
            "{} MiB lay there; empty after {seconds} s (killed with {} MiB left, went on with {} MiB), {} MiB \
             of it moved to the other one like it",
            mib(&first, "total_bytes"),
            mib(&first, "left_bytes"),
            mib(&second, "total_bytes"),
            mib(&first, "moved_bytes") + mib(&second, "moved_bytes"),
        ),
        format!(
            "no client error; all that was written is read and verified without the drive, also in the next \
             life, tandem check finds it whole; {} of {} MiB of the SSDs were free when it began",
            free >> 20,
            bytes >> 20
        ),
        added,
    ])
}

/// Another drive takes the place of the one that was removed, and the server is killed as soon as it is a
/// member. What was found of it, and the server of the next life.
fn added(
    tandem: &Path,
    pool: &Pool,
    (left, size_bytes): (&str, u64),
    server: Server,
) -> Result<(String, Server)> {
    let new = format!("new-{left}");
    std::fs::File::create(pool.folder().join(&new))?.set_len(size_bytes)?;
    call(tandem, pool, &["add", "pool.toml", &new, "--detach"])?;
    let how = work_until(pool, "replacing", |how| !how["ended"].is_null())?;
    if how["finished"] != true {
        bail!("a new drive did not come: {how}");
    }
    kill(server)?;
    let config = std::fs::read_to_string(pool.folder().join("pool.toml"))?;
    if config != of_four().replace(&format!("\"{left}\""), &format!("\"{new}\"")) {
        bail!("the configuration was not kept true: {config}");
    }
    let server = pool.serve()?;
    let told = format!(
        "a new drive in its place: {} MiB of metadata in {} s; no client error, killed then, all is read and \
         verified, tandem check finds it whole",
        number(&how, "total_bytes") >> 20,
        number(&how, "ns").div_ceil(1_000_000_000),
    );
    Ok((told, server))
}

/// The size of a volume that fits when a second hard drive has come.
const SECOND: &str = "[[volume]]\nname = \"vol1\"\nsize = \"2GiB\"\n";

/// Both places are filled while clients work, and the server is killed; what was found of it.
fn grown(tandem: &Path) -> Result<Vec<String>> {
    let text = of_four()
        .replace("\"ssd2.img\"\nsize = \"1GiB\"", "\"bay:1GiB\"")
        .replace("\"hdd2.img\"\nsize = \"3GiB\"", "\"bay:3GiB\"");
    let pool = Pool::new(tandem, &bench::folder(), &format!("{text}{SECOND}"))?;
    if pool.call(&["format", "--yes"]).is_ok() {
        bail!("a volume was given room that is not there yet");
    }
    let config = pool.folder().join("pool.toml");
    std::fs::write(&config, &text)?;
    let made: Value = serde_json::from_str(&pool.call(&["format", "--yes", "--json"])?)?;
    let server = pool.serve()?;
    let all = |rw: &str| client(&pool).set("rw", rw).set("bs", "1m").set("size", "1500m");
    all("write").set("do_verify", 0).job("fill").set("end_fsync", 1).run()?;
    let before = status(&pool)?;
    let mut expected = text;
    let mut seconds = Vec::new();
    // device 1 and 3 of the file
    for (device, bay, new, bytes) in
        [(1, "bay:1GiB", "ssd2.img", 1u64 << 30), (3, "bay:3GiB", "hdd2.img", 3 << 30)]
    {
        std::fs::File::create(pool.folder().join(new))?.set_len(bytes)?;
        call(tandem, &pool, &["add", "pool.toml", new, "--bay", bay, "--detach"])?;
        let is_over = |how: &Value| how["device"] == device && !how["ended"].is_null();
        let how = work_until(&pool, "replacing", is_over)?;
        if how["finished"] != true {
            bail!("a drive did not come to {bay}: {how}");
        }
        seconds.push(number(&how, "ns").div_ceil(1_000_000_000));
        expected = expected.replace(bay, new);
    }
    let after = status(&pool)?;
    kill(server)?;
    if std::fs::read_to_string(&config)? != expected {
        bail!("the configuration was not kept true");
    }
    std::fs::write(&config, format!("{expected}{SECOND}"))?;
    let server = pool.serve()?;
    all("read").set("verify_only", 1).job("verify").run()?;
    let second = |rw: &str| all(rw).set("uri", pool.uri("vol1"));
    second("write").set("do_verify", 0).job("fill the new one").set("end_fsync", 1).run()?;
    server.stop()?;
    let server = pool.serve()?;
    second("read").set("verify_only", 1).job("verify the new one").run()?;
    all("read").set("verify_only", 1).job("again").run()?;
    server.stop()?;
    pool.call(&["check"])?;
    let ssd_mib = |told: &Value| number(told, "ssd_bytes") >> 20;
    Ok(vec![
        format!(
            "the SSD came in {} s, the hard drive in {} s; SSDs {} MiB before and {} MiB after; the bays \
             cost {} KiB of the drives and {} KiB of RAM",
            seconds[0],
            seconds[1],
            ssd_mib(&before),
            ssd_mib(&after),
            number(&made["empty_bays"], "drives_bytes") >> 10,
            number(&made["empty_bays"], "memory_bytes") >> 10,
        ),
        "no client error; a volume that format had refused was made and filled, all is read and verified \
         after a kill, tandem check finds it whole"
            .into(),
    ])
}

fn client(pool: &Pool) -> Fio {
    Fio::default()
        .set("ioengine", "nbd")
        .set("uri", pool.uri("vol0"))
        .set("verify", "crc32c")
        .set("iodepth", 8)
}

/// Writes and verifies, job after job, behind what was filled, until it is so far.
fn work_until(pool: &Pool, what: &str, so: impl Fn(&Value) -> bool) -> Result<Value> {
    let began = Instant::now();
    while began.elapsed() < LONG {
        let job = client(pool).set("rw", "randwrite").set("bs", "16k").set("offset", "1600m");
        job.set("size", "24m").set("do_verify", 1).job("load").run()?;
        let how = status(pool)?[what].clone();
        if so(&how) {
            return Ok(how);
        }
    }
    bail!("it takes longer than {} s", LONG.as_secs())
}

/// What a drain would do.
fn would_drain(tandem: &Path, pool: &Pool, drive: &str) -> Result<Value> {
    let told = call(tandem, pool, &["drain", "pool.toml", drive, "--dry-run", "--json"])?;
    serde_json::from_str(&told).context("what it would do is JSON")
}

fn call(tandem: &Path, pool: &Pool, words: &[&str]) -> Result<String> {
    let output = Command::new(tandem)
        .args(words)
        .current_dir(pool.folder())
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("starting tandem {}", words[0]))?;
    if !output.status.success() {
        bail!("tandem {}: {}", words[0], String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn status(pool: &Pool) -> Result<Value> {
    serde_json::from_str(&pool.call(&["status", "--json"])?).context("the status is JSON")
}

/// SIGKILL; returns when it is gone.
fn kill(server: Server) -> Result<()> {
    let id = i32::try_from(server.id()).ok().and_then(Pid::from_raw).context("it runs")?;
    rustix::process::kill_process(id, Signal::KILL).context("killing the server")?;
    drop(server);
    Ok(())
}

fn number(of: &Value, name: &str) -> u64 {
    of[name].as_u64().unwrap_or(0)
}

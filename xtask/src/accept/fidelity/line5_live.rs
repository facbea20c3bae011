//! Does the server on emulated drives do what the engine does in virtual time, with each policy?
//!
//! Source: acceptance of fidelity, line 5. fio sends a job over NBD to a server on emulated drives. The server
//! notes what it is asked, and when. The notes are replayed in virtual time, over the same drives and under the same
//! policy. There processors take no time, so what a request costs in client and server is taken off the live mean:
//!
//! - Client and socket: what fio measures beyond the server's own statistics of the same requests.
//! - Server: what its statistics have of the same job over drives that answer at once, sent right before.
//!
//! The drives take so many times as long as those that they are named after, and so do the pauses between bursts.
//! Otherwise client and server take 4 ms of a request on two processors, and drives 0.2 ms. A tenth of the cost that is
//! taken off is twice what is compared then (measured).
//!
//! A hard drive has one command at a time, and waits for the server between any two. What requests in its queue wait
//! for that is no part of these costs, as drives that answer at once have no queues. It stays in the difference, and
//! the stage `device` of both says how large it is for one command.
//!
//! A server that waits for a processor answers late, which says nothing of it. The kernel tells how long it waited.
//! Where that was too long, the job is sent again, and a row says so in the end.

mod slower;

use crate::accept::Options;
use crate::fio::Fio;
use crate::row::Row;
use crate::served::Pool;
use crate::{bench, cargo, packages};
use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Live and virtual means may differ by this much.
const PERCENT_MAX: u64 = 15;
/// What a server was asked, and when.
const NOTES: &str = "asked.csv";
/// The part of the volume that is filled, and that jobs read and write.
const SPAN: &str = "256m";
/// The policy under which pools are filled: what is read lies on the SSD then, as in the replay.
const FILLED_UNDER: &str = "ssd-first";
/// The drives that those of the pools are made of, and their sizes.
const SSD: (&str, &str) = ("x25e", "8GiB");
const HDD: (&str, &str) = ("wd100efax", "16GiB");
/// They take so many times as long as their namesakes.
const SLOWER: u32 = 20;
/// The spec of drives that answer at once.
const NULL: &str = "null";
/// A job ends after this time, whatever it has sent: a hard drive alone would take minutes.
const JOB_MAX: &str = "90s";
/// Bursts are sent at once, so many blocks each, whatever was answered of them: so many that drives take longer for
/// them than a server can be late.
const BURST_BLOCKS: u32 = 256;
/// Between bursts: a tenth of a second, as often slower as the drives …
const PAUSE_MS: u32 = 100 * SLOWER;
/// … which drives that answer at once do not need.
const PAUSE_OF_NULL_MS: u32 = 100;
/// A start of a server may take so long until the hard drives rest.
const READY_MAX: Duration = Duration::from_secs(120);
/// The server may wait so long for a processor, of the time of a job. On a quiet machine of two processors it waits
/// for 30 to 80, since it shares them with fio and with the kernel's threads that write files. Beside builds it waits
/// for 400 (measured).
const WAITED_PERMILLE_MAX: u64 = 100;
/// A job whose server waited longer is sent again, so many times in all …
const ATTEMPTS: usize = 3;
/// … while the line has not taken so long yet.
const AGAIN_UNTIL: Duration = Duration::from_secs(1_200);

/// What fio sends.
struct Job {
    name: &'static str,
    /// As words of fio.
    requests: &'static [(&'static str, &'static str)],
}

const JOBS: [Job; 2] = [
    Job {
        name: "bursts of 4 KiB",
        requests: &[("rw", "randwrite"), ("bs", "4k"), ("io_size", "24m")],
    },
    Job {
        name: "bursts of 4 to 64 KiB beside reads",
        requests: &[
            ("rw", "randrw"),
            ("rwmixread", "50"),
            ("bssplit", "4k/70:16k/20:64k/10"),
            ("io_size", "80m"),
        ],
    },
];

impl Job {
    fn words(&self, fio: Fio, is_null: bool) -> Fio {
        let pause_ms = if is_null { PAUSE_OF_NULL_MS } else { PAUSE_MS };
        let fio = self.requests.iter().fold(fio, |fio, (name, value)| fio.set(name, value));
        fio.set("randseed", 7)
            .set("runtime", JOB_MAX)
            .set("iodepth", BURST_BLOCKS)
            .set("thinktime", format!("{pause_ms}ms"))
            .set("thinktime_blocks", BURST_BLOCKS)
            .set("thinktime_blocks_type", "issue")
    }
}

/// A policy, and how many SSDs it needs.
struct Policy {
    name: String,
    ssds: usize,
}

/// Mean latency of requests in nanoseconds, of that from their first command on, and how many there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mean {
    ns: u64,
    device_ns: u64,
    count: u64,
}

/// What a job took over some drives: by fio, and by the server.
#[derive(Clone, Copy, Debug)]
struct Served {
    client: Mean,
    server: Mean,
    /// How long the server waited for a processor, of the time of the job.
    waited_permille: u64,
}

/// What one job under one policy came to.
#[derive(Clone, Copy, Debug)]
struct Measured {
    live: Served,
    /// Over drives that answer at once.
    null: Served,
    model: Mean,
}

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    packages::install();
    let tandem = cargo::build_tandem(true)?;
    let began = Instant::now();
    let drives = Drives::new()?;
    let mut pools = Pools { tandem: tandem.clone(), drives, filled: BTreeMap::new() };
    let mut rows = vec![Row::info("others that wanted the processors at the start", bench::load())];
    for policy in policies(&tandem)? {
        for job in &JOBS {
            let wanted = format!("{}, {}: within {PERCENT_MAX} %", policy.name, job.name);
            let again = || began.elapsed() < AGAIN_UNTIL;
            let row = match quietly(&mut pools, &policy, job, again) {
                Ok(measured) => Row::new(wanted, measured.told(), measured.holds()),
                Err(error) => Row::broken(wanted, &error),
            };
            rows.push(row.shown());
        }
    }
    rows.push(Row::info("others that wanted the processors at the end", bench::load()));
    Ok(rows)
}

/// Every steering policy of this version.
fn policies(tandem: &Path) -> Result<Vec<Policy>> {
    let told = printed(Command::new(tandem).args(["policies", "--json"]))?;
    let steers = told.as_array().into_iter().flatten().filter(|one| one["kind"] == "steer");
    let policies: Vec<Policy> = steers
        .filter_map(|one| one["name"].as_str())
        .filter(|name| ["ssd-first", "mios-d", "hdd-only"].contains(name))
        // two SSDs that have the same each
        .map(|name| Policy { name: name.to_owned(), ssds: 1 + usize::from(name == "even-split") })
        .collect();
    if policies.is_empty() {
        bail!("tandem policies tells of none");
    }
    Ok(policies)
}

/// The JSON that a program printed.
fn printed(command: &mut Command) -> Result<Value> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("{command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Pools that were filled once, to be copied: filling takes longer than a job. They are filled over drives that answer
/// at once, since what they hold then is the same.
struct Pools {
    tandem: PathBuf,
    /// Specs and profiles of the drives.
    drives: Drives,
    /// By their SSDs.
    filled: BTreeMap<usize, Pool>,
}

impl Pools {
    /// A copy of a filled pool, with this policy.
    fn copy(&mut self, policy: &Policy, is_null: bool) -> Result<Pool> {
        if !self.filled.contains_key(&policy.ssds) {
            let pool = self.filled(policy.ssds)?;
            self.filled.insert(policy.ssds, pool);
        }
        let config = self.config(&policy.name, policy.ssds, is_null);
        let copy = Pool::new(&self.tandem, &bench::folder(), &config)?;
        for entry in std::fs::read_dir(self.filled[&policy.ssds].folder())? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "img") {
                let words = ["--sparse=always", "--reflink=auto"];
                let copied = Command::new("cp").args(words).arg(&path).arg(copy.folder()).status();
                if !copied.context("starting cp")?.success() {
                    bail!("{} could not be copied", path.display());
                }
            }
        }
        Ok(copy)
    }

    fn filled(&self, ssds: usize) -> Result<Pool> {
        let config = self.config(FILLED_UNDER, ssds, true);
        let pool = Pool::new(&self.tandem, &bench::folder(), &config)?;
        pool.call(&["format", "--yes"])?;
        let server = pool.serve()?;
        let fio = nbd(&pool, "fill").set("rw", "write").set("bs", "1m").set("iodepth", 4);
        fio.set("end_fsync", 1).run()?;
        server.stop()?;
        Ok(pool)
    }

    fn config(&self, policy: &str, ssds: usize, is_null: bool) -> String {
        let device = |role: &str, number: usize, drive: &Drive| {
            let emulate = if is_null { NULL.into() } else { drive.spec.display().to_string() };
            format!(
                "[[device]]\nrole = \"{role}\"\npath = \"{role}{number}.img\"\nsize = \"{}\"\n\
                 emulate = \"{emulate}\"\nprofile = \"{}\"\n",
                drive.size,
                drive.profile.display()
            )
        };
        let Drives { ssd, hdd, .. } = &self.drives;
        let ssds: String = (0..ssds).map(|number| device("ssd", number, ssd)).collect();
        format!(
            "[pool]\nname = \"accept\"\n{ssds}{}[[volume]]\nname = \"vol0\"\nsize = \"1GiB\"\n\
             steer = \"{policy}\"\n[serve]\nnbd = [\"unix:tandem.sock\"]\n",
            device("hdd", 0, hdd)
        )
    }
}

/// Specs and profiles of the slow drives, as files.
struct Drives {
    ssd: Drive,
    hdd: Drive,
    _folder: tempfile::TempDir,
}

struct Drive {
    spec: PathBuf,
    profile: PathBuf,
    size: &'static str,
}

impl Drives {
    fn new() -> Result<Drives> {
        std::fs::create_dir_all(bench::folder())?;
        let folder = tempfile::Builder::new().prefix("drives-").tempdir_in(bench::folder())?;
        let drive = |(name, size): (&str, &'static str)| -> Result<Drive> {
            let written = |of: &str, from: &str| -> Result<PathBuf> {
                let path = cargo::root().join(from).join(format!("{name}.toml"));
                let text = std::fs::read_to_string(&path)
                    .with_context(|| format!("reading {}", path.display()))?;
                let slow = folder.path().join(format!("{name}-{of}.toml"));
                std::fs::write(&slow, slower::slower(&text, SLOWER)?)?;
                Ok(slow)
            };
            let spec = written("spec", "crates/drives/specs")?;
            Ok(Drive { spec, profile: written("profile", "profiles")?, size })
        };
        let (ssd, hdd) = (drive(SSD)?, drive(HDD)?);
        Ok(Drives { ssd, hdd, _folder: folder })
    }
}

fn nbd(pool: &Pool, job: &str) -> Fio {
    let fio = Fio::default().job(job).set("ioengine", "nbd").set("uri", pool.uri("vol0"));
    fio.set("size", SPAN)
}

/// The job when nothing else had the processors, or what the least disturbed attempt came to.
fn quietly(
    pools: &mut Pools,
    policy: &Policy,
    job: &Job,
    again: impl Fn() -> bool,
) -> Result<Measured> {
    let mut best = one(pools, policy, job)?;
    for _ in 1..ATTEMPTS {
        if best.waited_permille() <= WAITED_PERMILLE_MAX || !again() {
            break;
        }
        let next = one(pools, policy, job)?;
        if next.waited_permille() < best.waited_permille() {
            best = next;
        }
    }
    Ok(best)
}

fn one(pools: &mut Pools, policy: &Policy, job: &Job) -> Result<Measured> {
    let (null, _) = served(&pools.copy(policy, true)?, job, true)?;
    let pool = pools.copy(policy, false)?;
    let (live, notes) = served(&pool, job, false)?;
    let mut replay = Command::new(&pools.tandem);
    replay.args(["replay", "--json", "--policy", &policy.name, "--resident", "ssd"]);
    let Drives { ssd, hdd, .. } = &pools.drives;
    for _ in 0..policy.ssds {
        replay.arg("--ssd").arg(&ssd.spec).arg("--ssd-profile").arg(&ssd.profile);
    }
    replay.arg("--hdd").arg(&hdd.spec).arg("--hdd-profile").arg(&hdd.profile);
    replay.args(["--ssd-size", ssd.size, "--hdd-size", hdd.size]).arg(notes);
    let replayed = printed(&mut replay)?;
    Ok(Measured { live, null, model: mean_of(&replayed["runs"][0])? })
}

/// Waits until the start of a server is over: hard drives rest, and their buffers are empty. A replay begins so, too.
fn begin(pool: &Pool) -> Result<()> {
    let began = Instant::now();
    loop {
        let status: Value = serde_json::from_str(&pool.call(&["status", "--json"])?)?;
        if is_ready(&status) {
            return Ok(());
        }
        if began.elapsed() > READY_MAX {
            let (rest, of) = (&status["rest"], &status["controllers"]);
            bail!("the hard drives do not come to rest after the start: {rest}, {of}");
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// By a status: is every hard drive at rest, and its next write fast?
fn is_ready(status: &Value) -> bool {
    let all = |list: &str, holds: fn(&Value) -> bool| {
        let list = status[list].as_array();
        list.is_some_and(|list| list.iter().filter(|one| !one.is_null()).all(holds))
    };
    all("rest", |one| one["awake_for"].is_null())
        && all("controllers", |one| one["state"] == "fast")
}

/// Sends the job to a server over this pool; what it took, and the server's notes.
fn served(pool: &Pool, job: &Job, is_null: bool) -> Result<(Served, PathBuf)> {
    let server = pool.serve_with(&["--record", NOTES])?;
    begin(pool)?;
    let (began, before_ns) = (Instant::now(), waited_ns(server.id())?);
    let answer = job.words(nbd(pool, "job"), is_null).run()?;
    let waited_ns = waited_ns(server.id())?.saturating_sub(before_ns);
    let took_ns = began.elapsed().as_nanos().max(1);
    let status: Value = serde_json::from_str(&pool.call(&["status", "--json"])?)?;
    server.stop()?;
    let served = Served {
        client: Mean { ns: answer.latency_ns, device_ns: 0, count: answer.requests },
        server: mean_of(&status["latencies"])?,
        waited_permille: (u128::from(waited_ns) * 1000 / took_ns) as u64,
    };
    if served.client.count != served.server.count {
        // what they have of different requests cannot be compared
        bail!("fio sent {} requests, and the server had {}", answer.requests, served.server.count);
    }
    Ok((served, pool.folder().join(NOTES)))
}

/// How long the threads of a process have been ready to run without a processor.
fn waited_ns(process: u32) -> Result<u64> {
    let mut sum_ns = 0;
    for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let path = thread?.path().join("schedstat");
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        sum_ns += second_number(&text).with_context(|| format!("{}: {text:?}", path.display()))?;
    }
    Ok(sum_ns)
}

/// Of "on a processor, waiting for one, times": nanoseconds of waiting.
fn second_number(text: &str) -> Option<u64> {
    text.split_whitespace().nth(1)?.parse().ok()
}

/// Of reads and writes together.
fn mean_of(latencies: &Value) -> Result<Mean> {
    let (mut sum_ns, mut device_sum_ns, mut count) = (0, 0, 0);
    for side in ["read", "write"] {
        let of = &latencies[side];
        let number = |number: &Value| {
            number.as_u64().with_context(|| format!("no count or mean of {side}s in {of}"))
        };
        let requests = number(&of["count"])?;
        sum_ns += number(&of["mean_ns"])? * requests;
        device_sum_ns += number(&of["stages"]["device"]["mean_ns"])? * requests;
        count += requests;
    }
    if count == 0 {
        bail!("no request was counted");
    }
    Ok(Mean { ns: sum_ns / count, device_ns: device_sum_ns / count, count })
}

impl Measured {
    /// What fio has beyond the server: of the job, and of the same over drives that answer at once.
    fn client_ns(&self) -> [u64; 2] {
        [self.live, self.null].map(|it| it.client.ns.saturating_sub(it.server.ns))
    }

    /// What is left of the live mean without the costs of client and server.
    fn left_ns(&self) -> u64 {
        self.live.client.ns.saturating_sub(self.client_ns()[0] + self.null.server.ns)
    }

    fn waited_permille(&self) -> u64 {
        self.live.waited_permille.max(self.null.waited_permille)
    }

    /// Near enough, of a server that had the processors.
    fn holds(&self) -> bool {
        self.waited_permille() <= WAITED_PERMILLE_MAX && self.is_near()
    }

    fn is_near(&self) -> bool {
        self.left_ns().abs_diff(self.model.ns) * 100 <= self.model.ns * PERCENT_MAX
    }

    fn told(&self) -> String {
        let us = |ns: u64| format!("{}.{} us", ns / 1000, ns % 1000 / 100);
        let left = self.left_ns();
        let percent = (left as f64 / self.model.ns.max(1) as f64 - 1.0) * 100.0;
        let [client, of_null] = self.client_ns();
        let waited = match self.waited_permille() {
            permille if permille > WAITED_PERMILLE_MAX => {
                "NOT QUIET: the server waited for a processor for"
            }
            _ => "the server waited for a processor for",
        };
        let permille = self.waited_permille();
        format!(
            "live {}, virtual {}; costs: client and socket {} ({} over null drives), server {}; live without \
             them {}, {percent:+.1} %; stage device live {}, virtual {}; {} requests live, {} virtual; {waited} {}.{} % of the time",
            us(self.live.client.ns),
            us(self.model.ns),
            us(client),
            us(of_null),
            us(self.null.server.ns),
            us(left),
            us(self.live.server.device_ns),
            us(self.model.device_ns),
            self.live.server.count,
            self.model.count,
            permille / 10,
            permille % 10
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn measured(live: u64, in_server: u64, model: u64) -> Measured {
        let mean = |ns| Mean { ns, device_ns: ns / 2, count: 9 };
        let served = |client, server| Served {
            client: mean(client),
            server: mean(server),
            waited_permille: 3,
        };
        Measured { live: served(live, in_server), null: served(30_000, 9_000), model: mean(model) }
    }

    #[test]
    fn costs_are_taken_off_before_means_are_compared() {
        let near = measured(170_000, 125_500, 101_500);
        assert_eq!((near.client_ns(), near.left_ns()), ([44_500, 21_000], 116_500));
        assert!(near.holds(), "{}", near.told());
        for part in
            ["client and socket 44.5 us (21.0 us over null drives), server 9.0 us", "+14.8 %"]
        {
            assert!(near.told().contains(part), "{part}: {}", near.told());
        }
        assert!(!measured(170_000, 126_500, 101_500).holds(), "more than 15 %");
        assert!(!measured(170_000, 95_000, 101_500).holds(), "less is not near either");
        let mut disturbed = near;
        disturbed.null.waited_permille = WAITED_PERMILLE_MAX + 1;
        assert!(!disturbed.holds(), "nobody knows what it would have been");
        assert!(disturbed.told().contains("NOT QUIET"), "{}", disturbed.told());
        assert!(!near.told().contains("NOT QUIET"), "{}", near.told());
    }

    #[test]
    fn a_job_begins_when_the_drives_rest() {
        let status = |awake_for: Value, state: &str| {
            let rest = json!([null, { "idle_ns": 5, "awake_for": awake_for }]);
            json!({ "rest": rest, "controllers": [null, { "state": state }] })
        };
        assert!(is_ready(&status(Value::Null, "fast")));
        assert!(!is_ready(&status(json!("flush"), "fast")) && !is_ready(&json!({})));
        assert!(!is_ready(&status(Value::Null, "draining")));
    }

    #[test]
    fn the_kernel_says_how_long_a_process_waited() {
        assert_eq!(second_number("12 345 6\n"), Some(345));
        assert_eq!(second_number("12"), None);
        assert!(waited_ns(std::process::id()).is_ok());
    }

    #[test]
    fn reads_and_writes_count_together() {
        let side = |count: u64, mean_ns: u64| {
            let device = json!({ "mean_ns": mean_ns / 2 });
            json!({ "count": count, "mean_ns": mean_ns, "stages": { "device": device } })
        };
        let both = json!({ "read": side(1, 100), "write": side(3, 200) });
        assert_eq!(mean_of(&both).unwrap(), Mean { ns: 175, device_ns: 87, count: 4 });
        let none = json!({ "read": side(0, 0), "write": side(0, 0) });
        assert!(mean_of(&none).is_err() && mean_of(&json!({})).is_err());
    }
}

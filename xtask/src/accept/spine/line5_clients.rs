//! Do real clients find a sound volume?
//!
//! Source: acceptance of the spine, line 5. A pool over files and one over emulated drives, each with
//! its own server; the clients are fio, nbdinfo, nbdcopy, qemu-img, and file systems on a loop device
//! over the FUSE file. At the end of each the pool is checked.

use super::{Options, call, file_systems, row};
use crate::fio::Fio;
use crate::row::Row;
use crate::served::Pool;
use crate::{bench, cargo, packages};
use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};

/// Bytes that fio writes and reads back, over this many connections.
const VERIFIED_BYTES: u64 = 5 << 30;
const CONNECTIONS: u64 = 4;
/// Bytes of the images that are copied.
const IMAGE_BYTES: u64 = 256 << 20;

/// Name, and what stands in each device's table.
const POOLS: [(&str, &str, &str); 2] = [
    ("file devices", "", "profile = \"wd100efax\""),
    ("emulated drives", "emulate = \"960evo\"", "emulate = \"wd100efax\"\nprofile = \"wd100efax\""),
];

fn config(ssd: &str, hdd: &str) -> String {
    format!(
        r#"
[pool]
name = "accept"
[[device]]
role = "ssd"
path = "ssd.img"
size = "8GiB"
{ssd}
[[device]]
role = "hdd"
path = "hdd.img"
size = "16GiB"
{hdd}
[[volume]]
name = "vol0"
size = "6GiB"
steer = "mios-d"
[[volume]]
name = "vol1"
size = "256MiB"
steer = "mios-e"
[serve]
nbd = ["unix:tandem.sock"]
"#
    )
}

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    packages::install();
    let tandem = cargo::build_tandem(true)?;
    // the emulated drives come last, since they take as long as real ones would
    let mut rows = file_systems::rows(&tandem);
    for (name, ssd, hdd) in POOLS {
        let found = nbd_clients(&tandem, &config(ssd, hdd), name);
        rows.extend(
            found.unwrap_or_else(|error| vec![Row::broken(format!("over {name}"), &error)]),
        );
    }
    Ok(rows)
}

fn nbd_clients(tandem: &Path, config: &str, name: &str) -> Result<Vec<Row>> {
    let pool = Pool::new(tandem, &bench::folder(), config)?;
    pool.call(&["format", "--yes"])?;
    let server = pool.serve()?;
    let mut rows = vec![row(
        format!(
            "{name}: fio verify=crc32c, 4 KiB to 1 MiB and odd sizes, depth 32, {CONNECTIONS} \
             connections, {} GiB: no error",
            VERIFIED_BYTES >> 30
        ),
        verify(&pool.uri("vol0")),
    )];
    let uri = pool.uri("vol1");
    rows.push(row(format!("{name}: nbdinfo sees the volume"), nbdinfo(&uri)));
    rows.push(row(format!("{name}: nbdcopy there and back: identical"), nbdcopy(&pool, &uri)));
    rows.push(row(format!("{name}: qemu-img convert and compare: identical"), qemu(&pool, &uri)));
    rows.push(row(
        format!("{name}: SIGTERM ends the server well, and check is clean"),
        server.stop().and_then(|()| pool.call(&["check"])).map(|_| "clean".into()),
    ));
    Ok(rows)
}

/// Sizes in shares: those of blocks, and some that are odd multiples of a sector.
const SIZES: &str = "4k/30:16k/20:64k/15:256k/8:1m/5:512/4:1536/4:4608/4:7680/4:33280/3:131584/3";

fn verify(uri: &str) -> Result<String> {
    let part = VERIFIED_BYTES / CONNECTIONS;
    let job = Fio::default()
        .job("verify")
        .set("ioengine", "nbd")
        .set("uri", uri)
        .set("rw", "randwrite")
        .set("bssplit", SIZES)
        .set("iodepth", 32)
        .set("numjobs", CONNECTIONS)
        .set("size", part)
        .set("offset_increment", part)
        .set("verify", "crc32c")
        .set("do_verify", 1)
        .set("verify_fatal", 1)
        .set("verify_state_save", 0)
        .set("randseed", 5);
    let answer = job.run()?;
    Ok(format!("no error, {} MB/s written and read", answer.bytes_per_s / 1_000_000))
}

fn nbdinfo(uri: &str) -> Result<String> {
    let text = call("nbdinfo", &["--json", uri])?;
    let json: serde_json::Value = serde_json::from_str(&text).context("nbdinfo's JSON")?;
    let export = &json["exports"][0];
    let size = export["export-size"].as_u64();
    if size != Some(IMAGE_BYTES) {
        bail!("the size is {size:?}, not {IMAGE_BYTES}");
    }
    let able = ["can_flush", "can_fua", "can_trim", "can_zero", "can_multi_conn"];
    if let Some(missing) = able.iter().find(|name| export[**name] != true) {
        bail!("{missing} is not true");
    }
    Ok(format!("{IMAGE_BYTES} bytes, {}", able.join(", ")))
}

fn nbdcopy(pool: &Pool, uri: &str) -> Result<String> {
    let (from, into) = (noise(pool, "from.img")?, pool.folder().join("into.img"));
    call("nbdcopy", &["--flush", text(&from)?, uri])?;
    call("nbdcopy", &[uri, text(&into)?])?;
    call("cmp", &[text(&from)?, text(&into)?])?;
    Ok(format!("{} MiB identical", IMAGE_BYTES >> 20))
}

fn qemu(pool: &Pool, uri: &str) -> Result<String> {
    let (from, into) = (noise(pool, "qemu.img")?, pool.folder().join("qemu.qcow2"));
    call("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", text(&from)?, uri])?;
    call("qemu-img", &["compare", "-f", "raw", "-F", "raw", text(&from)?, uri])?;
    call("qemu-img", &["convert", "-f", "raw", "-O", "qcow2", uri, text(&into)?])?;
    call("qemu-img", &["compare", "-f", "raw", "-F", "qcow2", text(&from)?, text(&into)?])?;
    Ok(format!("{} MiB identical, into and out of the volume", IMAGE_BYTES >> 20))
}

/// A file of random bytes with a hole of zeroes, as real images have them.
fn noise(pool: &Pool, name: &str) -> Result<PathBuf> {
    let path = pool.folder().join(name);
    let count = format!("count={}", IMAGE_BYTES >> 21);
    let output = format!("of={}", path.display());
    call("dd", &["if=/dev/urandom", &output, "bs=1M", &count, "seek=64", "status=none"])?;
    std::fs::File::options().write(true).open(&path)?.set_len(IMAGE_BYTES)?;
    Ok(path)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path in UTF-8")
}

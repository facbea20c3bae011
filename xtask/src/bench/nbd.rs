//! Is our NBD server as fast as the best of others, with journal and checksums on?
//!
//! Source: acceptance of the spine, "Speed and memory". fio's nbd engine over a Unix socket, one
//! connection. Ours serves a pool of one RAM device; beside it `nbdkit memory` and `nbdkit null`. All
//! three stay up; every round asks each of them in turn, so that a neighbour's load hits all alike.

use super::{RUNS, median, ratio};
use crate::fio::Fio;
use crate::row::Row;
use crate::served::{Pool, Server, nbdkit};
use crate::{cargo, packages};
use anyhow::Result;

const POOL: &str = r#"
[pool]
name = "bench"
[[device]]
role = "ssd"
path = "ram:3GiB"
[[volume]]
name = "vol0"
size = "1GiB"
[serve]
nbd = ["unix:tandem.sock"]
"#;

/// What must be reached, as a share in percent, of whom.
#[derive(Clone, Copy)]
enum Rival {
    /// The better of memory and null.
    Better(u64),
    Memory(u64),
}

/// One load.
struct Load {
    rw: &'static str,
    block: &'static str,
    depth: u32,
    rival: Rival,
}

const LOADS: [Load; 6] = [
    Load { rw: "randwrite", block: "4k", depth: 32, rival: Rival::Better(100) },
    Load { rw: "randread", block: "4k", depth: 32, rival: Rival::Better(120) },
    Load { rw: "write", block: "1m", depth: 8, rival: Rival::Memory(100) },
    Load { rw: "read", block: "1m", depth: 8, rival: Rival::Memory(100) },
    Load { rw: "randwrite", block: "4k", depth: 1, rival: Rival::Better(100) },
    Load { rw: "randread", block: "4k", depth: 1, rival: Rival::Better(100) },
];

fn fio(load: &Load, uri: &str) -> Result<u64> {
    let job = Fio::default()
        .job("load")
        .set("ioengine", "nbd")
        .set("uri", uri)
        .set("rw", load.rw)
        .set("bs", load.block)
        .set("iodepth", load.depth)
        .set("size", "1g")
        .set("norandommap", 1)
        .set("time_based", 1)
        .set("ramp_time", "500ms")
        .set("runtime", "2s");
    Ok(job.run()?.iops)
}

/// Three servers and where to find them; dropped, they end.
struct Contest {
    uris: [String; 3],
    _servers: [Server; 3],
    _pool: Pool,
}

impl Contest {
    fn start() -> Result<Contest> {
        let pool = Pool::new(&cargo::build_tandem(true)?, &super::folder(), POOL)?;
        let sockets = ["memory.sock", "null.sock"].map(|name| pool.folder().join(name));
        let servers = [
            pool.serve()?,
            nbdkit(&sockets[0], &["memory", "1G"])?,
            nbdkit(&sockets[1], &["null", "1G"])?,
        ];
        let of_socket = |at: usize| format!("nbd+unix:///?socket={}", sockets[at].display());
        let uris = [pool.uri("vol0"), of_socket(0), of_socket(1)];
        for uri in &uris {
            // what was never written is answered without reading anything
            let fill = Fio::default().job("fill").set("ioengine", "nbd").set("uri", uri);
            fill.set("rw", "write").set("bs", "1m").set("iodepth", 4).set("size", "1g").run()?;
        }
        Ok(Contest { uris, _servers: servers, _pool: pool })
    }
}

/// Measures all loads.
///
/// # Errors
/// If a server or fio cannot run.
pub fn rows() -> Result<Vec<Row>> {
    packages::install();
    let contest = Contest::start()?;
    let mut rates = vec![[const { Vec::new() }; 3]; LOADS.len()];
    for _ in 0..RUNS {
        for (load, rates) in LOADS.iter().zip(&mut rates) {
            for (uri, rates) in contest.uris.iter().zip(rates.iter_mut()) {
                rates.push(fio(load, uri)?);
            }
        }
    }
    let row = |(load, rates): (&Load, [Vec<u64>; 3])| {
        let [ours, memory, null] = rates.map(median);
        let (rival, percent, whose) = match load.rival {
            Rival::Better(percent) => (memory.max(null), percent, "the better nbdkit"),
            Rival::Memory(percent) => (memory, percent, "nbdkit memory"),
        };
        let wanted = format!(
            "NBD {} {} depth {}: at least {}x {whose}",
            load.rw,
            load.block,
            load.depth,
            ratio(percent, 100)
        );
        let measured = format!(
            "{ours} requests/s; nbdkit memory {memory}, null {null}: {}x",
            ratio(ours, rival)
        );
        Row::new(wanted, measured, ours * 100 >= rival * percent)
    };
    Ok(LOADS.iter().zip(rates).map(row).collect())
}

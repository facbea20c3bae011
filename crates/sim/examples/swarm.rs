//! A long swarm: `swarm FIRST_SEED SEEDS REQUESTS STRIDE RECOVERY_STRIDE` runs and cuts every seed
//! under every policy and prints what was covered. Exit 1 on the first failure, with its seed.

use std::process::ExitCode;
use tandem_sim::swarm::{Run, SwarmConfig, enumerate};

fn main() -> ExitCode {
    let numbers: Vec<u64> =
        std::env::args().skip(1).map(|arg| arg.parse().expect("a number")).collect();
    let [first, seeds, requests, stride, recovery_stride] = numbers[..] else {
        eprintln!("usage: swarm FIRST_SEED SEEDS REQUESTS STRIDE RECOVERY_STRIDE");
        return ExitCode::from(2);
    };
    let mut cuts = 0;
    let mut covered = [0u64; 8];
    for seed in first..first + seeds {
        for policy in ["ssd-first", "mios-d", "mios-e"] {
            let config = SwarmConfig::tiny(seed, policy, requests);
            if std::env::var_os("SWARM_VERBOSE").is_some() {
                eprintln!("{config:?}");
            }
            let result = if stride == 0 {
                Run::new(config).and_then(|mut run| {
                    run.finish()?;
                    let s = run.world.engine.stats();
                    let counts = [
                        s.checkpoints,
                        s.moves,
                        s.fragments,
                        s.merged,
                        s.copies_dropped,
                        s.redirected.0,
                        s.devices.iter().map(|d| d.tail_bytes).sum(),
                        s.devices.iter().map(|d| d.gc_bytes).sum(),
                    ];
                    for (total, count) in covered.iter_mut().zip(counts) {
                        *total += count;
                    }
                    Ok(0)
                })
            } else {
                enumerate(&config, stride, recovery_stride)
            };
            match result {
                Ok(more) => cuts += more,
                Err(failure) => {
                    println!("FAILED {policy}: {failure}");
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    println!("{seeds} seeds, {cuts} power cuts, none broke the promise");
    println!(
        "covered: {} checkpoints, {} blocks moved home, {} fragments, {} merges, {} clean copies dropped, {} redirected writes, {} tail bytes, {} log GC bytes",
        covered[0],
        covered[1],
        covered[2],
        covered[3],
        covered[4],
        covered[5],
        covered[6],
        covered[7]
    );
    ExitCode::SUCCESS
}

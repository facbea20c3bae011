//! Can the crash tests fail? Every mutant of the engine must be caught, and the engine without one
//! must pass the same.
//!
//! Source: design, "Tests" (mutants must be caught); issue "the spine", acceptance 6.

use tandem_engine::mutant::Mutant;
use tandem_sim::campaign::Campaign;
use tandem_sim::swarm::{Failure, Run, SwarmConfig};

/// Seeds that a mutant may survive, at most.
const SEEDS: u64 = 60;

fn hunt(mutant: Option<Mutant>, seed: u64) -> Result<u64, Failure> {
    let policy = ["mios-e", "ssd-first", "mios-d"][(seed % 3) as usize];
    let config = SwarmConfig::tiny(seed, policy, 150);
    let mut run = Run::new(config)?;
    run.world.engine.set_mutant(mutant);
    Campaign { stride: 7, recovery_stride: 40, lives: 2, more_requests: 40 }.run(run)
}

#[test]
fn every_mutant_is_caught() {
    let mut survivors = Vec::new();
    for mutant in Mutant::ALL {
        let mut cuts = 0;
        let caught = (0..SEEDS).find_map(|seed| match hunt(Some(mutant), seed) {
            Ok(more) => {
                cuts += more;
                None
            }
            Err(failure) => Some((seed, failure)),
        });
        match caught {
            Some((seed, failure)) => {
                let text = failure.to_string();
                println!("{mutant:?}: seed {seed}, after {cuts} cuts: {:.150}", text);
            }
            None => {
                println!("{mutant:?}: survives {cuts} cuts");
                survivors.push(mutant);
            }
        }
    }
    assert!(survivors.is_empty(), "the crash tests do not see {survivors:?}");
}

#[test]
fn the_sound_engine_passes_the_same() {
    let cuts: u64 = (0..30).map(|seed| hunt(None, seed).unwrap_or_else(|f| panic!("{f}"))).sum();
    assert!(cuts > 1000, "{cuts}");
}

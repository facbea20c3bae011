//! What went wrong in a run, and how is it seen again?

use crate::check::Violation;
use tandem_block::Instant;
use tandem_engine::StartError;

/// What went wrong, and how to see it again.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Failure {
    /// The promise was broken.
    #[error("seed {seed}, crash point {point}: {violation}")]
    Broken {
        /// The seed.
        seed: u64,
        /// Which event the power was cut after (0: none).
        point: u64,
        /// How.
        violation: Violation,
    },
    /// Recovery refused a sound pool.
    #[error("seed {seed}, crash point {point}: recovery refused: {error}")]
    Refused {
        /// The seed.
        seed: u64,
        /// Which event the power was cut after.
        point: u64,
        /// Why.
        error: StartError,
    },
    /// Nothing is under way, yet requests are unanswered.
    #[error("seed {seed}: {waiting} requests hang at {now:?}\n{state}")]
    Hang {
        /// The seed.
        seed: u64,
        /// Requests unanswered.
        waiting: usize,
        /// When.
        now: Instant,
        /// What the engine says of itself.
        state: String,
    },
    /// Buffers were not released.
    #[error("seed {seed}: {left} buffers leaked")]
    Leak {
        /// The seed.
        seed: u64,
        /// How many.
        left: usize,
    },
    /// The engine contradicts itself, or the drives.
    #[error("seed {seed}, event {event}: audit: {}", told.join("; "))]
    Audit {
        /// The seed.
        seed: u64,
        /// After which event.
        event: u64,
        /// What was found, in words.
        told: Vec<String>,
    },
}

impl Failure {
    /// What kind it is, in a word or two: the same for every seed that fails in the same way.
    pub fn kind(&self) -> String {
        let name = |debug: String| -> String {
            debug.chars().take_while(|letter| letter.is_alphanumeric()).collect()
        };
        match self {
            Failure::Broken { violation: Violation::OfObject { violation, .. }, .. } => {
                name(format!("{violation:?}"))
            }
            Failure::Broken { violation, .. } => name(format!("{violation:?}")),
            other => name(format!("{other:?}")),
        }
    }
}

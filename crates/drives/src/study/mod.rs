//! Do the models reproduce the tables? Each row as a function that runs it and returns numbers.
//!
//! Source: models §5.3 and §6.3. Tests run reduced rows; the long ones are run by
//! `examples/study.rs` and by the acceptance run.

mod alone;
mod hdd;
mod load;
mod ssd;

pub use alone::{Measured, RequestStream, Size, Times, filled, measure};
pub use hdd::{Confusion, StaircaseRow, predict, stage_counts, staircase};
pub use ssd::{
    EvoRow, FourStreams, RandomWrites, SequentialRow, amplification_of, evo_intervals,
    i510_four_streams, i510_reads_alone, write_amplification, x25e_random, x25e_sequential,
};

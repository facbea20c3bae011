//! What does it cost to tell a thousand streams apart?
//!
//! Source: acceptance of reservations and the pair, "Speed and memory": dispatch with 1,000 streams under
//! 300 ns per request, and 100 streams with reservations on one drive model in virtual time at least
//! 500,000 requests/s. The engine's example `qos_dispatch` and the simulator's `many_streams`, medians of
//! five.

use super::{example, output, value};
use crate::row::Row;
use anyhow::Result;

const ALLOWED_NS: u64 = 300;
const WANTED_PER_S: u64 = 500_000;

/// Measures the room with many streams, and a whole engine under the first two orders.
///
/// # Errors
/// If the example cannot run.
pub fn rows() -> Result<Vec<Row>> {
    let text = output(&example("tandem-engine", "qos_dispatch")?, &[])?;
    eprintln!("{text}");
    let room = value(&text, "room_1000")?;
    let (fifo, edf) = (value(&text, "engine_fifo_1000")?, value(&text, "engine_edf_1000")?);
    let more = edf.saturating_sub(fifo);
    let text = output(&example("tandem-sim", "many_streams")?, &[])?;
    let per_s = value(&text, "requests_per_s")?;
    Ok(vec![
        Row::new(
            format!("a request into and out of 1,000 streams' queues: under {ALLOWED_NS} ns"),
            format!("{room} ns"),
            room < ALLOWED_NS,
        ),
        Row::new(
            format!(
                "a request through an engine with 1,000 streams, above fifo: under {ALLOWED_NS} ns"
            ),
            format!("{more} ns ({edf} of {fifo} ns)"),
            more < ALLOWED_NS,
        ),
        Row::new(
            format!(
                "100 streams with reservations on a modelled 960 EVO: at least {WANTED_PER_S} requests/s"
            ),
            format!("{per_s} requests/s"),
            per_s >= WANTED_PER_S,
        ),
    ])
}

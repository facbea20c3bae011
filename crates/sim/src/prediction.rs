//! How often is the predictor right? The engine's predictor beside a modelled drive.
//!
//! Source: [BCW §4.1]: 100 GB of 128 KiB writes with a sync after every GB; models §5.3.

use tandem_block::{Drive as _, DriveOp, DriveOpKind, Instant};
use tandem_drives::HddModel;
use tandem_drives::hdd::Stage;
use tandem_drives::spec::HddSpec;
use tandem_engine::bcw::predictor::{self, Confusion, WriteState};
use tandem_engine::profile::HddProfile;

/// Writes `rounds` times `round_bytes` in pieces of `size_bytes`, a sync before each round, and says
/// of every write what was predicted and what it met.
pub fn predict(
    spec: &HddSpec,
    profile: &HddProfile,
    size_bytes: u64,
    rounds: u64,
    round_bytes: u64,
    seed: u64,
) -> Confusion {
    let mut drive = HddModel::new(spec, seed, false);
    let (mut now, mut offset_bytes) = (Instant::ZERO, 0);
    let mut confusion = Confusion::default();
    for _ in 0..rounds {
        let flush = DriveOp { kind: DriveOpKind::Flush, offset_bytes: 0, length_bytes: 0 };
        now = drive.submit(now, flush).ack_at;
        let (mut last, mut stage_bytes) = (WriteState::Fast, 0);
        for _ in 0..round_bytes / size_bytes {
            let predicted = predictor::predict(
                last,
                stage_bytes,
                size_bytes,
                profile.fast_stage_bytes,
                profile.mid_stage_bytes,
            );
            let kind = DriveOpKind::Write { fua: false };
            now =
                drive.submit(now, DriveOp { kind, offset_bytes, length_bytes: size_bytes }).ack_at;
            offset_bytes += size_bytes;
            let actual = match drive.last_write_met().expect("it has just written") {
                Stage::Fast => WriteState::Fast,
                Stage::Mid => WriteState::Mid,
                Stage::Slow => WriteState::Slow,
            };
            confusion.count(actual, predicted);
            stage_bytes = if actual == WriteState::Slow { 0 } else { stage_bytes + size_bytes };
            last = actual;
        }
    }
    confusion
}

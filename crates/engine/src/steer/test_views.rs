//! What does a policy see in a test? One drive each way, everything at rest.

use super::{HddView, SsdView, SteerView};
use crate::bcw::predictor::WriteState;
use crate::profile::HddProfile;
use tandem_block::{DeviceId, Instant, ObjectId};

/// An SSD with so many commands.
pub(super) fn ssd(device: u8, queue_length: u32) -> SsdView {
    SsdView {
        device: DeviceId(device),
        queue_length,
        reads: 0,
        waiting_bytes: 0,
        in_flight_bytes: 0,
        written_bytes: 0,
        oldest_ns: 0,
    }
}

/// An idle hard drive in its fast state.
pub(super) fn hdd(device: u8) -> HddView {
    HddView {
        device: DeviceId(device),
        accepting: true,
        takes_slow: false,
        predicted: WriteState::Fast,
        queue_length: 0,
        idle: true,
        wait_ns: 0,
        expected_ns: 35_000,
        reads_per_s: 0,
    }
}

/// A write of 4 KiB.
pub(super) fn view<'a>(ssds: &'a [SsdView], hdds: &'a [HddView]) -> SteerView<'a> {
    SteerView {
        now: Instant::from_ns(1_000_000_000),
        object: ObjectId(0),
        logical: 0,
        bytes: 4096,
        request_bytes: 4096,
        mirrored: false,
        detours_have_room: false,
        fixed_ssd: None,
        ssd_queue_length: ssds.iter().map(|ssd| ssd.queue_length).min().unwrap_or(0),
        ssds,
        hdds,
        reads_per_s: 0,
        requests_per_s: 0,
    }
}

/// A drive that nothing is known of in detail.
pub(super) fn hdd_profile() -> HddProfile {
    HddProfile {
        fast_latency: vec![(4096, 180_000)],
        mid_latency: vec![(4096, 280_000)],
        slow_latency_ns: 12_000_000,
        fast_stage_bytes: 50 << 20,
        mid_stage_bytes: 4 << 20,
        drain_idle_ns: 1_000_000_000,
        drain_bytes_per_s: 6 << 20,
        flush_base_ns: 1_000_000,
        position_ns: 8_000_000,
        detail: Box::default(),
    }
}

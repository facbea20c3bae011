//! What does one steering decision cost? A row per policy; run it in release.
//!
//! Source: acceptance of write steering, "Speed and memory": under 50 ns each. Two SSDs and two hard drives,
//! the write's size and every queue differ from call to call. `decide` is the decision alone, after the
//! policy has learned; in `told` it is also told of an arrival before and a completion after each.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock, not the engine")]

use std::hint::black_box;
use tandem_block::{DeviceId, Instant, ObjectId, Rng};
use tandem_engine::bcw::predictor::WriteState;
use tandem_engine::profile::{HddProfile, SsdProfile};
use tandem_engine::steer::settings::SteerConfig;
use tandem_engine::steer::{
    DriveProfiles, HddView, POLICIES, Seen, SsdView, Steer, SteerView, build,
};

const DECISIONS: u64 = 4_000_000;
const ROUNDS: usize = 5;
const VIEWS: usize = 1024;

fn profiles() -> DriveProfiles {
    let ssd = SsdProfile { flush_ns: 1_000_000, ..SsdProfile::default() };
    let hdd = HddProfile {
        fast_latency: vec![(4096, 35_000), (16_384, 66_000), (65_536, 180_000)],
        mid_latency: vec![(4096, 55_000), (16_384, 135_000), (65_536, 280_000)],
        slow_latency_ns: 12_000_000,
        fast_stage_bytes: 16 << 20,
        mid_stage_bytes: 8 << 20,
        drain_idle_ns: 50_000_000,
        drain_bytes_per_s: 200_000_000,
        flush_base_ns: 200_000_000,
        position_ns: 14_000_000,
        detail: Box::default(),
    };
    let device = DeviceId;
    DriveProfiles {
        ssds: vec![(device(0), ssd), (device(1), ssd)],
        hdds: vec![(device(2), hdd.clone()), (device(3), hdd)],
    }
}

/// What is seen differs from view to view.
struct Scene {
    bytes: u64,
    ssds: [SsdView; 2],
    hdds: [HddView; 2],
}

fn scene(rng: &mut Rng) -> Scene {
    let mut ssd = |device| {
        let in_flight_bytes = rng.below(1 << 20);
        SsdView {
            device: DeviceId(device),
            queue_length: rng.below(8) as u32,
            reads: rng.below(4) as u32,
            waiting_bytes: 0,
            in_flight_bytes,
            written_bytes: in_flight_bytes / 2,
            oldest_ns: rng.below(1_000_000),
        }
    };
    let ssds = [ssd(0), ssd(1)];
    let mut hdd = |device| HddView {
        device: DeviceId(device),
        accepting: rng.below(4) > 0,
        takes_slow: rng.below(2) > 0,
        predicted: WriteState::ALL[rng.below(3) as usize],
        queue_length: rng.below(3) as u32,
        idle: rng.below(2) > 0,
        wait_ns: 0,
        expected_ns: rng.below(2_000_000),
        reads_per_s: 0,
    };
    let hdds = [hdd(2), hdd(3)];
    Scene { bytes: 4096 << rng.below(8), ssds, hdds }
}

/// ns a decision, and the share redirected in percent. Time goes on from round to round.
fn measure(
    policy: &mut Box<dyn Steer>,
    scenes: &[Scene],
    (told, round): (bool, u64),
) -> (u64, u64) {
    let mut redirected = 0;
    let learns = told && policy.learns();
    let began = std::time::Instant::now();
    for number in 0..DECISIONS {
        let scene = &scenes[number as usize % VIEWS];
        let now = Instant::from_ns((round * DECISIONS + number) * 20_000);
        if learns {
            policy.observe(now, &Seen::Arrival { read: number % 3 == 0, bytes: scene.bytes });
        }
        let view = SteerView {
            now,
            object: ObjectId(0),
            logical: number * 7 % (1 << 24),
            bytes: scene.bytes,
            request_bytes: scene.bytes,
            mirrored: number % 2 == 0,
            detours_have_room: true,
            fixed_ssd: None,
            ssd_queue_length: scene.ssds[0].queue_length,
            ssds: &scene.ssds,
            hdds: &scene.hdds,
            reads_per_s: 1_000,
            requests_per_s: 3_000,
        };
        redirected += u64::from(black_box(policy.decide(black_box(&view))).target.is_log());
        if learns {
            policy.observe(
                now,
                &Seen::Completion {
                    device: DeviceId(0),
                    read: false,
                    is_users: true,
                    bytes: scene.bytes,
                    latency_ns: 20_000 + scene.ssds[0].in_flight_bytes,
                    queue_length: scene.ssds[0].queue_length,
                    in_flight_bytes: scene.ssds[0].in_flight_bytes,
                    written_bytes: scene.ssds[0].written_bytes,
                },
            );
        }
    }
    (began.elapsed().as_nanos() as u64 / DECISIONS, redirected * 100 / DECISIONS)
}

fn main() {
    let mut rng = Rng::new(1);
    let scenes: Vec<Scene> = (0..VIEWS).map(|_| scene(&mut rng)).collect();
    let mut configs: Vec<(String, SteerConfig)> =
        POLICIES.iter().map(|p| (p.name.to_owned(), SteerConfig::named(p.name))).collect();
    let auto = SteerConfig::named("mios-d").with("queue_length", u64::MAX - 1);
    configs.push(("mios-d:auto".into(), auto));
    println!("{:<12} {:>9} {:>7} {:>13}", "policy", "decide ns", "told ns", "redirected %");
    for (name, config) in configs {
        let mut policy = build(&config, &profiles()).expect("registered");
        let mut round = 0;
        let mut median = |told| {
            let mut one = |_| {
                round += 1;
                measure(&mut policy, &scenes, (told, round))
            };
            let mut rounds: Vec<(u64, u64)> = (0..ROUNDS).map(&mut one).collect();
            rounds.sort_unstable();
            rounds[ROUNDS / 2]
        };
        let (told, redirected) = median(true);
        let (alone, _) = median(false);
        println!("{name:<12} {alone:>9} {told:>7} {redirected:>13}");
    }
}

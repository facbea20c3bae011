//! Whose queue does a policy look at, where the SSD of a write is fixed?
//!
//! Source: [BCW §4.3]: `l(t)` is the queue of the SSD that would take the write.

use tandem_block::{Arrival, GIB, Instant, KIB, ObjectId, Op, RequestType, Rng, StreamId};
use tandem_engine::{Placement, SteerConfig};
use tandem_sim::replay::{DriveChoice, ReplayConfig, Survey, plan, replay};

const SSD_BYTES: u64 = GIB;
const WRITES: u64 = 4000;

/// How many of some writes to the second of two SSDs are redirected, sixteen at a time.
fn redirected(pairs: u64) -> u64 {
    let config = ReplayConfig {
        placement: Placement::Fixed,
        closed_loop: Some(16),
        ..ReplayConfig::of(
            SteerConfig::named("mios-d").with("pairs", pairs),
            vec![DriveChoice::shipped("vertex3", Some(SSD_BYTES)); 2],
            vec![DriveChoice::shipped("wd5000aaks", None); 2],
        )
    };
    let mut rng = Rng::new(3);
    let arrivals: Vec<Arrival> = (0..WRITES)
        .map(|number| Arrival {
            at: Instant::from_ns(number * 1000),
            object: ObjectId(0),
            op: Op::Write,
            offset_bytes: SSD_BYTES + rng.below(SSD_BYTES / (64 * KIB) - 1) * 64 * KIB,
            length_bytes: 64 * KIB,
            fua: false,
            stream: StreamId(0),
            data_type: RequestType::Data,
        })
        .collect();
    let mut survey = Survey::default();
    arrivals.iter().for_each(|arrival| survey.count(arrival));
    let plan = plan(&config, &survey).expect("it fits");
    let result = replay(&config, &plan, arrivals.into_iter()).expect("it runs");
    result.stats.redirected.0
}

/// The first SSD has nothing to do. Its empty queue kept every write on the second one.
#[test]
fn an_idle_ssd_does_not_speak_for_the_one_that_has_the_place() {
    for pairs in [0, 1] {
        let redirected = redirected(pairs);
        assert!(redirected > WRITES / 10, "pairs {pairs}: {redirected} of {WRITES}");
    }
}

//! A hard drive that is no longer what its profile says: what does recalibration save?
//!
//! Source: requirements M11 and B6; [TOS abstract].

use super::{Figures, Workload, run};
use crate::replay::ReplayError;
use tandem_block::{Duration, Instant};
use tandem_drives::hdd::changed;
use tandem_drives::spec::{HddSpec, ModelSpec, Sourced, load};

/// What becomes of the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drift {
    /// Nothing: it is as believed.
    None,
    /// Every time 30 % longer, every rate 30 % lower.
    Slower,
    /// Every time 30 % shorter, every rate 30 % higher.
    Faster,
    /// `W_f` and `W_m` halved.
    Halved,
    /// `W_f` and `W_m` doubled.
    Doubled,
    /// The write cache is switched off.
    CacheOff,
}

impl Drift {
    /// All of them with their names.
    pub const NAMED: [(&'static str, Drift); 6] = [
        ("as believed", Drift::None),
        ("30 % slower", Drift::Slower),
        ("30 % faster", Drift::Faster),
        ("W halved", Drift::Halved),
        ("W doubled", Drift::Doubled),
        ("write cache off", Drift::CacheOff),
    ];

    /// The drive afterwards.
    fn applied(self, spec: &HddSpec) -> HddSpec {
        match self {
            Drift::None => spec.clone(),
            Drift::Slower => changed(spec, 130, 70, 100),
            Drift::Faster => changed(spec, 70, 130, 100),
            Drift::Halved => changed(spec, 100, 100, 50),
            Drift::Doubled => changed(spec, 100, 100, 200),
            Drift::CacheOff => HddSpec {
                write_cache: Sourced::of(false, "derived: switched off by somebody"),
                ..spec.clone()
            },
        }
    }
}

/// A WD100EFAX beside a 960 EVO that changes after so long, under `policy`, with recalibration or
/// without.
///
/// # Errors
/// If the replay cannot be run.
pub fn drifting(
    policy: &str,
    drift: Drift,
    after: Duration,
    recalibrate: bool,
    workload: Workload<'_>,
) -> Result<Figures, ReplayError> {
    let ModelSpec::Hdd(spec) = load("wd100efax").expect("a shipped drive").model else {
        unreachable!("a hard drive")
    };
    let result = run(policy, 1, workload, |plan| {
        plan.drives[1].drift = vec![(Instant::ZERO + after, drift.applied(&spec))];
        plan.engine_mut().recalibrate = recalibrate;
    })?;
    Ok(Figures::of(&result))
}

//! Which synthetic workloads are there?
//!
//! A generator is an iterator of arrivals, computed in integers from a seed, so that every machine
//! makes the same workload. Times lie on a grid of 100 ns, which the MSR format can hold, and the
//! first request arrives at 0. A new generator is its file and one line in `GENERATORS`.

mod files;
mod intensity;
mod interval;
mod mixed;
mod pangu;
mod scatter;
mod serw;
mod settings;
mod sizes;
mod timeline;
mod uniform;
mod zipf;

use crate::spell;
use settings::Settings;
pub use settings::{Kind, Setting};
use tandem_block::{Arrival, Rng};

/// Arrivals in order of time, in bounded memory: nothing but a few tables is held.
pub struct Workload {
    arrivals: Box<dyn Iterator<Item = Arrival> + Send>,
    warm_up_requests: u64,
}

impl Workload {
    fn new(arrivals: impl Iterator<Item = Arrival> + Send + 'static) -> Workload {
        Workload::with_warm_up(arrivals, 0)
    }

    fn with_warm_up(
        arrivals: impl Iterator<Item = Arrival> + Send + 'static,
        warm_up_requests: u64,
    ) -> Workload {
        Workload { arrivals: Box::new(arrivals), warm_up_requests }
    }

    /// So many of the first arrivals only prepare what the workload is about, such as the files that
    /// are then used: statistics begin behind them.
    pub const fn warm_up_requests(&self) -> u64 {
        self.warm_up_requests
    }
}

impl Iterator for Workload {
    type Item = Arrival;

    #[inline]
    fn next(&mut self) -> Option<Arrival> {
        self.arrivals.next()
    }
}

impl std::fmt::Debug for Workload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Workload({} requests of warm-up)", self.warm_up_requests)
    }
}

/// Every generator, in the order in which `tandem formats` lists them.
pub const GENERATORS: &[Generator] = &[
    zipf::GENERATOR,
    uniform::GENERATOR,
    interval::GENERATOR,
    pangu::A,
    pangu::B,
    pangu::C,
    pangu::D,
    serw::NODE_A1,
    serw::NODE_A2,
    serw::NODE_B1,
    serw::NODE_B2,
    mixed::GENERATOR,
    files::POSTMARK,
    files::FILE_SERVER,
    files::WEB_SERVER,
    files::WEB_SERVER_ZIPF,
    files::MIXED,
];

/// All times are multiples of this.
pub(crate) const TICK_NS: u64 = 100;

/// One generator.
#[derive(Clone, Copy, Debug)]
pub struct Generator {
    /// What `tandem synth` calls it.
    pub name: &'static str,
    /// One line: what it imitates.
    pub summary: &'static str,
    /// What it can be told.
    pub settings: &'static [Setting],
    build: fn(&Settings, Rng) -> Result<Workload, SynthError>,
}

/// Why a workload cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SynthError {
    /// No generator of this name.
    #[error("no workload is called {name:?}; did you mean {nearest:?}?")]
    UnknownGenerator {
        /// What was asked for.
        name: String,
        /// The known name nearest to it.
        nearest: &'static str,
    },
    /// The generator has no such setting.
    #[error("{generator} has no setting {name:?}; did you mean {nearest:?}?")]
    UnknownSetting {
        /// The generator.
        generator: &'static str,
        /// What was asked for.
        name: String,
        /// The known name nearest to it.
        nearest: &'static str,
    },
    /// A setting is not of the form `name=value`.
    #[error("{generator}: {text:?} is not of the form setting=value")]
    NotASetting {
        /// The generator.
        generator: &'static str,
        /// What was written.
        text: String,
    },
    /// The same setting twice.
    #[error("{generator}: {name} is set twice")]
    Twice {
        /// The generator.
        generator: &'static str,
        /// The setting.
        name: &'static str,
    },
    /// The value cannot be read, or lies outside of the setting's range.
    #[error("{generator}: {name}={value:?} is not {want}")]
    BadValue {
        /// The generator.
        generator: &'static str,
        /// The setting.
        name: &'static str,
        /// What was written.
        value: String,
        /// What would do.
        want: String,
    },
    /// Settings that do not go together.
    #[error("{generator}: {why}")]
    Contradiction {
        /// The generator.
        generator: &'static str,
        /// What does not fit.
        why: &'static str,
    },
}

/// The generator of this name, if there is one.
pub fn generator_named(name: &str) -> Option<&'static Generator> {
    GENERATORS.iter().find(|generator| generator.name.eq_ignore_ascii_case(name))
}

/// Makes a workload from `name` or `name:setting=value,setting=value`. Sizes take B, KiB, MiB, GiB,
/// TiB, times ns, us, ms, s, min, shares a percent sign or a fraction.
///
/// # Errors
/// Names the unknown word and the known one nearest to it, or the value and what would do.
pub fn build(spec: &str, seed: u64) -> Result<Workload, SynthError> {
    let (name, assignments) = spec.split_once(':').unwrap_or((spec, ""));
    let name = name.trim();
    let generator = generator_named(name).ok_or_else(|| SynthError::UnknownGenerator {
        name: name.to_owned(),
        nearest: spell::nearest(name, GENERATORS.iter().map(|generator| generator.name)),
    })?;
    let settings = Settings::parse(generator.name, generator.settings, assignments)?;
    (generator.build)(&settings, Rng::new(seed))
}

#[cfg(test)]
mod tests;

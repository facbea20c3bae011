//! What do we believe of a drive before it was profiled here?
//!
//! Source: design decision 3: belief and truth are different types. The files of `profiles/` are
//! shipped inside the program, one per drive of the papers, each number beside its source; a later
//! profiler writes the same format. Never derived from a modelled drive's spec.

use serde::Deserialize;
use tandem_drives::spec::{Bytes, BytesPerSecond, LatencyTable, Nanos, Sourced};
use tandem_engine::profile::{HddProfile, SsdProfile};

/// What is believed of one drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Belief {
    /// The drive's name.
    pub name: String,
    /// One line about it.
    pub about: String,
    /// Hard drive or SSD.
    pub kind: BeliefKind,
}

/// What is believed, by sort of drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BeliefKind {
    /// Of a hard drive.
    Hdd(HddProfile),
    /// Of an SSD.
    Ssd {
        /// What the engine decides by.
        profile: SsdProfile,
        /// Bytes that the vendor warrants may be written (TBW); for results alone.
        endurance_bytes: Option<u64>,
    },
}

/// A profile that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The text is not a profile. The message carries line, key and reason.
    #[error("{origin} is not a drive profile: {why}")]
    Parse {
        /// The file, or the built-in name.
        origin: String,
        /// Line and reason.
        why: Box<toml::de::Error>,
    },
    /// A value makes no sense.
    #[error("{origin}: `{key}` {why}")]
    Invalid {
        /// The file, or the built-in name.
        origin: String,
        /// The offending key.
        key: &'static str,
        /// What it must be.
        why: &'static str,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    about: String,
    hdd: Option<HddFile>,
    ssd: Option<SsdFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HddFile {
    fast_latency: Sourced<LatencyTable>,
    mid_latency: Sourced<LatencyTable>,
    slow_latency: Sourced<Nanos>,
    fast_stage: Sourced<Bytes>,
    mid_stage: Sourced<Bytes>,
    drain_idle: Sourced<Nanos>,
    drain_rate: Sourced<BytesPerSecond>,
    flush_base: Sourced<Nanos>,
    position: Sourced<Nanos>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SsdFile {
    write_rate: Sourced<BytesPerSecond>,
    flush: Sourced<Nanos>,
    endurance: Option<Sourced<Bytes>>,
}

impl HddFile {
    /// The first key whose value or source makes no sense, and why.
    fn fault(&self) -> Option<(&'static str, &'static str)> {
        let stage = |bytes: Bytes| (64 << 10..=1 << 30).contains(&bytes.0);
        let brief = |time: Nanos| time <= Nanos::MAX;
        let source = "has a source that does not begin with a known word (paper, page, measured, \
                      derived, fitted, memory, guess)";
        [
            ("fast_latency", self.fast_latency.has_known_source(), source),
            ("mid_latency", self.mid_latency.has_known_source(), source),
            ("slow_latency", self.slow_latency.has_known_source(), source),
            ("fast_stage", self.fast_stage.has_known_source(), source),
            ("mid_stage", self.mid_stage.has_known_source(), source),
            ("drain_idle", self.drain_idle.has_known_source(), source),
            ("drain_rate", self.drain_rate.has_known_source(), source),
            ("flush_base", self.flush_base.has_known_source(), source),
            ("position", self.position.has_known_source(), source),
            ("fast_stage", stage(self.fast_stage.get()), "must be 64KiB to 1GiB"),
            ("mid_stage", stage(self.mid_stage.get()), "must be 64KiB to 1GiB"),
            ("slow_latency", brief(self.slow_latency.get()), "must be at most 100s"),
            ("drain_idle", brief(self.drain_idle.get()), "must be at most 100s"),
            ("flush_base", brief(self.flush_base.get()), "must be at most 100s"),
            ("position", brief(self.position.get()), "must be at most 100s"),
            ("drain_rate", self.drain_rate.get().0 >= 1_000_000, "must be at least 1MB/s"),
        ]
        .into_iter()
        .find(|rule| !rule.1)
        .map(|rule| (rule.0, rule.2))
    }

    fn profile(self) -> HddProfile {
        HddProfile {
            fast_latency: self.fast_latency.value.0,
            mid_latency: self.mid_latency.value.0,
            slow_latency_ns: self.slow_latency.value.0,
            fast_stage_bytes: self.fast_stage.value.0,
            mid_stage_bytes: self.mid_stage.value.0,
            drain_idle_ns: self.drain_idle.value.0,
            drain_bytes_per_s: self.drain_rate.value.0,
            flush_base_ns: self.flush_base.value.0,
            position_ns: self.position.value.0,
        }
    }
}

impl SsdFile {
    fn fault(&self) -> Option<(&'static str, &'static str)> {
        let endurance = self.endurance.as_ref();
        let source = "has a source that does not begin with a known word";
        [
            ("write_rate", self.write_rate.has_known_source(), source),
            ("flush", self.flush.has_known_source(), source),
            ("endurance", endurance.is_none_or(Sourced::has_known_source), source),
            ("write_rate", self.write_rate.get().0 >= 1_000_000, "must be at least 1MB/s"),
            ("flush", self.flush.get() <= Nanos::MAX, "must be at most 100s"),
            ("endurance", endurance.is_none_or(|e| e.get().0 > 0), "must be above 0"),
        ]
        .into_iter()
        .find(|rule| !rule.1)
        .map(|rule| (rule.0, rule.2))
    }
}

/// Reads a profile from its text; `origin` names it in errors.
///
/// # Errors
/// If the text is not TOML, has unknown or missing keys, or a value that makes no sense.
pub fn parse(text: &str, origin: &str) -> Result<Belief, ProfileError> {
    let file: File = toml::from_str(text)
        .map_err(|why| ProfileError::Parse { origin: origin.to_owned(), why: Box::new(why) })?;
    let invalid = |(key, why)| ProfileError::Invalid { origin: origin.to_owned(), key, why };
    let kind = match (file.hdd, file.ssd) {
        (Some(hdd), None) => match hdd.fault() {
            Some(fault) => return Err(invalid(fault)),
            None => BeliefKind::Hdd(hdd.profile()),
        },
        (None, Some(ssd)) => match ssd.fault() {
            Some(fault) => return Err(invalid(fault)),
            None => BeliefKind::Ssd {
                profile: SsdProfile {
                    write_bytes_per_s: ssd.write_rate.get().0,
                    flush_ns: ssd.flush.get().0,
                },
                endurance_bytes: ssd.endurance.map(|bytes| bytes.get().0),
            },
        },
        _ => return Err(invalid(("hdd, ssd", "are tables of which there must be exactly one"))),
    };
    Ok(Belief { name: file.name, about: file.about, kind })
}

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../profiles/", $name, ".toml")))),*]
    };
}

/// The profiles that are shipped: (name, text).
pub const SHIPPED: &[(&str, &str)] = shipped![
    "960evo",
    "660p",
    "sm961",
    "x25e",
    "510",
    "vertex3",
    "wd100efax",
    "wd8004fryz",
    "wd40ezrz",
    "st8000dm0004",
    "st4000dm004",
    "wd5000aaks",
];

/// The shipped profile of this drive, if there is one.
pub fn shipped(name: &str) -> Option<Belief> {
    let (name, text) = SHIPPED.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
    Some(parse(text, name).expect("a test parses every shipped profile"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_drives::spec::{DriveKind, SPECS};

    #[test]
    fn every_known_drive_has_a_profile_of_its_sort() {
        for spec in SPECS.iter().filter(|spec| spec.kind != DriveKind::Null) {
            let belief = shipped(spec.name).expect("shipped");
            assert_eq!(belief.name, spec.name);
            let is_hdd = matches!(belief.kind, BeliefKind::Hdd(_));
            assert_eq!(is_hdd, spec.kind == DriveKind::Hdd, "{}", spec.name);
        }
        assert_eq!(SHIPPED.len() + 1, SPECS.len(), "all but null");
    }

    /// [BCW §3, Table 2] as it is printed.
    #[test]
    fn the_wd100efax_is_the_papers() {
        let Some(BeliefKind::Hdd(hdd)) = shipped("WD100EFAX").map(|belief| belief.kind) else {
            panic!("a hard drive")
        };
        assert_eq!((hdd.fast_stage_bytes, hdd.mid_stage_bytes), (16 << 20, 8 << 20));
        assert_eq!(hdd.slow_latency_ns, 12_000_000);
        assert_eq!(hdd.fast_latency, [(4096, 35_000), (16384, 66_000), (65536, 180_000)]);
        assert_eq!(hdd.mid_latency, [(4096, 55_000), (16384, 135_000), (65536, 280_000)]);
    }

    #[test]
    fn bad_profiles_are_refused_with_the_key() {
        let good = SHIPPED.iter().find(|(name, _)| *name == "wd100efax").expect("shipped").1;
        for (from, to, want) in [
            ("mid_stage ", "mid_stages ", "mid_stages"),
            ("\"8MiB\"", "\"8 bananas\"", "8 bananas"),
            ("\"8MiB\"", "\"8KiB\"", "`mid_stage` must be"),
            ("paper: BCW §3.2, Table 2 (W_m)", "because", "`mid_stage` has a source"),
            ("[hdd]", "[ssd]", "unknown field"),
        ] {
            let error = parse(&good.replacen(from, to, 1), "x.toml").expect_err(to).to_string();
            assert!(error.contains(want) && error.contains("x.toml"), "{to}: {error}");
        }
        assert!(
            parse("name = 'x'\nabout = 'y'", "x")
                .expect_err("neither")
                .to_string()
                .contains("exactly one")
        );
    }
}

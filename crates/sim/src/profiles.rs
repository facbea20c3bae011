//! What do we believe of a drive before it was profiled here?
//!
//! Source: design decision 3: a profile and a drive model are different types. The files of `profiles/` are
//! shipped inside the program, one per drive of the papers, each number beside its source; a later
//! profiler writes the same format. Never derived from a modelled drive's spec.

mod costs;
mod file;
mod identity;
mod write;

pub use costs::text as text_of_costs;
pub use identity::{Identity, Misfit};
pub use write::{Measured, text_of};

use file::File;
use std::sync::Arc;
use tandem_engine::profile::ssd::SsdCosts;
use tandem_engine::profile::{HddProfile, SsdProfile};
use tandem_engine::qos::cost::CostTable;

/// What is believed of one drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveProfile {
    /// The drive's name.
    pub name: String,
    /// One line about it.
    pub about: String,
    /// Hard drive or SSD.
    pub kind: ProfileKind,
    /// Which drive was measured, and when; `None` for a profile that was not measured.
    pub identity: Option<Identity>,
    /// What requests cost, if that was measured: without it nothing can be promised.
    pub request_costs: Option<Arc<CostTable>>,
}

/// What is believed, by sort of drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProfileKind {
    /// Of a hard drive.
    Hdd(HddProfile),
    /// Of a hard drive whose buffer cannot be used to steer writes: the reason, for the user.
    NoStaircase(String),
    /// Of an SSD.
    Ssd {
        /// What the engine decides by.
        profile: SsdProfile,
        /// Bytes that the vendor warrants may be written (TBW); for results alone.
        endurance_bytes: Option<u64>,
        /// What was measured; `None` for a profile from the papers.
        costs: Option<Box<SsdCosts>>,
    },
}

/// What a drive's vendor rates it for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rating {
    /// Bytes a day: of a hard drive reads and writes, of an SSD writes.
    pub bytes_per_day: u64,
    /// By which figure.
    pub basis: String,
}

/// An SSD's warranted bytes are told for its whole life; spread over so many years they are a day's
/// (guess: the warranty of most drives).
const SSD_YEARS: u64 = 5;

impl DriveProfile {
    /// Bytes that may be written to an SSD in its life, if its vendor says so.
    pub fn endurance_bytes(&self) -> Option<u64> {
        match &self.kind {
            ProfileKind::Ssd { endurance_bytes, .. } => *endurance_bytes,
            _ => None,
        }
    }

    /// What the drive is rated for, if that is known.
    pub fn rating(&self) -> Option<Rating> {
        let tb = |bytes: u64| bytes / 1_000_000_000_000;
        match &self.kind {
            ProfileKind::Hdd(profile) => {
                profile.detail.workload_bytes_per_year.map(|bytes| Rating {
                    bytes_per_day: (bytes / 365).max(1),
                    basis: format!("{} TB a year, reads and writes", tb(bytes)),
                })
            }
            ProfileKind::NoStaircase(_) => None,
            ProfileKind::Ssd { .. } => self.endurance_bytes().map(|bytes| Rating {
                bytes_per_day: (bytes / (SSD_YEARS * 365)).max(1),
                basis: format!("{} TB written in {SSD_YEARS} years", tb(bytes)),
            }),
        }
    }
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

/// Reads a profile from its text; `origin` names it in errors.
///
/// # Errors
/// If the text is not TOML, has unknown or missing keys, or a value that makes no sense.
pub fn parse(text: &str, origin: &str) -> Result<DriveProfile, ProfileError> {
    let file: File = toml::from_str(text)
        .map_err(|why| ProfileError::Parse { origin: origin.to_owned(), why: Box::new(why) })?;
    let invalid = |(key, why)| ProfileError::Invalid { origin: origin.to_owned(), key, why };
    if let Some(why) = file.identity.as_ref().and_then(|identity| identity.fault()) {
        return Err(invalid(("identity", why)));
    }
    let kind = match (file.hdd, file.ssd) {
        (Some(hdd), None) => hdd.profile().map_err(invalid)?,
        (None, Some(ssd)) => ssd.profile().map_err(invalid)?,
        _ => return Err(invalid(("hdd, ssd", "are tables of which there must be exactly one"))),
    };
    let request_costs = file.costs.as_ref().map(|costs| costs.table());
    let request_costs = request_costs.transpose().map_err(|why| invalid(("costs", why)))?;
    Ok(DriveProfile {
        name: file.name,
        about: file.about,
        kind,
        identity: file.identity,
        request_costs: request_costs.map(Arc::new),
    })
}

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../profiles/", $name, ".toml")))),*]
    };
}

/// The profiles that are shipped: (name, text).
pub const SHIPPED: &[(&str, &str)] = shipped![
    "960evo",
    "960evo-bcw",
    "960evo-bcw-85us",
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
pub fn shipped(name: &str) -> Option<DriveProfile> {
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
            let profile = shipped(spec.name).expect("shipped");
            assert_eq!(profile.name, spec.name);
            let is_hdd = matches!(profile.kind, ProfileKind::Hdd(_));
            assert_eq!(is_hdd, spec.kind == DriveKind::Hdd, "{}", spec.name);
        }
        assert_eq!(SHIPPED.len() + 1, SPECS.len(), "all but null");
    }

    /// [BCW §3, Table 2] as it is printed.
    #[test]
    fn the_wd100efax_is_the_papers() {
        let Some(ProfileKind::Hdd(hdd)) = shipped("WD100EFAX").map(|profile| profile.kind) else {
            panic!("a hard drive")
        };
        assert_eq!((hdd.fast_stage_bytes, hdd.mid_stage_bytes), (16 << 20, 8 << 20));
        assert_eq!(hdd.slow_latency_ns, 12_000_000);
        assert_eq!(hdd.fast_latency, [(4096, 35_000), (16384, 66_000), (65536, 180_000)]);
        assert_eq!(hdd.mid_latency, [(4096, 55_000), (16384, 135_000), (65536, 280_000)]);
    }

    /// What is measured can be written down, and read again as the same profile.
    #[test]
    fn a_measured_profile_survives_the_file() {
        let identity = Identity {
            model: "a \"drive\"".to_owned(),
            serial: String::new(),
            size: tandem_drives::spec::Bytes(500_000_000_000),
            measured: "2026-03-01".to_owned(),
        };
        for name in ["wd5000aaks", "x25e"] {
            let known = SPECS.iter().find(|known| known.name == name).expect("known");
            let mut spec = known.spec();
            if known.kind == DriveKind::Ssd {
                spec = spec.with_capacity_bytes(4_000_000_000).expect("it can be that small");
            }
            let findings = crate::measure::measure(&spec, &mut |_| {}).expect("measured");
            let measured = Measured {
                name,
                about: "measured",
                identity: &identity,
                findings: &findings,
                missing: &[],
            };
            let text = text_of(&measured);
            let profile = parse(&text, "m.toml").unwrap_or_else(|why| panic!("{why}\n{text}"));
            assert_eq!(profile.identity.as_ref(), Some(&identity));
            let (ProfileKind::Hdd(_), crate::measure::Findings::Hdd(found)) =
                (&profile.kind, &findings)
            else {
                let crate::measure::Findings::Ssd(costs) = &findings else { panic!("an SSD") };
                let ProfileKind::Ssd { costs: Some(read), .. } = &profile.kind else {
                    panic!("costs in {text}")
                };
                assert_eq!(read.sustained_latency, costs.sustained_latency);
                assert_eq!(read.gc_event_ns, costs.gc_event_ns);
                let ProfileKind::Ssd { profile, .. } = &profile.kind else { panic!("an SSD") };
                for mid_ns in [30_000, 55_000, 100_000] {
                    let depth = profile.depth_slower_than(mid_ns);
                    assert_eq!(depth, costs.queue_length(mid_ns), "M27: what L is looked up by");
                }
                continue;
            };
            let ProfileKind::Hdd(read) = profile.kind else { panic!("a hard drive") };
            let made = found.profile().expect("a staircase");
            assert_eq!(read.fast_latency, made.fast_latency);
            assert_eq!(read.detail.seeks.len(), made.detail.seeks.len());
            assert!(read.fast_stage_bytes.abs_diff(made.fast_stage_bytes) <= 512);
            assert!(read.fast_stage_bytes_of(16 << 10).abs_diff(2 << 20) < 100_000);
            assert_eq!(read.detail.drain_law, made.detail.drain_law);
        }
    }

    #[test]
    fn a_drive_without_staircase_says_why() {
        let text = "name = 'x'\nabout = 'y'\n[hdd]\nstaircase = 'none'\nreason = 'cache off'\n";
        let profile = parse(text, "x").expect("a profile");
        assert_eq!(profile.kind, ProfileKind::NoStaircase("cache off".to_owned()));
    }

    #[test]
    fn bad_profiles_are_refused_with_the_key() {
        let good = SHIPPED.iter().find(|(name, _)| *name == "wd100efax").expect("shipped").1;
        for (from, to, want) in [
            ("mid_stage ", "mid_stages ", "mid_stages"),
            ("slow_latency ", "# ", "`slow_latency` is missing"),
            ("[hdd]", "[hdd]\nstaircase = 'none'", "`reason` is missing"),
            ("[hdd]", "[hdd]\nstaircase = 'none'\nreason = 'x'", "yet there are stages"),
            (
                "[hdd]",
                "[identity]\nmodel='m'\nserial='s'\nsize='1GB'\nmeasured='now'\n[hdd]",
                "`identity` has no day",
            ),
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

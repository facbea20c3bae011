//! What can `tandem replay` be told? (design, "The command line")

use super::Settings;
use super::way::{self, Way};
use crate::failure::Failure;
use crate::policy;
use crate::report::names::{durability_name, placement_name};
use std::path::{Path, PathBuf};
use tandem_block::{DurabilityClass, Quantity};
use tandem_drives::spec::{self, SpecError};
use tandem_engine::{Placement, SteerConfig, TierConfig};
use tandem_sim::profiles;
use tandem_sim::replay::{DriveChoice, ReadBack, ReplayConfig, Resident};
use tandem_traces::transform::Speedup;
use tandem_traces::{OpenOptions, spell};

/// Replay traces through the engine in virtual time over modelled drives.
///
/// Prints a table for each trace, or one JSON document (an array for several traces). The same
/// trace, drives, policy and seed give the same result on every machine.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Trace files (plain, gzip or zstd), or synth:NAME[:SETTING=VALUE,...]
    #[arg(value_name = "TRACE", required = true)]
    pub traces: Vec<String>,
    /// The traces' format; `auto` looks at the first lines
    #[arg(long, value_name = "F", default_value = "auto")]
    pub format: String,
    /// Policies, comma-separated, with settings as in mios-d:queue_length=2; or `all`; or `bare`, the
    /// hard drive alone, or `bare-ssd`, to compare with [default: ssd-first,mios-d,mios-e]
    #[arg(long, value_name = "P,P,...")]
    pub policy: Option<String>,
    /// Tiers and caches, comma-separated, with settings as in hot-dst:interval=5s; or `all`. Each is
    /// replayed under each policy [default: none, and with it the policies; otherwise ssd-first]
    #[arg(long, value_name = "T,T,...")]
    pub tier: Option<String>,
    /// An SSD: a name of `tandem drives`, a spec file, or `none`; may be given several times
    #[arg(long, value_name = "SPEC", default_value = "960evo")]
    pub ssd: Vec<String>,
    /// A hard drive: a name of `tandem drives`, a spec file, or `none`; may be given several times
    #[arg(long, value_name = "SPEC", default_value = "wd100efax")]
    pub hdd: Vec<String>,
    /// What is believed of the first SSD, the second, …: a shipped profile or what `tandem profile` wrote; may be
    /// given several times [default: the shipped profile of the drive's name, if there is one]
    #[arg(long, value_name = "NAME|F.toml")]
    pub ssd_profile: Vec<String>,
    /// The same of hard drives
    #[arg(long, value_name = "NAME|F.toml")]
    pub hdd_profile: Vec<String>,
    /// Another capacity for every SSD, such as 16GiB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub ssd_size: Option<u64>,
    /// Another capacity for every hard drive, such as 1TiB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub hdd_size: Option<u64>,
    /// How much faster than the trace: 10, 2.5 or 1/3
    #[arg(long, value_name = "X", default_value = "1")]
    pub speedup: String,
    /// Requests at most
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Seeds drives and synthetic workloads
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Count malformed lines instead of ending at the first
    #[arg(long)]
    pub skip_bad: bool,
    /// The action of a blkparse trace that is the request: Q (queued), D (sent to the drive), ...
    #[arg(long, value_name = "A", default_value_t = 'Q')]
    pub action: char,
    /// mapped: out of place, with the promise of durability; fixed: identity, as in the papers
    #[arg(long, value_name = "mapped|fixed", default_value = "mapped")]
    pub placement: String,
    /// What SSDs hold at the start: fresh, slc-full, steady, or used-1 to used-99, percent of the pages
    #[arg(long, value_name = "S", default_value = "steady")]
    pub ssd_state: String,
    /// Where blocks live that are read before they are written: ssd, hdd or none
    #[arg(long, value_name = "R", default_value = "hdd")]
    pub resident: String,
    /// What an acknowledgement means: volatile-ok, journaled, protected or strict
    #[arg(long, value_name = "C", default_value = "volatile-ok")]
    pub durability: String,
    /// RAM for reads of redirected data, beside what is there until hard drives are flushed; unused
    /// under fixed placement [default: 64MiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub read_back: Option<u64>,
    /// Bring a redirected block to an SSD when its hard drive has read it N times, 0: never
    /// [default: 0]
    #[arg(long, value_name = "N")]
    pub promote_after: Option<u32>,
    /// Keep N requests outstanding instead of following the times of the trace
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub closed_loop: Option<u32>,
    /// The order in which an SSD serves requests [default: fifo, or edf with a --stream]
    #[arg(long, value_name = "ORDER")]
    pub qos: Option<String>,
    /// What a volume of the trace is promised, as in 0:reservation=250/s,window=1s: reservation, size,
    /// window, does, confidence, weight, limit; may be given several times
    #[arg(long, value_name = "VOLUME:S=V,...")]
    pub stream: Vec<String>,
    /// More may be promised than the SSDs can: everyone gets the proportion of it
    #[arg(long)]
    pub overcommit: bool,
    /// Overlay the traces by time instead of replaying one after the other
    #[arg(long)]
    pub merge: bool,
    /// Print one JSON document instead of tables
    #[arg(long)]
    pub json: bool,
    /// Also write a page with charts: one file, nothing loaded from elsewhere
    #[arg(long, value_name = "F.html")]
    pub report: Option<PathBuf>,
}

fn size(text: &str) -> Result<u64, String> {
    Ok(Quantity::Bytes.parse(text)?)
}

impl Arguments {
    /// Everything but the traces.
    pub(super) fn settings(&self) -> Result<Settings, Failure> {
        let speedup = Speedup::parse(&self.speedup)
            .map_err(|why| Failure::usage(format!("--speedup: {why}")))?;
        let config = ReplayConfig {
            ssds: believed(choices(&self.ssd, self.ssd_size, "--ssd")?, &self.ssd_profile, false)?,
            hdds: believed(choices(&self.hdd, self.hdd_size, "--hdd")?, &self.hdd_profile, true)?,
            steer: SteerConfig::default(),
            tier: TierConfig::default(),
            volume_tiers: Vec::new(),
            placement: named(
                "--placement",
                &self.placement,
                [Placement::Mapped, Placement::Fixed].map(|p| (placement_name(p), p)),
            )?,
            ssd_state: self
                .ssd_state
                .parse()
                .map_err(|why| Failure::usage(format!("--ssd-state: {why}")))?,
            resident: named("--resident", &self.resident, Resident::NAMED)?,
            durability: named(
                "--durability",
                &self.durability,
                [
                    DurabilityClass::VolatileOk,
                    DurabilityClass::Journaled,
                    DurabilityClass::Protected,
                    DurabilityClass::Strict,
                ]
                .map(|class| (durability_name(class), class)),
            )?,
            seed: self.seed,
            closed_loop: self.closed_loop,
            budgets: Default::default(),
            read_back: ReadBack { bytes: self.read_back, promote_after_reads: self.promote_after },
            at_home: false,
            timeline: self.report.is_some(),
        };
        let drives = (config.ssds.len(), config.hdds.len());
        let alone = self.tier.as_ref().map(|_| "ssd-first");
        let (bare, named) = match &self.policy {
            Some(text) => way::take_bare(text, drives)?,
            None => (Vec::new(), alone.map(str::to_owned)),
        };
        let policies = match named {
            None if !bare.is_empty() => Vec::new(),
            named => policy::over(named.as_deref(), drives)?,
        };
        let tiers = policy::tiers(self.tier.as_deref())?;
        let pairs = |steer: &SteerConfig| {
            let steer = steer.clone();
            tiers
                .clone()
                .into_iter()
                .map(move |tier| Way::Pool(steer.clone(), tier))
                .collect::<Vec<_>>()
        };
        let pools = policies.iter().flat_map(pairs);
        let choices: Vec<Way> = bare.into_iter().map(Way::Bare).chain(pools).collect();
        let promises = super::promises::Wanted::of(self)?;
        way::refuse_promises(&choices, promises.is_usual())?;
        Ok(Settings { choices, speedup, config, promises })
    }

    /// How to read traces.
    pub(super) fn open_options(&self) -> Result<OpenOptions, Failure> {
        let format = (!self.format.eq_ignore_ascii_case("auto")).then(|| self.format.clone());
        let action = u8::try_from(self.action).ok().filter(u8::is_ascii_alphabetic);
        let blkparse_action = action
            .ok_or_else(|| Failure::usage("--action is a letter of blkparse, such as Q or D"))?;
        Ok(OpenOptions { format, skip_bad: self.skip_bad, blkparse_action })
    }
}

/// One of a few words.
pub fn named<T: Copy, const N: usize>(
    option: &str,
    text: &str,
    known: [(&'static str, T); N],
) -> Result<T, Failure> {
    let found = known.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    found.map(|(_, value)| *value).ok_or_else(|| {
        let nearest = spell::nearest(text, known.iter().map(|(name, _)| *name));
        let all: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        let all = all.join(", ");
        Failure::usage(format!("{option} is one of {all}, not {text:?}; did you mean {nearest:?}?"))
    })
}

/// The drives of one role, with what is believed of them.
pub fn choices(
    names: &[String],
    size_bytes: Option<u64>,
    option: &str,
) -> Result<Vec<DriveChoice>, Failure> {
    let mut choices = Vec::new();
    for name in names.iter().filter(|name| !name.eq_ignore_ascii_case("none")) {
        let spec = spec::load(name).map_err(|error| match error {
            SpecError::Unknown { .. } => Failure::usage(format!("{option}: {error}")),
            other => Failure::from(other),
        })?;
        let wrong = match spec.kind() {
            spec::DriveKind::Ssd => option == "--hdd",
            spec::DriveKind::Hdd => option == "--ssd",
            spec::DriveKind::Null => false,
        };
        if wrong {
            let kind = spec.kind();
            return Err(Failure::usage(format!("{option}: {name} is an {kind}")));
        }
        let profile = profiles::shipped(&spec.name);
        choices.push(DriveChoice { spec, profile, size_bytes });
    }
    Ok(choices)
}

/// The drives, the first of them with these profiles.
fn believed(
    mut drives: Vec<DriveChoice>,
    names: &[String],
    of_hdd: bool,
) -> Result<Vec<DriveChoice>, Failure> {
    let role = if of_hdd { "hdd" } else { "ssd" };
    if names.len() > drives.len() {
        let (profiles, drives) = (names.len(), drives.len());
        return Err(Failure::usage(format!(
            "--{role}-profile: more profiles ({profiles}) than drives ({drives}); name an --{role} for each"
        )));
    }
    for (drive, name) in drives.iter_mut().zip(names) {
        let profile = crate::profile::named(name, Path::new(""), of_hdd)
            .map_err(|why| Failure::usage(format!("--{role}-profile: {why}")))?;
        drive.profile = Some(profile);
    }
    Ok(drives)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use tandem_drives::SsdState;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn settings(line: &str) -> Result<Settings, Failure> {
        let words = std::iter::once("replay").chain(line.split_whitespace());
        Line::try_parse_from(words).expect(line).arguments.settings()
    }

    #[test]
    fn defaults_are_the_contracts() {
        let Ok(settings) = settings("t") else { panic!("defaults are sound") };
        let labels: Vec<String> = settings.choices.iter().map(Way::label).collect();
        assert_eq!(labels, ["ssd-first", "mios-d", "mios-e"]);
        let config = &settings.config;
        assert_eq!((config.ssds[0].spec.name.as_str(), config.ssds.len()), ("960evo", 1));
        assert_eq!((config.hdds[0].spec.name.as_str(), config.hdds.len()), ("wd100efax", 1));
        assert_eq!((config.placement, config.seed), (Placement::Mapped, 1));
        assert_eq!((config.ssd_state, config.resident), (SsdState::Steady, Resident::Hdd));
        assert_eq!(config.durability, DurabilityClass::VolatileOk);
        assert!(config.hdds[0].profile.is_some());
    }

    #[test]
    fn every_tier_meets_every_policy() {
        let labels = |line| {
            let Ok(settings) = settings(line) else { panic!("{line}") };
            settings.choices.iter().map(Way::label).collect::<Vec<String>>()
        };
        assert_eq!(
            labels("t --tier none,hot-dst,interval=5s"),
            ["ssd-first", "hot-dst:interval=5s"]
        );
        let both = "t --tier none,cold-dst --policy mios-d,serw";
        assert_eq!(labels(both), ["mios-d", "mios-d + cold-dst", "serw", "serw + cold-dst"]);
        assert_eq!(labels("t --tier all").len(), tandem_engine::tier::TIERS.len());
        assert_eq!(labels("t --policy bare,bare-ssd"), ["bare-hdd", "bare-ssd"]);
        let beside = "t --tier none,hot-dst --policy ssd-first,bare";
        assert_eq!(labels(beside), ["bare-hdd", "ssd-first", "hot-dst"]);
    }

    #[test]
    fn drives_repeat_and_scale() {
        let line = "t --ssd 660p --ssd sm961 --hdd none --ssd-size 16GiB --placement fixed";
        let Ok(settings) = settings(line) else { panic!("{line}") };
        assert_eq!((settings.config.ssds.len(), settings.config.hdds.len()), (2, 0));
        assert_eq!(settings.config.ssds[1].size_bytes, Some(16 << 30));
        assert_eq!(settings.config.placement, Placement::Fixed);
    }

    #[test]
    fn a_drive_can_be_believed_to_be_another() {
        let line = "t --hdd wd100efax --hdd wd100efax --hdd-profile wd40ezrz --ssd-profile x25e";
        let Ok(settings) = settings(line) else { panic!("{line}") };
        let names = |of: &[DriveChoice]| {
            let names = of.iter().map(|one| one.profile.as_ref().map(|it| it.name.clone()));
            names.collect::<Vec<_>>()
        };
        let want = ["wd40ezrz", "wd100efax"].map(|name| Some(name.to_owned()));
        assert_eq!(names(&settings.config.hdds), want, "the second keeps its own");
        assert_eq!(names(&settings.config.ssds), [Some("x25e".to_owned())]);
        assert_eq!(settings.config.ssds[0].spec.name, "960evo");
    }

    #[test]
    fn usage_errors_name_what_would_do() {
        for (line, want) in [
            ("t --placement fxied", "did you mean \"fixed\""),
            ("t --ssd-state steddy", "steady, or used-1 to used-99"),
            ("t --resident sdd", "one of ssd, hdd, none"),
            ("t --durability volatile", "did you mean \"volatile-ok\""),
            ("t --ssd 970evo", "did you mean `960evo`"),
            ("t --hdd 960evo", "is an ssd"),
            ("t --hdd-profile wd100efx", "--hdd-profile: there is no profile called"),
            (
                "t --ssd-profile wd100efax",
                "--ssd-profile: the profile \"wd100efax\" is of the other",
            ),
            (
                "t --ssd-profile x25e --ssd-profile x25e",
                "more profiles (2) than drives (1); name an --ssd",
            ),
            ("t --speedup fast", "is not a speed-up"),
            ("t --policy mios", "did you mean"),
            ("t --tier hot-dts", "no tier is called \"hot-dts\"; did you mean \"hot-dst\""),
            ("t --tier hot-dst:interval=0s", "a time from 1ms"),
            ("t --tier none:extent=4KiB", "no settings"),
            ("t --policy serw --hdd none", "redirects to a hard drive"),
            ("t --policy even-split", "needs 2 SSDs"),
            ("t --policy bare-hdd --hdd none", "name an --hdd"),
            ("t --policy bare --qos edf", "name a policy beside it"),
            ("t --policy bare,bare-ssd --stream 0:weight=2", "name a policy beside it"),
        ] {
            let Err(Failure::Usage(text)) = settings(line) else { panic!("{line} was taken") };
            assert!(text.contains(want), "{line}: {text}");
        }
        for line in ["t --ssd-size 16", "t --closed-loop 0", "", "t --report"] {
            let words = std::iter::once("replay").chain(line.split_whitespace());
            assert_eq!(Line::try_parse_from(words).err().expect(line).exit_code(), 2, "{line}");
        }
    }
}

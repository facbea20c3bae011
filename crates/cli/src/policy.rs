//! Which policies and tiers do `--policy` and `--tier` name, and with which settings?
//!
//! `P,P,…` or `all`; each `P` is a name of the registry, or `name:setting=value,setting=value`.

use crate::failure::Failure;
use crate::setting;
use std::fmt::Write as _;
use tandem_engine::settings::{Chosen, Registry};
use tandem_engine::{SteerConfig, TierConfig};
use tandem_traces::spell;

/// What is replayed if nothing is asked for.
pub const USUAL: &str = "ssd-first,mios-d,mios-e";

/// The policies asked for, over so many SSDs and hard drives. What `all` or the usual list has
/// beyond what these drives can do is left out, and said on stderr.
///
/// # Errors
/// As `parse_list`, or what a policy that was named lacks.
pub fn over(text: Option<&str>, drives: (usize, usize)) -> Result<Vec<SteerConfig>, Failure> {
    let named = text.filter(|text| text.trim() != "all");
    let mut policies = parse_list("--policy", text.unwrap_or(USUAL))?;
    let lacks = |policy: &SteerConfig| policy.entry().and_then(|e| e.lacks(drives.0, drives.1));
    if named.is_some() {
        return match policies.iter().find_map(lacks) {
            Some(why) => Err(Failure::usage(format!("--policy: {why}"))),
            None => Ok(policies),
        };
    }
    policies.retain(|policy| match lacks(policy) {
        Some(why) => {
            crate::stderr::note(format_args!("note: left out: {why}"));
            false
        }
        None => true,
    });
    Ok(policies)
}

/// The tiers asked for; none unless said otherwise.
///
/// # Errors
/// As `parse_list`.
pub fn tiers(text: Option<&str>) -> Result<Vec<TierConfig>, Failure> {
    text.map_or_else(|| Ok(vec![TierConfig::default()]), |text| parse_list("--tier", text))
}

/// Reads the list; doubled entries are kept once.
///
/// # Errors
/// Names the unknown word and the known one nearest to it, or the value and what would do.
fn parse_list<R: Registry>(option: &str, text: &str) -> Result<Vec<Chosen<R>>, Failure> {
    let mut chosen: Vec<Chosen<R>> = Vec::new();
    for piece in text.split(',').map(str::trim) {
        // a piece such as `queue_length=3` goes on with the settings of the entry before it
        if piece.contains('=') && !piece.contains(':') {
            let Some(last) = chosen.last_mut() else {
                let what = R::WHAT;
                return Err(Failure::usage(format!("{option}: {piece:?} is no {what}'s name")));
            };
            set(option, last, piece)?;
            continue;
        }
        if piece == "all" {
            chosen.extend(R::names().into_iter().map(Chosen::named));
            continue;
        }
        chosen.push(parse(option, piece)?);
    }
    let mut kept: Vec<Chosen<R>> = Vec::new();
    for one in chosen {
        if !kept.contains(&one) {
            kept.push(one);
        }
    }
    Ok(kept)
}

/// Reads one entry with its settings.
///
/// # Errors
/// As `parse_list`.
pub fn parse<R: Registry>(option: &str, text: &str) -> Result<Chosen<R>, Failure> {
    let (name, settings) = text.split_once(':').unwrap_or((text, ""));
    let mut chosen = named(name.trim()).map_err(Failure::usage)?;
    for setting in settings.split(',').map(str::trim).filter(|setting| !setting.is_empty()) {
        set(option, &mut chosen, setting)?;
    }
    Ok(chosen)
}

/// As it is written in results: the name, with what is not default.
pub fn label<R: Registry>(chosen: &Chosen<R>) -> String {
    let mut label = chosen.name().to_owned();
    for (at, (setting, value)) in chosen.changed().enumerate() {
        let joint = if at == 0 { ':' } else { ',' };
        let _ = write!(label, "{joint}{}={}", setting.name, setting::print(setting, value));
    }
    label
}

/// A policy and a tier as one word: the policy alone where there is no tier, the tier alone where the
/// policy is the usual one.
pub fn label_both(steer: &SteerConfig, tier: &TierConfig) -> String {
    match (*steer == SteerConfig::default(), *tier == TierConfig::default()) {
        (_, true) => label(steer),
        (true, false) => label(tier),
        (false, false) => format!("{} + {}", label(steer), label(tier)),
    }
}

/// The entry of this name with its defaults.
///
/// # Errors
/// The known name nearest to it.
pub fn named<R: Registry>(name: &str) -> Result<Chosen<R>, String> {
    let found = R::names().into_iter().find(|known| known.eq_ignore_ascii_case(name));
    found.map(Chosen::named).ok_or_else(|| {
        let nearest = spell::nearest(name, R::names());
        format!(
            "no {} is called {name:?}; did you mean {nearest:?}? (`tandem policies` lists all)",
            R::WHAT
        )
    })
}

fn set<R: Registry>(option: &str, chosen: &mut Chosen<R>, words: &str) -> Result<(), Failure> {
    let name = chosen.name().to_owned();
    let wrong = |text: String| Failure::usage(format!("{option} {name}: {text}"));
    let Some((name, value)) = words.split_once('=') else {
        return Err(wrong(format!("{words:?} is not of the form setting=value")));
    };
    set_value(chosen, name, value).map_err(wrong)
}

/// Sets one setting from its text.
///
/// # Errors
/// The known setting nearest to the unknown one, or the bounds of its value.
pub fn set_value<R: Registry>(
    chosen: &mut Chosen<R>,
    name: &str,
    value: &str,
) -> Result<(), String> {
    let name = name.trim().replace('-', "_");
    let settings = chosen.settings();
    let Some(setting) = settings.iter().find(|setting| setting.name == name) else {
        if settings.is_empty() {
            return Err("it has no settings".into());
        }
        let nearest = spell::nearest(&name, settings.iter().map(|setting| setting.name));
        return Err(format!("it has no setting {name:?}; did you mean {nearest:?}?"));
    };
    let value = setting::parse(setting, value)?;
    chosen.set(setting.name, value).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_engine::settings::{Kind, Steers};
    use tandem_engine::steer::POLICIES;
    use tandem_engine::tier::Tiers;

    fn labels(text: &str) -> Vec<String> {
        labels_of::<Steers>(text)
    }

    fn labels_of<R: Registry>(text: &str) -> Vec<String> {
        parse_list::<R>("--it", text).expect(text).iter().map(label).collect()
    }

    #[test]
    fn lists_are_read() {
        assert_eq!(labels("ssd-first, MIOS-D"), ["ssd-first", "mios-d"]);
        let all: Vec<&str> = POLICIES.iter().map(|entry| entry.name).collect();
        assert_eq!(labels("all"), all);
        assert_eq!(
            labels("mios-d:queue_length=5,mios-e,mios-d:queue-length=5"),
            ["mios-d:queue_length=5", "mios-e"]
        );
        assert_eq!(labels("mios-e,queue_length=0"), ["mios-e:queue_length=0"]);
    }

    #[test]
    fn errors_say_what_would_do() {
        for (text, want) in [
            ("mios-dd", "did you mean \"mios-d\""),
            ("", "no steering policy is called \"\""),
            ("queue_length=2", "is no steering policy's name"),
            ("mios-d:queue=2", "did you mean \"queue_length\""),
            ("mios-d:queue_length", "not of the form"),
            ("mios-d:queue_length=many", "whole number"),
            ("ssd-first:queue_length=2", "no settings"),
        ] {
            let Err(Failure::Usage(error)) = parse_list::<Steers>("--policy", text) else {
                panic!("{text} was taken")
            };
            assert!(error.contains(want), "{text}: {error}");
        }
    }

    #[test]
    fn what_the_drives_cannot_do_is_left_out_or_refused() {
        let labels = |text, drives| {
            let policies = over(text, drives).unwrap_or_else(|_| panic!("{text:?} was refused"));
            policies.iter().map(label).collect::<Vec<String>>()
        };
        assert_eq!(labels(None, (1, 1)), ["ssd-first", "mios-d", "mios-e"]);
        assert_eq!(labels(None, (1, 0)), ["ssd-first"]);
        assert_eq!(labels(Some("all"), (2, 0)), ["ssd-first", "even-split", "ssd-only", "nhc"]);
        assert_eq!(labels(Some("all"), (1, 1)).len(), POLICIES.len() - 1, "even-split needs two");
        for (text, drives, want) in [
            ("mios-d", (1, 0), "there is none"),
            ("ssd-first,even-split", (1, 1), "needs 2 SSDs, and there are 1"),
        ] {
            let Err(Failure::Usage(error)) = over(Some(text), drives) else { panic!("{text}") };
            assert!(error.contains(want), "{error}");
        }
    }

    /// Every setting is read at both ends of its bounds and in all its words, and what results say
    /// of it is read again.
    #[test]
    fn every_registered_setting_can_be_set() {
        every_setting_can_be_set::<Steers>();
        every_setting_can_be_set::<Tiers>();
    }

    fn every_setting_can_be_set<R: Registry>() {
        for name in R::names() {
            for setting in R::settings(name).expect("its own name") {
                let mut values: Vec<u64> = setting.words.iter().map(|(_, value)| *value).collect();
                if setting.kind != Kind::Word {
                    values.extend([setting.bounds.0, setting.bounds.1]);
                }
                for value in values {
                    let written = setting::print(setting, value);
                    let text = format!("{name}:{}={written}", setting.name);
                    let want = if value == R::default(name, setting) { name } else { &text };
                    assert_eq!(labels_of::<R>(&text), [want]);
                }
            }
        }
    }
}

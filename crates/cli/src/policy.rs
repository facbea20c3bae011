//! Which policies does `--policy` name, and with which settings?
//!
//! `P,P,…` or `all`; each `P` is a name of the registry, or `name:setting=value,setting=value`.

use crate::failure::Failure;
use crate::setting;
use std::fmt::Write as _;
use tandem_engine::SteerConfig;
use tandem_engine::steer::{POLICIES, PolicyEntry};
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
    let mut policies = parse_list(text.unwrap_or(USUAL))?;
    let lacks = |policy: &SteerConfig| policy.entry().and_then(|e| e.lacks(drives.0, drives.1));
    if named.is_some() {
        return match policies.iter().find_map(lacks) {
            Some(why) => Err(Failure::usage(format!("--policy: {why}"))),
            None => Ok(policies),
        };
    }
    policies.retain(|policy| match lacks(policy) {
        Some(why) => {
            eprintln!("note: left out: {why}");
            false
        }
        None => true,
    });
    Ok(policies)
}

/// Reads the list; doubled entries are kept once.
///
/// # Errors
/// Names the unknown word and the known one nearest to it, or the value and what would do.
fn parse_list(text: &str) -> Result<Vec<SteerConfig>, Failure> {
    let mut policies: Vec<SteerConfig> = Vec::new();
    for piece in text.split(',').map(str::trim) {
        // a piece such as `queue_length=3` goes on with the settings of the policy before it
        if piece.contains('=') && !piece.contains(':') {
            let Some(last) = policies.last_mut() else {
                return Err(Failure::usage(format!("--policy: {piece:?} is not a policy's name")));
            };
            set(last, piece)?;
            continue;
        }
        if piece == "all" {
            policies.extend(POLICIES.iter().map(default));
            continue;
        }
        policies.push(parse(piece)?);
    }
    let mut kept: Vec<SteerConfig> = Vec::new();
    for policy in policies {
        if !kept.contains(&policy) {
            kept.push(policy);
        }
    }
    Ok(kept)
}

/// Reads one policy with its settings.
///
/// # Errors
/// As `parse_list`.
pub fn parse(text: &str) -> Result<SteerConfig, Failure> {
    let (name, settings) = text.split_once(':').unwrap_or((text, ""));
    let mut policy = named(name.trim()).map_err(Failure::usage)?;
    for setting in settings.split(',').map(str::trim).filter(|setting| !setting.is_empty()) {
        set(&mut policy, setting)?;
    }
    Ok(policy)
}

/// As it is written in results: the name, with what is not default.
pub fn label(policy: &SteerConfig) -> String {
    let mut label = policy.policy().to_owned();
    for (at, (setting, value)) in policy.changed().enumerate() {
        let joint = if at == 0 { ':' } else { ',' };
        let _ = write!(label, "{joint}{}={}", setting.name, setting::print(setting, value));
    }
    label
}

/// The policy of this name with its defaults.
///
/// # Errors
/// The known name nearest to it.
pub fn named(name: &str) -> Result<SteerConfig, String> {
    let found = POLICIES.iter().find(|entry| entry.name.eq_ignore_ascii_case(name));
    found.map(default).ok_or_else(|| {
        let nearest = spell::nearest(name, POLICIES.iter().map(|entry| entry.name));
        format!(
            "no policy is called {name:?}; did you mean {nearest:?}? (`tandem policies` lists all)"
        )
    })
}

fn default(entry: &PolicyEntry) -> SteerConfig {
    SteerConfig::named(entry.name)
}

fn set(policy: &mut SteerConfig, words: &str) -> Result<(), Failure> {
    let name = policy.policy().to_owned();
    let wrong = |text: String| Failure::usage(format!("--policy {name}: {text}"));
    let Some((name, value)) = words.split_once('=') else {
        return Err(wrong(format!("{words:?} is not of the form setting=value")));
    };
    set_value(policy, name, value).map_err(wrong)
}

/// Sets one setting from its text.
///
/// # Errors
/// The known setting nearest to the unknown one, or the bounds of its value.
pub fn set_value(policy: &mut SteerConfig, name: &str, value: &str) -> Result<(), String> {
    let name = name.trim().replace('-', "_");
    let settings = policy.entry().map_or(&[][..], |entry| entry.settings);
    let Some(setting) = settings.iter().find(|setting| setting.name == name) else {
        if settings.is_empty() {
            return Err("it has no settings".into());
        }
        let nearest = spell::nearest(&name, settings.iter().map(|setting| setting.name));
        return Err(format!("it has no setting {name:?}; did you mean {nearest:?}?"));
    };
    let value = setting::parse(setting, value)?;
    policy.set(setting.name, value).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_engine::steer::settings::Kind;

    fn labels(text: &str) -> Vec<String> {
        parse_list(text).expect(text).iter().map(label).collect()
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
            ("", "no policy is called \"\""),
            ("queue_length=2", "is not a policy's name"),
            ("mios-d:queue=2", "did you mean \"queue_length\""),
            ("mios-d:queue_length", "not of the form"),
            ("mios-d:queue_length=many", "whole number"),
            ("ssd-first:queue_length=2", "no settings"),
        ] {
            let Err(Failure::Usage(error)) = parse_list(text) else { panic!("{text} was taken") };
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
        assert_eq!(labels(Some("all"), (2, 0)), ["ssd-first", "even-split", "ssd-only"]);
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
        for entry in POLICIES {
            for setting in entry.settings {
                let mut values: Vec<u64> = setting.words.iter().map(|(_, value)| *value).collect();
                if setting.kind != Kind::Word {
                    values.extend([setting.bounds.0, setting.bounds.1]);
                }
                for value in values {
                    let written = setting::print(setting, value);
                    let text = format!("{}:{}={written}", entry.name, setting.name);
                    let want = if value == setting.default { entry.name } else { &text };
                    assert_eq!(labels(&text), [want]);
                }
            }
        }
    }
}

//! Which policies does `--policy` name, and with which settings?
//!
//! `P,P,…` or `all`; each `P` is a name of the registry, or `name:setting=value,setting=value`.

use crate::failure::Failure;
use tandem_engine::SteerConfig;
use tandem_engine::steer::{POLICIES, PolicyEntry};
use tandem_traces::spell;

/// Longest useful queue length.
const QUEUE_LENGTH_MAX: u32 = 1_000_000;

/// Reads the list; doubled entries are kept once.
///
/// # Errors
/// Names the unknown word and the known one nearest to it, or the value and what would do.
pub fn parse_list(text: &str) -> Result<Vec<SteerConfig>, Failure> {
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
    let mut policy = default(entry(name.trim())?);
    for setting in settings.split(',').map(str::trim).filter(|setting| !setting.is_empty()) {
        set(&mut policy, setting)?;
    }
    Ok(policy)
}

/// As it is written in results: the name, with what is not default.
pub fn label(policy: &SteerConfig) -> String {
    let default = SteerConfig::default().queue_length;
    if policy.queue_length == default {
        policy.policy.clone()
    } else {
        format!("{}:queue_length={}", policy.policy, policy.queue_length)
    }
}

fn entry(name: &str) -> Result<&'static PolicyEntry, Failure> {
    let found = POLICIES.iter().find(|entry| entry.name.eq_ignore_ascii_case(name));
    found.ok_or_else(|| {
        let nearest = spell::nearest(name, POLICIES.iter().map(|entry| entry.name));
        Failure::usage(format!(
            "no policy is called {name:?}; did you mean {nearest:?}? (`tandem policies` lists all)"
        ))
    })
}

fn default(entry: &PolicyEntry) -> SteerConfig {
    SteerConfig { policy: entry.name.to_owned(), ..SteerConfig::default() }
}

fn set(policy: &mut SteerConfig, setting: &str) -> Result<(), Failure> {
    let entry = entry(&policy.policy)?;
    let wrong = |text: String| Failure::usage(format!("--policy {}: {text}", entry.name));
    let Some((name, value)) = setting.split_once('=') else {
        return Err(wrong(format!("{setting:?} is not of the form setting=value")));
    };
    let name = name.trim().replace('-', "_");
    if !entry.settings.iter().any(|(known, _)| *known == name) {
        if entry.settings.is_empty() {
            return Err(wrong("it has no settings".into()));
        }
        let nearest = spell::nearest(&name, entry.settings.iter().map(|(known, _)| *known));
        return Err(wrong(format!("it has no setting {name:?}; did you mean {nearest:?}?")));
    }
    assert_eq!(name, "queue_length", "every setting of the registry is read here");
    policy.queue_length =
        value.trim().parse().ok().filter(|length| *length <= QUEUE_LENGTH_MAX).ok_or_else(
            || wrong(format!("{name}={value:?} is not a whole number up to 1000000")),
        )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(text: &str) -> Vec<String> {
        parse_list(text).expect(text).iter().map(label).collect()
    }

    #[test]
    fn lists_are_read() {
        assert_eq!(labels("ssd-first, MIOS-D"), ["ssd-first", "mios-d"]);
        assert_eq!(labels("all"), ["ssd-first", "mios-d", "mios-e"]);
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
    fn every_registered_setting_can_be_set() {
        for entry in POLICIES {
            for (name, _) in entry.settings {
                let text = format!("{}:{name}=3", entry.name);
                assert_eq!(labels(&text), [format!("{}:queue_length=3", entry.name)]);
            }
        }
    }
}

//! The registry of steering policies: names and settings, as a volume chooses them.

use super::{POLICIES, PolicyEntry};
use crate::settings::{Registry, Setting, SteerConfig, Steers};

impl Registry for Steers {
    const WHAT: &'static str = "steering policy";
    const USUAL: &'static str = "ssd-first";

    fn names() -> Vec<&'static str> {
        POLICIES.iter().map(|entry| entry.name).collect()
    }

    fn settings(name: &str) -> Option<&'static [Setting]> {
        POLICIES.iter().find(|entry| entry.name == name).map(|entry| entry.settings)
    }
}

impl SteerConfig {
    /// Name in `steer::POLICIES`.
    pub fn policy(&self) -> &str {
        self.name()
    }

    /// Its registry entry, if there is one.
    pub fn entry(&self) -> Option<&'static PolicyEntry> {
        POLICIES.iter().find(|entry| entry.name == self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::SettingError;

    #[test]
    fn defaults_need_not_be_said() {
        let mut config = SteerConfig::named("mios-d");
        assert_eq!(config.get("queue_length"), 2);
        config.set("queue_length", 5).expect("within the bounds");
        assert_eq!(config.get("queue_length"), 5);
        assert_eq!(config.changed().map(|(s, v)| (s.name, v)).next(), Some(("queue_length", 5)));
        config.set("queue_length", 2).expect("the default");
        assert_eq!(config, SteerConfig::named("mios-d"));
    }

    #[test]
    fn what_is_not_there_is_an_error() {
        let mut config = SteerConfig::named("mios-d");
        assert!(matches!(config.set("queue", 5), Err(SettingError::Setting { .. })));
        let too_long = config.set("queue_length", 1_000_001);
        assert!(matches!(too_long, Err(SettingError::Value { largest: 1_000_000, .. })));
        let mut nobody = SteerConfig::named("mios");
        assert!(matches!(nobody.set("queue_length", 5), Err(SettingError::Entry { .. })));
        let unchanged = SteerConfig::named("ssd-first").with("queue_length", 1);
        assert_eq!(unchanged, SteerConfig::default());
    }

    #[test]
    fn every_default_is_allowed_and_every_name_is_snake_case() {
        for entry in POLICIES {
            for (at, setting) in entry.settings.iter().enumerate() {
                assert!(setting.allows(setting.default), "{} {}", entry.name, setting.name);
                let plain = |c: char| c.is_ascii_lowercase() || c == '_';
                assert!(setting.name.chars().all(plain), "{}", setting.name);
                let twice = entry.settings[..at].iter().any(|other| other.name == setting.name);
                assert!(!twice, "{} has {} twice", entry.name, setting.name);
            }
        }
    }
}

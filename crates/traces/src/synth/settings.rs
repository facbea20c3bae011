//! What was a generator told? `name=value` pairs, checked against what it can be told.

use super::SynthError;
use crate::{fields, spell};
use tandem_block::Quantity;

/// One thing that a generator can be told.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// What it is when nobody says.
    pub default: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// One line about it.
    pub summary: &'static str,
}

/// What values a setting takes. All are kept as integers.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Bytes, a multiple of 512 within these bounds.
    Bytes {
        /// Least.
        least: u64,
        /// Most.
        most: u64,
    },
    /// A time; kept in nanoseconds.
    Time {
        /// Least.
        least_ns: u64,
        /// Most.
        most_ns: u64,
    },
    /// A count or a rate per second.
    Count {
        /// Least.
        least: u64,
        /// Most.
        most: u64,
    },
    /// A share of a whole, 0 to 100 %; kept in millionths.
    Share,
    /// A number between 0 and 2, such as Zipf's theta; kept in millionths.
    Exponent,
    /// One of these words; kept as its index.
    Choice(&'static [&'static str]),
}

/// The values of one generator's settings.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    generator: &'static str,
    values: Vec<(&'static Setting, u64)>,
}

impl Settings {
    /// Reads `name=value,name=value`; what is not named has its default.
    pub(super) fn parse(
        generator: &'static str,
        known: &'static [Setting],
        text: &str,
    ) -> Result<Settings, SynthError> {
        let mut given: Vec<Option<u64>> = vec![None; known.len()];
        for assignment in text.split(',').map(str::trim).filter(|text| !text.is_empty()) {
            let Some((name, value)) = assignment.split_once('=') else {
                return Err(SynthError::NotASetting { generator, text: assignment.to_owned() });
            };
            let name = name.trim().replace('-', "_");
            let Some(index) = known.iter().position(|setting| setting.name == name) else {
                let nearest = spell::nearest(&name, known.iter().map(|setting| setting.name));
                return Err(SynthError::UnknownSetting { generator, name, nearest });
            };
            let setting = &known[index];
            if given[index].is_some() {
                return Err(SynthError::Twice { generator, name: setting.name });
            }
            let value = value.trim();
            given[index] = Some(setting.kind.read(value).map_err(|want| SynthError::BadValue {
                generator,
                name: setting.name,
                value: value.to_owned(),
                want,
            })?);
        }
        let default = |setting: &Setting| setting.kind.read(setting.default);
        let values = known
            .iter()
            .zip(given)
            .map(|(setting, given)| {
                (setting, given.unwrap_or_else(|| default(setting).expect("defaults are checked")))
            })
            .collect();
        Ok(Settings { generator, values })
    }

    /// The value of a setting.
    ///
    /// # Panics
    /// If the generator has no such setting.
    pub(super) fn get(&self, name: &str) -> u64 {
        let found = self.values.iter().find(|(setting, _)| setting.name == name);
        found.unwrap_or_else(|| panic!("{} has no setting {name}", self.generator)).1
    }

    /// An error about settings that do not go together.
    pub(super) fn contradiction<T>(&self, why: &'static str) -> Result<T, SynthError> {
        Err(SynthError::Contradiction { generator: self.generator, why })
    }
}

impl Kind {
    /// Reads a value; the error says what would do.
    fn read(self, text: &str) -> Result<u64, String> {
        match self {
            Kind::Bytes { least, most } => fields::whole(text.as_bytes(), "")
                .ok()
                .or_else(|| Quantity::Bytes.parse(text).ok())
                .filter(|bytes| bytes.is_multiple_of(512) && (least..=most).contains(bytes))
                .ok_or_else(|| {
                    format!(
                        "a multiple of 512 bytes from {} to {}, written like 4KiB",
                        Quantity::Bytes.print(least),
                        Quantity::Bytes.print(most)
                    )
                }),
            Kind::Time { least_ns, most_ns } => Quantity::Time
                .parse(text)
                .ok()
                .filter(|ns| (least_ns..=most_ns).contains(ns))
                .ok_or_else(|| {
                    let span = tandem_block::Duration::from_ns;
                    let (least, most) = (span(least_ns), span(most_ns));
                    format!("a time from {least} to {most}, written like 100us")
                }),
            Kind::Count { least, most } => fields::whole(text.as_bytes(), "")
                .ok()
                .filter(|count| (least..=most).contains(count))
                .ok_or_else(|| format!("a whole number from {least} to {most}")),
            Kind::Share => share(text).ok_or_else(|| "a share, written like 30% or 0.3".to_owned()),
            Kind::Exponent => fields::decimal(text.as_bytes(), 6, "")
                .ok()
                .filter(|&ppm| ppm <= 2_000_000)
                .ok_or_else(|| "a number from 0 to 2".to_owned()),
            Kind::Choice(words) => words
                .iter()
                .position(|&word| word == text)
                .map(|index| index as u64)
                .ok_or_else(|| format!("one of {}", words.join(", "))),
        }
    }
}

/// A share in millionths, from `30%` or `0.3`.
fn share(text: &str) -> Option<u64> {
    let ppm = match text.ends_with('%') {
        true => Quantity::Share.parse(text).ok(),
        false => fields::decimal(text.as_bytes(), 6, "").ok(),
    };
    ppm.filter(|&ppm| ppm <= 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synth::GENERATORS;
    use tandem_block::TIB;

    #[test]
    fn values_are_read_with_their_units() {
        let bytes = Kind::Bytes { least: 512, most: TIB };
        let time = Kind::Time { least_ns: 100, most_ns: 60_000_000_000 };
        let count = Kind::Count { least: 1, most: 9 };
        for (kind, text, want) in [
            (bytes, "4KiB", Some(4096)),
            (bytes, "1.5 MiB", Some(3 << 19)),
            (bytes, "1024", Some(1024)),
            (bytes, "100", None),
            (bytes, "4KB", None),
            (bytes, "2TiB", None),
            (bytes, "", None),
            (time, "20us", Some(20_000)),
            (time, "0.5s", Some(500_000_000)),
            (time, "20", None),
            (time, "1ns", None),
            (count, "9", Some(9)),
            (count, "0", None),
            (Kind::Share, "30%", Some(300_000)),
            (Kind::Share, "0.125", Some(125_000)),
            (Kind::Share, "101%", None),
            (Kind::Exponent, "0.99", Some(990_000)),
            (Kind::Exponent, "3", None),
            (Kind::Choice(&["fixed", "exponential"]), "exponential", Some(1)),
            (Kind::Choice(&["fixed", "exponential"]), "poisson", None),
        ] {
            assert_eq!(kind.read(text).ok(), want, "{text}");
        }
    }

    #[test]
    fn defaults_are_within_their_own_bounds() {
        for generator in GENERATORS {
            for setting in generator.settings {
                assert!(setting.kind.read(setting.default).is_ok(), "{}", setting.name);
            }
        }
    }
}

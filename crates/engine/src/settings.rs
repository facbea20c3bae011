//! Which settings has a policy or a tier, and what does a volume set them to?
//!
//! Source: design decision 5. A registry lists the settings of each of its entries; values are integers
//! in the unit of their kind. Reading and printing them with units is the command line's affair.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::RangeInclusive;

/// What a setting counts, and in which unit its value is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Things.
    Count,
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Time,
    /// Things per second.
    Rate,
    /// Millionths.
    Share,
    /// Millionths of once.
    Factor,
    /// One of the setting's words.
    Word,
}

/// A setting of a policy.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its name, snake_case.
    pub name: &'static str,
    /// What its values count.
    pub kind: Kind,
    /// Its value if none is set.
    pub(crate) default: u64,
    /// The least and the largest value that is not a word.
    pub bounds: (u64, u64),
    /// Values that are written as words, such as `auto`.
    pub words: &'static [(&'static str, u64)],
    /// What it means, in a line.
    pub meaning: &'static str,
}

impl Setting {
    /// A setting without words.
    pub const fn new(
        name: &'static str,
        kind: Kind,
        default: u64,
        bounds: RangeInclusive<u64>,
        meaning: &'static str,
    ) -> Self {
        let bounds = (*bounds.start(), *bounds.end());
        assert!(bounds.0 <= bounds.1, "the least value is no more than the largest");
        Setting { name, kind, default, bounds, words: &[], meaning }
    }

    /// The same with words for some values.
    #[must_use]
    pub const fn words(mut self, words: &'static [(&'static str, u64)]) -> Self {
        self.words = words;
        self
    }

    /// May it have this value?
    pub fn allows(&self, value: u64) -> bool {
        let number = self.kind != Kind::Word && (self.bounds.0..=self.bounds.1).contains(&value);
        number || self.words.iter().any(|(_, word)| *word == value)
    }
}

/// A registry of things that a volume chooses by name.
pub trait Registry: Clone + std::fmt::Debug + PartialEq + Eq + Send + Sync + 'static {
    /// What its entries are called.
    const WHAT: &'static str;
    /// The entry that is chosen unless another one is.
    const USUAL: &'static str;

    /// All names, in the order in which they are listed.
    fn names() -> Vec<&'static str>;

    /// The settings of an entry, if there is one of that name.
    fn settings(name: &str) -> Option<&'static [Setting]>;

    /// The value that a setting of this entry has if none is set.
    fn default(_name: &str, setting: &Setting) -> u64 {
        setting.default
    }
}

/// An entry or setting that is not as asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingError {
    /// Nothing of that name.
    #[error("there is no {what} called {name}")]
    Entry {
        /// What is chosen.
        what: &'static str,
        /// The name given.
        name: String,
    },
    /// No setting of that name.
    #[error("the {what} {name} has no setting {setting}")]
    Setting {
        /// What is chosen.
        what: &'static str,
        /// Of which entry.
        name: String,
        /// The setting's name as given.
        setting: String,
    },
    /// A value out of bounds.
    #[error("{setting} = {value} is outside {least} to {largest}")]
    Value {
        /// Which setting.
        setting: &'static str,
        /// The value given.
        value: u64,
        /// The least that would do.
        least: u64,
        /// The largest.
        largest: u64,
    },
}

/// What a volume chose of a registry, with settings.
///
/// Only what differs from the defaults is kept, so that two ways to say the same are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen<R> {
    name: String,
    changed: BTreeMap<&'static str, u64>,
    registry: PhantomData<R>,
}

impl<R: Registry> Default for Chosen<R> {
    fn default() -> Self {
        Self::named(R::USUAL)
    }
}

impl<R: Registry> From<&str> for Chosen<R> {
    fn from(name: &str) -> Self {
        Self::named(name)
    }
}

impl<R: Registry> Chosen<R> {
    /// An entry with its defaults; whether there is one of that name is seen when it is built.
    pub fn named(name: &str) -> Self {
        Chosen { name: name.to_owned(), changed: BTreeMap::new(), registry: PhantomData }
    }

    /// Its name in the registry.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The settings that it has, none if the name is not known.
    pub fn settings(&self) -> &'static [Setting] {
        R::settings(&self.name).unwrap_or(&[])
    }

    fn setting(&self, name: &str) -> Option<&'static Setting> {
        self.settings().iter().find(|setting| setting.name == name)
    }

    /// Sets one.
    ///
    /// # Errors
    /// If there is no such entry or setting, or the value is out of its bounds.
    pub fn set(&mut self, name: &str, value: u64) -> Result<(), SettingError> {
        if R::settings(&self.name).is_none() {
            return Err(SettingError::Entry { what: R::WHAT, name: self.name.clone() });
        }
        let Some(setting) = self.setting(name) else {
            let (name, setting) = (self.name.clone(), name.to_owned());
            return Err(SettingError::Setting { what: R::WHAT, name, setting });
        };
        if !setting.allows(value) {
            let (least, largest) = setting.bounds;
            return Err(SettingError::Value { setting: setting.name, value, least, largest });
        }
        if value == R::default(&self.name, setting) {
            self.changed.remove(setting.name);
        } else {
            self.changed.insert(setting.name, value);
        }
        Ok(())
    }

    /// The same with one setting changed where there is one, for tests and experiments that run
    /// everything.
    #[must_use]
    pub fn with(mut self, name: &str, value: u64) -> Self {
        if self.setting(name).is_some() {
            self.set(name, value).expect("a value within the bounds");
        }
        self
    }

    /// The value of a setting.
    ///
    /// # Panics
    /// If the entry does not list it.
    pub fn get(&self, name: &str) -> u64 {
        let setting = self.setting(name).expect("only settings that are listed are asked for");
        let default = R::default(&self.name, setting);
        self.changed.get(name).copied().unwrap_or(default)
    }

    /// What is not as by default, by name.
    pub fn changed(&self) -> impl Iterator<Item = (&'static Setting, u64)> + '_ {
        self.changed.iter().filter_map(|(name, value)| Some((self.setting(name)?, *value)))
    }
}

/// The steering policies: `steer/registry.rs` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steers;

/// Which steering policy a volume has, by its registered name, with settings.
pub type SteerConfig = Chosen<Steers>;

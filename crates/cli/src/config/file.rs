//! How is a pool's configuration written down?
//!
//! The file as it is, every value with its place in the text. What the values mean is `check`'s.

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use toml::Spanned;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub pool: Pool,
    #[serde(default)]
    pub device: Vec<Spanned<Device>>,
    #[serde(default)]
    pub volume: Vec<Spanned<Volume>>,
    #[serde(default)]
    pub serve: Serve,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pool {
    pub name: Spanned<String>,
    pub second_home_lag: Option<Spanned<String>>,
    pub read_back: Option<Spanned<String>>,
    pub promote_after: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Device {
    pub role: Spanned<String>,
    pub path: Spanned<String>,
    pub size: Option<Spanned<String>>,
    pub emulate: Option<Spanned<String>>,
    pub profile: Option<Spanned<String>>,
    pub profile_age_days: Option<u64>,
    pub write_cache: Option<Spanned<String>>,
    pub workload_rating: Option<Spanned<String>>,
    pub padding_budget: Option<Spanned<String>>,
    pub log_budget: Option<Spanned<String>>,
    pub write_budget: Option<Spanned<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Volume {
    pub name: Spanned<String>,
    pub size: Spanned<String>,
    pub steer: Option<Spanned<Steer>>,
    pub tier: Option<Spanned<String>>,
    pub durability: Option<Spanned<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Serve {
    #[serde(default)]
    pub nbd: Vec<Spanned<String>>,
    #[serde(default)]
    pub allow_remote: bool,
    pub control: Option<Spanned<String>>,
    pub fuse: Option<Spanned<String>>,
    pub submission: Option<Spanned<String>>,
    pub spin: Option<Spanned<String>>,
}

/// `"mios-d"`, or `{ policy = "mios-d", queue_length = 2 }`: the policy and its settings as they
/// are written.
#[derive(Debug)]
pub(super) struct Steer {
    pub policy: String,
    pub settings: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct SteerTable {
    policy: String,
    #[serde(flatten)]
    settings: BTreeMap<String, SettingValue>,
}

/// A number without unit, or a text.
#[derive(Deserialize)]
#[serde(untagged)]
enum SettingValue {
    Number(i64),
    Text(String),
}

impl<'de> Deserialize<'de> for Steer {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Steer;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a policy's name or a table such as { policy = \"mios-d\" }")
            }
            fn visit_str<E>(self, policy: &str) -> Result<Steer, E> {
                Ok(Steer { policy: policy.to_owned(), settings: BTreeMap::new() })
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Steer, A::Error> {
                let table = SteerTable::deserialize(MapAccessDeserializer::new(map))?;
                let text = |value| match value {
                    SettingValue::Number(number) => number.to_string(),
                    SettingValue::Text(text) => text,
                };
                let settings = table.settings.into_iter().map(|(name, value)| (name, text(value)));
                Ok(Steer { policy: table.policy, settings: settings.collect() })
            }
        }
        from.deserialize_any(Either)
    }
}

//! How is a pool's configuration written down?
//!
//! The file as it is, every value with its place in the text. What the values mean is `check`'s.

mod listen;

pub(super) use listen::{Client, Control, Listen};
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
    pub stream: Vec<Spanned<Stream>>,
    #[serde(default)]
    pub qos: Qos,
    #[serde(default)]
    pub memory: Memory,
    #[serde(default)]
    pub destage: Destage,
    #[serde(default)]
    pub serve: Serve,
    #[serde(default)]
    pub client: Vec<Spanned<Client>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pool {
    pub name: Spanned<String>,
    pub metadata_replica_lag: Option<Spanned<String>>,
    pub read_back: Option<Spanned<String>>,
    pub promote_after: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Device {
    pub role: Spanned<String>,
    pub path: Spanned<String>,
    pub successor: Option<Spanned<String>>,
    pub gone: Option<Spanned<bool>>,
    pub size: Option<Spanned<String>>,
    pub emulate: Option<Spanned<String>>,
    pub profile: Option<Spanned<String>>,
    pub profile_age_days: Option<u64>,
    pub write_cache: Option<Spanned<String>>,
    pub workload_rating: Option<Spanned<String>>,
    pub padding_budget: Option<Spanned<String>>,
    pub log_budget: Option<Spanned<String>>,
    pub write_budget: Option<Spanned<String>>,
    pub deadline: Option<Spanned<String>>,
    pub pair: Option<Pair>,
}

/// `{ leg = "b.img", period = "10s", … }`: the device is two drives.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pair {
    pub leg: Spanned<String>,
    pub period: Option<Spanned<String>>,
    pub idle: Option<Spanned<String>>,
    pub cache: Option<Spanned<String>>,
    pub answer: Option<Spanned<String>>,
    pub write_rate: Option<Spanned<String>>,
    pub journal: Option<Spanned<Journal>>,
}

/// `"/dev/…"`, or `{ path = "j.img", size = "1GiB", emulate = "960evo" }`: a third drive of a pair.
#[derive(Debug)]
pub(super) struct Journal {
    pub path: String,
    pub role: Option<String>,
    pub size: Option<String>,
    pub emulate: Option<String>,
    pub profile: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JournalTable {
    path: String,
    role: Option<String>,
    size: Option<String>,
    emulate: Option<String>,
    profile: Option<String>,
}

impl<'de> Deserialize<'de> for Journal {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Journal;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a drive's path, or a table such as { path = \"j.img\", size = \"1GiB\" }",
                )
            }
            fn visit_str<E>(self, path: &str) -> Result<Journal, E> {
                let path = path.to_owned();
                Ok(Journal { path, role: None, size: None, emulate: None, profile: None })
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Journal, A::Error> {
                let table = JournalTable::deserialize(MapAccessDeserializer::new(map))?;
                let JournalTable { path, role, size, emulate, profile } = table;
                Ok(Journal { path, role, size, emulate, profile })
            }
        }
        from.deserialize_any(Either)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Volume {
    pub name: Spanned<String>,
    pub size: Option<Spanned<String>>,
    #[serde(default)]
    pub files: bool,
    pub mount: Option<Spanned<String>>,
    pub allow_other: Option<Spanned<bool>>,
    pub steer: Option<Spanned<Steer>>,
    pub tier: Option<Spanned<Steer>>,
    #[serde(default)]
    pub file_tiers: Vec<Spanned<Steer>>,
    pub durability: Option<Spanned<String>>,
    pub reservation: Option<Spanned<Reservation>>,
    pub weight: Option<Spanned<i64>>,
    pub limit: Option<Spanned<String>>,
}

/// The same for a volume that is named, or for those who come to it by an export of another name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stream {
    pub name: Option<Spanned<String>>,
    pub volume: Spanned<String>,
    pub export: Option<Spanned<String>>,
    pub reservation: Option<Spanned<Reservation>>,
    pub weight: Option<Spanned<i64>>,
    pub limit: Option<Spanned<String>>,
}

/// What somebody wants.
pub(super) struct Shares<'a> {
    pub reservation: Option<&'a Spanned<Reservation>>,
    pub weight: Option<&'a Spanned<i64>>,
    pub limit: Option<&'a Spanned<String>>,
}

impl Shares<'_> {
    /// Anything?
    pub fn any(&self) -> bool {
        self.reservation.is_some() || self.weight.is_some() || self.limit.is_some()
    }
}

impl Volume {
    pub fn shares(&self) -> Shares<'_> {
        Shares {
            reservation: self.reservation.as_ref(),
            weight: self.weight.as_ref(),
            limit: self.limit.as_ref(),
        }
    }
}

impl Stream {
    pub fn shares(&self) -> Shares<'_> {
        Shares {
            reservation: self.reservation.as_ref(),
            weight: self.weight.as_ref(),
            limit: self.limit.as_ref(),
        }
    }
}

/// `"250/s"`, or `{ rate = "250/s", size = "256KiB", … }`.
#[derive(Debug)]
pub(super) struct Reservation {
    pub rate: String,
    pub size: Option<String>,
    pub does: Option<String>,
    pub window: Option<String>,
    pub confidence: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReservationTable {
    rate: String,
    size: Option<String>,
    does: Option<String>,
    window: Option<String>,
    confidence: Option<f64>,
}

impl<'de> Deserialize<'de> for Reservation {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Reservation;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a rate such as \"250/s\", or a table such as { rate = \"250/s\" }")
            }
            fn visit_str<E>(self, rate: &str) -> Result<Reservation, E> {
                let rate = rate.to_owned();
                Ok(Reservation { rate, size: None, does: None, window: None, confidence: None })
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Reservation, A::Error> {
                let table = ReservationTable::deserialize(MapAccessDeserializer::new(map))?;
                let ReservationTable { rate, size, does, window, confidence } = table;
                Ok(Reservation { rate, size, does, window, confidence })
            }
        }
        from.deserialize_any(Either)
    }
}

/// Who is served when.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Qos {
    pub order: Option<Spanned<String>>,
    #[serde(default)]
    pub overcommit: bool,
    pub depth: Option<Spanned<i64>>,
    pub background: Option<Spanned<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Memory {
    pub metadata: Option<Spanned<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Destage {
    pub high: Option<Spanned<String>>,
    pub low: Option<Spanned<String>>,
    pub run: Option<Spanned<String>>,
    pub flush_budget: Option<Spanned<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Serve {
    #[serde(default)]
    pub nbd: Vec<Spanned<Listen>>,
    #[serde(default)]
    pub allow_remote: bool,
    pub certificates: Option<Spanned<String>>,
    pub verify_clients: Option<bool>,
    pub control: Option<Spanned<Control>>,
    pub fuse: Option<Spanned<String>>,
    pub submission: Option<Spanned<String>>,
    pub spin: Option<Spanned<String>>,
    pub connections: Option<Spanned<i64>>,
    pub negotiation_timeout: Option<Spanned<String>>,
    pub stall_timeout: Option<Spanned<String>>,
    pub nbd_memory: Option<Spanned<String>>,
    pub fuse_memory: Option<Spanned<String>>,
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

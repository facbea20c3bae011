//! How is an experiment written down? The file as it is, every value with its place in the text.
//!
//! What the values mean is `experiment`'s and `relation`'s; experiments/README.md tells it to people.

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use toml::Spanned;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub name: Spanned<String>,
    pub title: String,
    pub source: String,
    pub about: String,
    pub items: Vec<Spanned<String>>,
    /// What stands in the place of the policies with `--null`.
    pub nulls: Option<Spanned<Vec<Spanned<String>>>>,
    #[serde(default)]
    pub case: Vec<Spanned<Case>>,
    #[serde(default)]
    pub relation: Vec<Spanned<Relation>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    pub name: Spanned<String>,
    pub kind: Option<Spanned<String>>,
    pub workload: Option<Spanned<String>>,
    /// … or this file in the folder of traces.
    pub trace: Option<Spanned<String>>,
    #[serde(default)]
    pub ssd: Vec<String>,
    #[serde(default)]
    pub hdd: Vec<String>,
    pub placement: Option<String>,
    pub ssd_state: Option<String>,
    pub resident: Option<String>,
    pub log: Option<Spanned<String>>,
    pub padding: Option<Spanned<String>>,
    pub measure: Option<Spanned<String>>,
    pub seed: Option<u64>,
    pub speedup: Option<Spanned<String>>,
    /// So many requests at once, instead of the times of the workload.
    pub closed_loop: Option<u32>,
    /// Another size of each SSD than its own.
    pub ssd_size: Option<Spanned<String>>,
    /// Redirected data that stays in RAM for reads.
    pub read_back: Option<Spanned<String>>,
    /// The share of the data for which the SSD has room.
    pub ssd_share: Option<Spanned<String>>,
    /// What logs have when a warm-up is over is taken to have gone home.
    #[serde(default)]
    pub at_home: bool,
    #[serde(default)]
    pub policies: Vec<Spanned<Policy>>,
    // of a predictor's case
    pub size: Option<Spanned<String>>,
    pub rounds: Option<u64>,
    pub round_bytes: Option<u64>,
    // of clients that share an SSD; `size` is the drive's, `hdd` are behind it
    /// Two such drives as one.
    pub pair: Option<Spanned<Pair>>,
    /// How writes are redirected to the hard drives.
    pub policy: Option<Spanned<String>>,
    #[serde(default)]
    pub stream: Vec<Spanned<Stream>>,
    pub orders: Option<Vec<String>>,
    pub fill: Option<Spanned<String>>,
    /// Bytes, and the range over which they are written at random.
    pub age: Option<(Spanned<String>, Spanned<String>)>,
    pub warm_up: Option<Spanned<String>>,
    pub duration: Option<Spanned<String>>,
    pub window: Option<Spanned<String>>,
    pub confidence_percent: Option<f64>,
    /// Collections come in clusters: until so many lines are free, so many pages apart.
    pub gc_cluster: Option<(u32, u32)>,
}

/// How a pair behaves.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pair {
    pub period: Option<Spanned<String>>,
    /// A time, or `adaptive`: up to a quarter of the period.
    pub idle: Option<Spanned<String>>,
    /// `change`, or `none`: both legs are written, and either is read.
    pub roles: Option<Spanned<String>>,
    /// Is the writer flushed before it is read?
    pub settles: Option<bool>,
    pub answer: Option<Spanned<String>>,
    /// The cache holds so many times what a leg writes in a period (`kT`).
    pub cache_periods: Option<u32>,
    /// This leg is gone.
    pub absent: Option<u8>,
}

/// One client of an SSD, or one stream of requests to a drive alone.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stream {
    pub name: Spanned<String>,
    pub does: Spanned<String>,
    pub size: Option<Spanned<String>>,
    /// Its requests are the reads, or the writes, of this file in the folder of traces.
    pub trace: Option<Spanned<String>>,
    /// So many requests at once, each time that `every` is over.
    pub every: Option<Spanned<String>>,
    pub burst: Option<u32>,
    pub from: Option<Spanned<String>>,
    pub range: Option<Spanned<String>>,
    pub outstanding: Option<u32>,
    #[serde(default)]
    pub fua: bool,
    pub target: Option<Spanned<String>>,
    pub weight: Option<u32>,
    pub limit: Option<Spanned<String>>,
    // of a drive alone
    /// It ends after so many.
    pub requests: Option<Spanned<u64>>,
    /// What passes between an answer and the next request.
    pub think: Option<Spanned<String>>,
    /// Sizes are exponential, with `size` as their mean, and rounded up to whole steps of so much.
    pub step: Option<Spanned<String>>,
    /// The share that reads, of a mix …
    pub reads: Option<Spanned<String>>,
    /// … that begins where the one before ended …
    pub sequential: Option<Spanned<String>>,
    /// … and that lies near it.
    pub local: Option<Spanned<String>>,
    /// How near: the standard deviation of the distance.
    pub near: Option<Spanned<String>>,
}

/// `"mios-d"`, or `{ policy = "mios-d:queue_length=3", label = "mios-d" }`, perhaps with a `tier`.
#[derive(Debug)]
pub(super) struct Policy {
    pub policy: String,
    pub label: String,
    pub tier: Option<Tier>,
}

/// One tier for all volumes, or one for each volume of the workload, by its number.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Tier {
    All(String),
    Each(BTreeMap<String, String>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyTable {
    policy: String,
    label: String,
    tier: Option<Tier>,
}

impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Policy;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a policy, or a table such as { policy = \"mios-d\", label = \"d\" }")
            }
            fn visit_str<E>(self, policy: &str) -> Result<Policy, E> {
                Ok(Policy { policy: policy.to_owned(), label: policy.to_owned(), tier: None })
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Policy, A::Error> {
                let table = PolicyTable::deserialize(MapAccessDeserializer::new(map))?;
                let PolicyTable { policy, label, tier } = table;
                Ok(Policy { policy, label, tier })
            }
        }
        from.deserialize_any(Either)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Relation {
    pub id: Spanned<String>,
    pub what: String,
    pub paper: String,
    pub rule: Spanned<String>,
    pub value: Option<Spanned<String>>,
    pub order: Option<Spanned<Vec<Spanned<String>>>>,
    pub count: Option<Spanned<Vec<Spanned<String>>>>,
    /// One path, or one for each of `order` or `count`.
    pub over: Option<Spanned<Over>>,
    pub at_least: Option<f64>,
    pub at_most: Option<f64>,
    pub direction: Option<Spanned<String>>,
    pub least_factor: Option<f64>,
    pub cases: Option<usize>,
    pub why: Option<String>,
    /// Which of three `why` is.
    pub cause: Option<Spanned<String>>,
    /// What it is for, where it does not score.
    pub kind: Option<Spanned<String>>,
    /// The paper's number, in the unit of the value.
    pub published: Option<Spanned<f64>>,
    /// Where that number stands.
    pub source: Option<Spanned<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Over {
    One(String),
    Each(Vec<String>),
}

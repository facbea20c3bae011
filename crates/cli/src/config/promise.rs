//! What does a configuration promise, and to whom?
//!
//! Source: design, "A pool's configuration" (`reservation` belongs to a volume); requirements I7. A
//! volume has `reservation`, `weight` and `limit`; `[[stream]]` gives the same to a volume by name, so
//! that promises can stand together in one place; or, with `export`, to those who come to the volume
//! by that name of NBD.

use super::{PoolConfig, PoolVolume, check, file};
use crate::rate;
use crate::toml_fault::Fault;
use tandem_block::{Duration, ObjectId, Quantity, StreamId};
use tandem_engine::Role;
use tandem_engine::qos::reserve::{
    BACKGROUND_PPB, DEPTH, Does, Promise, QosConfig, Rate, Selector, StreamConfig, WEIGHT_MAX,
    WHOLE_PPB,
};
use tandem_engine::qos::{self, ORDERS};
use tandem_traces::spell;
use toml::Spanned;

/// The bounds of a window.
const WINDOW_MIN: Duration = Duration::from_ms(10);
const WINDOW_MAX: Duration = Duration::from_s(3600);

/// Exports that are streams are numbered from here on; connections from 0 (their table is small).
const EXPORTS_FROM: u32 = 1 << 31;
/// More exports than this are a slip.
const EXPORTS_MAX: usize = 4096;

/// A name of NBD for a volume, whose users are a stream of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedExport {
    /// The name.
    pub name: String,
    /// The volume's position.
    pub volume: usize,
    /// Whose requests come by it.
    pub stream: StreamId,
}

/// What is promised, before the drives' costs are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promises {
    /// By stream.
    pub streams: Vec<StreamConfig>,
    /// Exports beside those that are called like their volumes.
    pub exports: Vec<NamedExport>,
    /// The order of service.
    pub order: &'static str,
    /// More may be promised than there is.
    pub overcommit: bool,
    /// Commands in an SSD at most.
    pub depth: u32,
    /// The share of background work.
    pub background_ppb: u64,
}

impl Default for Promises {
    fn default() -> Self {
        Promises {
            streams: Vec::new(),
            exports: Vec::new(),
            order: ORDERS[0].name,
            overcommit: false,
            depth: DEPTH,
            background_ppb: BACKGROUND_PPB,
        }
    }
}

impl Promises {
    /// What the engine is told, without costs.
    pub fn config(&self) -> QosConfig {
        QosConfig {
            order: self.order.into(),
            streams: self.streams.clone(),
            overcommit: self.overcommit,
            depth: self.depth,
            background_ppb: self.background_ppb,
            costs: Vec::new(),
        }
    }
}

/// Reads everything that promises something. `volumes` are those of the file, checked.
pub(super) fn check(parsed: &file::File, volumes: &[PoolVolume]) -> Result<Promises, Fault> {
    let mut promises = Promises::default();
    for (entry, volume) in parsed.volume.iter().zip(volumes) {
        let shares = &entry.get_ref().shares();
        if shares.any() {
            promises.streams.push(stream(&volume.name, volume.object(), shares)?);
        }
    }
    for entry in &parsed.stream {
        named(entry.get_ref(), volumes, &mut promises)?;
    }
    let qos = &parsed.qos;
    promises.order = match &qos.order {
        None if promises.streams.is_empty() => ORDERS[0].name,
        None => "edf",
        Some(value) => order(value)?,
    };
    promises.overcommit = qos.overcommit;
    if let Some(value) = &qos.depth {
        let depth = u32::try_from(*value.get_ref()).ok().filter(|depth| (1..=1024).contains(depth));
        promises.depth = depth.ok_or_else(|| Fault::at(value, "a depth is 1 to 1024"))?;
    }
    if let Some(value) = &qos.background {
        promises.background_ppb = share(value)?;
    }
    Ok(promises)
}

/// One `[[stream]]`: everything on a volume, or what comes by an export.
fn named(
    entry: &file::Stream,
    volumes: &[PoolVolume],
    promises: &mut Promises,
) -> Result<(), Fault> {
    let wanted = entry.volume.get_ref();
    let Some(at) = volumes.iter().position(|known| known.name == *wanted) else {
        let known = volumes.iter().map(|known| known.name.as_str());
        let nearest = spell::nearest(wanted, known);
        let text = format!("there is no volume {wanted:?}; did you mean {nearest:?}?");
        return Err(Fault::at(&entry.volume, text));
    };
    let shares = entry.shares();
    if !shares.any() {
        let text = "a stream has a reservation, a weight or a limit; this one has none";
        return Err(Fault::at(&entry.volume, text));
    }
    let of = match &entry.export {
        Some(value) => Selector::Stream(export(value, at, volumes, promises)?),
        None => Selector::Volume(volumes[at].object()),
    };
    if promises.streams.iter().any(|known| known.of == of) {
        let text = format!(
            "volume {wanted:?} has a reservation, weight or limit already; for some of its users: \
             export = \"NAME\", which they connect to"
        );
        return Err(Fault::at(&entry.volume, text));
    }
    let name = entry.name.as_ref().or(entry.export.as_ref());
    let name = name.map_or(wanted, Spanned::get_ref);
    if promises.streams.iter().any(|known| known.name == *name) {
        let text = format!("there are two streams called {name:?}: give one of them a name");
        return Err(Fault::at(entry.name.as_ref().unwrap_or(&entry.volume), text));
    }
    promises.streams.push(StreamConfig { of, ..stream(name, volumes[at].object(), &shares)? });
    Ok(())
}

/// A further name for the volume at this position.
fn export(
    value: &Spanned<String>,
    volume: usize,
    volumes: &[PoolVolume],
    promises: &mut Promises,
) -> Result<StreamId, Fault> {
    let name = check::name(value, "export")?;
    if volumes[volume].is_files {
        let text = "a volume of files is mounted, not exported: a volume of blocks can be";
        return Err(Fault::at(value, text));
    }
    let taken = volumes.iter().any(|volume| volume.name == name)
        || promises.exports.iter().any(|known| known.name == name);
    if taken {
        let text = format!("there is an export called {name:?} already: each volume is one");
        return Err(Fault::at(value, text));
    }
    if promises.exports.len() == EXPORTS_MAX {
        return Err(Fault::at(value, format!("at most {EXPORTS_MAX} streams have exports")));
    }
    let stream = StreamId(EXPORTS_FROM + promises.exports.len() as u32);
    promises.exports.push(NamedExport { name, volume, stream });
    Ok(stream)
}

/// Can everything be promised? By the costs that the SSDs' profiles tell.
pub(super) fn fits(parsed: &file::File, pool: &PoolConfig) -> Result<(), Fault> {
    let promised = pool.promises.streams.iter().any(|stream| stream.promise.is_some());
    let values = parsed.volume.iter().map(|entry| {
        let entry = entry.get_ref();
        (Some(entry.name.get_ref()), entry.reservation.as_ref())
    });
    let streams = parsed.stream.iter().map(|entry| {
        let entry = entry.get_ref();
        let name = entry.name.as_ref().or(entry.export.as_ref()).unwrap_or(&entry.volume);
        (Some(name.get_ref()), entry.reservation.as_ref())
    });
    let at = |stream: &str, text: String| {
        let mut all = values.clone().chain(streams.clone());
        match all.find_map(|(name, value)| value.filter(|_| name.is_some_and(|n| n == stream))) {
            Some(value) => Fault::at(value, text),
            None => Fault::whole(text),
        }
    };
    let first = pool.promises.streams.iter().find(|stream| stream.promise.is_some());
    if let Some(first) = first.filter(|_| promised)
        && !pool.devices.iter().any(|device| device.role == Role::Ssd)
    {
        let text = "throughput is promised on SSDs, and this pool has none".to_owned();
        return Err(at(&first.name, text));
    }
    pool.check_promises().map_err(|why| at(why.stream(), why.to_string()))
}

fn order(value: &Spanned<String>) -> Result<&'static str, Fault> {
    order_named(value.get_ref()).map_err(|text| Fault::at(value, text))
}

/// The order of service of this name.
///
/// # Errors
/// The orders that there are, and the one that is nearest.
pub fn order_named(name: &str) -> Result<&'static str, String> {
    qos::named(name).map(|entry| entry.name).ok_or_else(|| {
        let names = ORDERS.iter().map(|entry| entry.name);
        let nearest = spell::nearest(name, names.clone());
        let names = names.collect::<Vec<_>>().join(", ");
        format!("order is one of {names}; did you mean {nearest:?}?")
    })
}

/// Percent of a drive, in billionths.
fn share(value: &Spanned<String>) -> Result<u64, Fault> {
    match Quantity::Share.within(value.get_ref(), 0..=900_000) {
        Ok(ppm) => Ok(ppm * (WHOLE_PPB / 1_000_000)),
        Err(why) => Err(Fault::at(value, format!("{why} (a share is 0% to 90% of a drive)"))),
    }
}

/// What is promised in words, each as in a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// The rate.
    pub reservation: Option<String>,
    /// … of requests of this size.
    pub size: Option<String>,
    /// … over windows of this length.
    pub window: Option<String>,
    /// … of this kind.
    pub does: Option<String>,
    /// … in so many percent of the windows.
    pub confidence: Option<String>,
    /// A part of the slack.
    pub weight: Option<String>,
    /// No more than this.
    pub limit: Option<String>,
}

impl Words {
    /// The stream of this name that has them; of no volume yet.
    ///
    /// # Errors
    /// What is wrong, and what would do.
    pub fn shares(&self, name: &str) -> Result<StreamConfig, String> {
        fn unplaced<T>(value: T) -> Spanned<T> {
            Spanned::new(0..0, value)
        }
        let about = [&self.size, &self.window, &self.does, &self.confidence];
        if self.reservation.is_none() && about.into_iter().any(Option::is_some) {
            return Err("size, window, does and confidence belong to a reservation".into());
        }
        let confidence = self.confidence.as_ref().map(|text| {
            let percent = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>();
            percent.map_err(|_| "a confidence is above 0 and up to 100 (percent)".to_owned())
        });
        let confidence = confidence.transpose()?;
        let reservation = self.reservation.clone().map(|rate| {
            let (size, does, window) = (self.size.clone(), self.does.clone(), self.window.clone());
            unplaced(file::Reservation { rate, size, does, window, confidence })
        });
        let weight = self.weight.as_ref().map(|text| {
            // what is no number is out of bounds, too
            unplaced(text.parse::<i64>().unwrap_or(0))
        });
        let limit = self.limit.clone().map(unplaced);
        let shares = file::Shares {
            reservation: reservation.as_ref(),
            weight: weight.as_ref(),
            limit: limit.as_ref(),
        };
        if !shares.any() {
            return Err("a stream has a reservation, a weight or a limit; this one has none".into());
        }
        stream(name, ObjectId(0), &shares).map_err(|fault| fault.text)
    }
}

fn stream(name: &str, of: ObjectId, shares: &file::Shares<'_>) -> Result<StreamConfig, Fault> {
    let weight = shares.weight.map(|value| {
        let weight = u32::try_from(*value.get_ref()).ok();
        let weight = weight.filter(|weight| (1..=WEIGHT_MAX).contains(weight));
        weight.ok_or_else(|| Fault::at(value, format!("a weight is 1 to {WEIGHT_MAX}")))
    });
    let limit = shares.limit.map(rate_of).transpose()?;
    let promise = shares.reservation.map(promise).transpose()?;
    if let (Some(limit), Some(promise)) = (limit, promise) {
        let size = promise.size_bytes;
        if limit.requests(size) < promise.rate.requests(size) {
            let value = shares.limit.expect("it has one");
            let text = format!("the limit {limit} is below what is reserved, {}", promise.rate);
            return Err(Fault::at(value, text));
        }
    }
    Ok(StreamConfig {
        name: name.to_owned(),
        of: Selector::Volume(of),
        promise,
        weight: weight.transpose()?,
        limit,
    })
}

fn rate_of(value: &Spanned<String>) -> Result<Rate, Fault> {
    rate::parse(value.get_ref()).map_err(|why| Fault::at(value, why))
}

fn promise(value: &Spanned<file::Reservation>) -> Result<Promise, Fault> {
    let given = value.get_ref();
    let rate = rate::parse(&given.rate).map_err(|why| Fault::at(value, why))?;
    let size_bytes = match &given.size {
        None => 4096,
        Some(text) => Quantity::Bytes.within(text, 512..=32 << 20).map_err(|why| {
            Fault::at(value, format!("{why} (the size of a request is 512B to 32MiB)"))
        })?,
    };
    let window = match &given.window {
        None => tandem_engine::qos::reserve::WINDOW,
        Some(text) => Quantity::Time
            .within(text, WINDOW_MIN.ns..=WINDOW_MAX.ns)
            .map(Duration::from_ns)
            .map_err(|why| Fault::at(value, format!("{why} (a window is 10ms to 3600s)")))?,
    };
    let kinds = [
        ("random", (Does::Either, false)),
        ("sequential", (Does::Either, true)),
        ("random-read", (Does::Read, false)),
        ("sequential-read", (Does::Read, true)),
        ("random-write", (Does::Write, false)),
        ("sequential-write", (Does::Write, true)),
    ];
    let (does, sequential) = match &given.does {
        None => (Does::Either, false),
        Some(text) => match kinds.iter().find(|kind| kind.0 == text) {
            Some(kind) => kind.1,
            None => {
                let nearest = spell::nearest(text, kinds.iter().map(|kind| kind.0));
                let text = format!("{text:?} is no kind of request; did you mean {nearest:?}?");
                return Err(Fault::at(value, text));
            }
        },
    };
    let mut promise = Promise { does, sequential, window, ..Promise::of(rate, size_bytes) };
    if let Some(percent) = given.confidence {
        if !(percent > 0.0 && percent <= 100.0) {
            return Err(Fault::at(value, "a confidence is above 0 and up to 100 (percent)"));
        }
        promise.confidence_ppm = (percent * 10_000.0).round() as u32;
    }
    Ok(promise)
}

#[cfg(test)]
#[path = "promise_tests.rs"]
mod tests;

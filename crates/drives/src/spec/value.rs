//! How is one number of a spec written down? As a text with its unit, beside the place it is from.
//!
//! Source: design decision 3 and models §4 (a number without a source is not allowed in a spec).

use serde::{Deserialize, Deserializer, de::Error as _};
use tandem_block::Quantity;

/// A number (or switch) and where it is from.
///
/// The source begins with one of [`SOURCES`], so that a reader sees at a glance what to trust.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sourced<T> {
    /// The number.
    pub value: T,
    /// Where it is from: the first word is one of [`SOURCES`], then `:` and the place.
    pub source: String,
}

/// The words that a source may begin with, the most trusted first.
pub const SOURCES: [&str; 7] =
    ["paper", "page", "measured", "derived", "fitted", "memory", "guess"];

impl<T: Copy> Sourced<T> {
    /// The number alone.
    pub fn get(&self) -> T {
        self.value
    }

    /// A number that a test or a study sets, with its reason.
    pub fn of(value: T, source: &str) -> Self {
        Sourced { value, source: source.to_owned() }
    }
}

impl<T> Sourced<T> {
    /// Does the source begin with a known word?
    pub fn has_known_source(&self) -> bool {
        let word = self.source.split([':', ' ']).next().unwrap_or_default();
        SOURCES.contains(&word)
    }
}

/// Bytes: `"4KiB"`, `"10TB"`, `"0.25MiB"`, `"512B"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

/// Nanoseconds: `"35us"`, `"0.8ms"`, `"0ns"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nanos(pub u64);

impl Nanos {
    /// Longest time that any part of a drive may take: keeps sums far from overflow.
    pub const MAX: Nanos = Nanos(100_000_000_000);
}

/// Bytes per second: `"210MB/s"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BytesPerSecond(pub u64);

/// Millionths, written as a percentage: `"1.3%"`, `"-0.4%"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ppm(pub i64);

/// A latency by request size: `[["4KiB", "35us"], …]`, sizes rising, at least two points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyTable(pub Vec<(u64, u64)>);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Quantity::Bytes.parse(&String::deserialize(from)?).map(Bytes).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Nanos {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Quantity::Time.parse(&String::deserialize(from)?).map(Nanos).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for BytesPerSecond {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let rate = Quantity::ByteRate.parse(&String::deserialize(from)?);
        rate.map(BytesPerSecond).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Ppm {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let text = text.trim();
        let (sign, number) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
        let ppm = Quantity::Share.within(number, 0..=i64::MAX as u64).map_err(D::Error::custom)?;
        Ok(Ppm(sign * ppm as i64))
    }
}

impl<'de> Deserialize<'de> for LatencyTable {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let rows = Vec::<(Bytes, Nanos)>::deserialize(from)?;
        let rows: Vec<(u64, u64)> = rows.into_iter().map(|(size, time)| (size.0, time.0)).collect();
        if rows.len() < 2 || rows.len() > 64 {
            return Err(D::Error::custom("a latency table needs 2 to 64 points"));
        }
        if rows.windows(2).any(|pair| pair[0].0 >= pair[1].0 || pair[0].1 > pair[1].1) {
            return Err(D::Error::custom("sizes must rise, and latencies must not fall with them"));
        }
        if rows.iter().any(|row| row.1 > Nanos::MAX.0) {
            return Err(D::Error::custom("latencies must be at most 100s"));
        }
        Ok(LatencyTable(rows))
    }
}

//! How is one number of a spec written down? As a text with its unit, beside the place it is from.
//!
//! Source: design decision 3 and models §4 (a number without a source is not allowed in a spec).

use serde::{Deserialize, Deserializer, de::Error as _};

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

const BYTE_UNITS: [(&str, u64); 9] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("B", 1),
];
const TIME_UNITS: [(&str, u64); 4] =
    [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];

/// Reads `<decimal><unit>` exactly, without floating point.
fn parse_with_unit(text: &str, units: &[(&str, u64)]) -> Result<u64, String> {
    let names = || units.iter().map(|unit| unit.0).collect::<Vec<_>>().join(", ");
    let text = text.trim();
    let (number, factor) = units
        .iter()
        .find_map(|(name, factor)| text.strip_suffix(name).map(|number| (number, *factor)))
        .ok_or_else(|| format!("`{text}` has no unit; write one of {}", names()))?;
    parse_decimal(number.trim(), factor)
        .ok_or_else(|| format!("`{text}` is not a whole number of the smallest unit in range"))
}

/// `number * factor` where `number` is decimal; `None` if it is no number, too large, or not whole.
fn parse_decimal(number: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits_only = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits_only(whole) || !digits_only(fraction) || fraction.len() > 12 {
        return None;
    }
    let scale = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    let mantissa: u128 = format!("{whole}{fraction}").parse().ok()?;
    let scaled = mantissa.checked_mul(u128::from(factor))?;
    if scaled % scale != 0 { None } else { u64::try_from(scaled / scale).ok() }
}

/// Bytes from text such as `16MiB`.
///
/// # Errors
/// If there is no known unit or no exact number before it.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    parse_with_unit(text, &BYTE_UNITS)
}

/// Nanoseconds from text such as `12ms`.
///
/// # Errors
/// If there is no known unit or no exact number before it.
pub fn parse_nanos(text: &str) -> Result<u64, String> {
    parse_with_unit(text, &TIME_UNITS)
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        parse_bytes(&String::deserialize(from)?).map(Bytes).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Nanos {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        parse_nanos(&String::deserialize(from)?).map(Nanos).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for BytesPerSecond {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let size = text
            .trim()
            .strip_suffix("/s")
            .ok_or_else(|| D::Error::custom(format!("`{text}` must end in /s, as in 210MB/s")))?;
        parse_bytes(size).map(BytesPerSecond).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Ppm {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let wrong = || D::Error::custom(format!("`{text}` must be a percentage, as in 1.3%"));
        let number = text.trim().strip_suffix('%').ok_or_else(wrong)?;
        let (sign, number) = number.strip_prefix('-').map_or((1, number), |rest| (-1, rest));
        let ppm = parse_decimal(number.trim(), 10_000).ok_or_else(wrong)?;
        i64::try_from(ppm).map(|ppm| Ppm(sign * ppm)).map_err(|_| wrong())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_exactly() {
        for (text, want) in [
            ("512B", Some(512)),
            ("0.25MiB", Some(262_144)),
            ("10TB", Some(10_000_000_000_000)),
            (" 16 MiB ", Some(16 << 20)),
            ("0.3B", None),
            ("16", None),
            ("-1MiB", None),
            ("99999999999TiB", None),
            ("1e3B", None),
        ] {
            assert_eq!(parse_bytes(text).ok(), want, "{text}");
        }
        assert_eq!(parse_nanos("0.8ms"), Ok(800_000));
        assert_eq!(parse_nanos("3.3us"), Ok(3_300));
        assert!(parse_nanos("12").is_err_and(|why| why.contains("no unit")));
    }
}

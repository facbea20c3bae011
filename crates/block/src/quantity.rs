//! How is a number with its unit written down? `64KiB`, `250ms`, `100MiB/s`, `12.5%`.
//!
//! What is read is exact: an integer of the smallest unit, or an error that says what is wrong, where, and
//! what to write.

use crate::{GIB, KIB, MIB, TIB};
use std::ops::RangeInclusive;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Things, without a unit: `12`.
    Count,
    /// Bytes: `4KiB`, `10TB`, `0.25MiB`.
    Bytes,
    /// Nanoseconds: `35us`, `0.8ms`, `30s`.
    Time,
    /// Bytes per second: `210MB/s`.
    ByteRate,
    /// Requests per second: `250/s`, `250iops`.
    RequestRate,
    /// Millionths of a whole, written as a percentage: `12.5%`.
    Share,
    /// Millionths of once, written as a number: `1.05`, `2x`.
    Factor,
    /// Millionths of a drive's capacity that are written to it in a day: `0.3DWPD`.
    DriveWrites,
}

/// The text is no such quantity, or is out of bounds; it says what would do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadQuantity(String);

impl From<BadQuantity> for String {
    fn from(bad: BadQuantity) -> String {
        bad.0
    }
}

/// Name and factor; larger ones first. What is printed has one of the first units of its form.
type Unit = (&'static str, u64);

const BYTES: [Unit; 9] = [
    ("TiB", TIB),
    ("GiB", GIB),
    ("MiB", MIB),
    ("KiB", KIB),
    ("B", 1),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
];
const TIMES: [Unit; 5] =
    [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1), ("min", 60_000_000_000)];

/// How a quantity is written.
struct Form {
    units: &'static [Unit],
    /// So many of the units are printed.
    printed: usize,
    /// What stands behind every unit.
    suffix: &'static str,
    /// What several of them are called.
    plural: &'static str,
    /// The smallest unit in words.
    smallest: &'static str,
    example: &'static str,
}

/// Longest text that an error repeats whole, in characters.
const ECHO_CHARS_MAX: usize = 48;
/// More decimals are not a whole number of any smallest unit.
const DECIMALS_MAX: usize = 18;

impl Quantity {
    fn form(self) -> Form {
        let form = |units, printed, suffix, [plural, smallest, example]: [&'static str; 3]| Form {
            units,
            printed,
            suffix,
            plural,
            smallest,
            example,
        };
        match self {
            Quantity::Count => form(&[("", 1)], 1, "", ["whole numbers", "things", "12"]),
            Quantity::Bytes => form(&BYTES, 5, "", ["sizes", "bytes", "64MiB"]),
            Quantity::Time => form(&TIMES, 4, "", ["times", "nanoseconds", "30s"]),
            Quantity::ByteRate => form(&BYTES, 5, "/s", ["rates", "bytes per second", "100MB/s"]),
            Quantity::RequestRate => {
                let units = &[("/s", 1), ("iops", 1)];
                form(units, 1, "", ["rates", "requests per second", "250/s"])
            }
            Quantity::Share => form(&[("%", 10_000)], 1, "", ["shares", "millionths", "12.5%"]),
            Quantity::Factor => {
                let units = &[("", 1_000_000), ("x", 1_000_000)];
                form(units, 1, "", ["factors", "millionths", "1.05"])
            }
            Quantity::DriveWrites => {
                let words = ["drive writes per day", "millionths", "0.3DWPD"];
                form(&[("DWPD", 1_000_000)], 1, "", words)
            }
        }
    }

    /// Reads a number and its unit; between and around them may be spaces.
    ///
    /// # Errors
    /// What is wrong, where, and what to write.
    pub fn parse(self, text: &str) -> Result<u64, BadQuantity> {
        let (text, form) = (text.trim(), self.form());
        read(text, &form).map_err(|why| {
            let (plural, example) = (form.plural, form.example);
            BadQuantity(format!("{:?}{why}; write {plural} like {example:?}", echo(text)))
        })
    }

    /// Reads one that lies within bounds.
    ///
    /// # Errors
    /// As `parse`, or the bound that it is beyond.
    pub fn within(self, text: &str, bounds: RangeInclusive<u64>) -> Result<u64, BadQuantity> {
        let value = self.parse(text)?;
        let (least, most) = bounds.into_inner();
        assert!(least <= most, "no value lies within {least} to {most}");
        let beyond = match value {
            0 if least == 1 => "small: it must be above 0".to_owned(),
            _ if value < least => format!("small: it must be at least {}", self.print(least)),
            _ if value > most => format!("large: it must be at most {}", self.print(most)),
            _ => return Ok(value),
        };
        Err(BadQuantity(format!("{:?} is too {beyond}", echo(text.trim()))))
    }

    /// As `parse` reads it, exactly: in the largest unit of which it is a whole number.
    pub fn print(self, value: u64) -> String {
        let Form { units, printed, suffix, .. } = self.form();
        assert!((1..=units.len()).contains(&printed), "a quantity is printed in some unit");
        let units = &units[..printed];
        let is_whole = |unit: &&Unit| value != 0 && value.is_multiple_of(unit.1);
        let (name, factor) = units.iter().find(is_whole).or(units.last()).expect("it has units");
        let (whole, rest) = (value / factor, value % factor);
        let mut number = whole.to_string();
        if rest > 0 {
            let places = factor.ilog10() as usize;
            assert_eq!(10u64.pow(places as u32), *factor, "{name} has decimals of what is kept");
            number = format!("{whole}.{rest:0places$}").trim_end_matches('0').to_owned();
        }
        format!("{number}{name}{suffix}")
    }
}

/// The text, or the beginning of a long one.
fn echo(text: &str) -> String {
    match text.char_indices().nth(ECHO_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The error is told behind the text.
fn read(text: &str, form: &Form) -> Result<u64, String> {
    if text.is_empty() {
        return Err(" is empty".to_owned());
    }
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let (number, unit) = text.split_at(text.find(|c| !is_number(c)).unwrap_or(text.len()));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if let Some(point) = fraction.find('.') {
        let at = whole.len() + 1 + point + 1;
        return Err(format!(" has a second point at character {at}"));
    }
    if whole.is_empty() && fraction.is_empty() {
        return Err(match text.chars().next().filter(|first| !first.is_alphabetic()) {
            Some(first) => format!(" begins with {first:?}, not with a digit"),
            None => " has no number before its unit".to_owned(),
        });
    }
    let factor = factor(unit, number.len(), form)?;
    exactly(whole, fraction, factor).map_err(|why| match why {
        Inexact::Large => format!(" is too large: it must be below 2^64 {}", form.smallest),
        Inexact::Fraction => format!(" is no whole number of {}", form.smallest),
    })
}

/// The factor of a unit that begins behind so many characters.
fn factor(text: &str, begins: usize, form: &Form) -> Result<u64, String> {
    let unit = text.trim_start();
    let bare = unit.strip_suffix(form.suffix).map(str::trim_end);
    let named = |name: &str| form.units.iter().find(|known| known.0 == name);
    if let Some((_, factor)) = bare.and_then(named) {
        return Ok(*factor);
    }
    let all: Vec<String> =
        form.units.iter().map(|(name, _)| format!("{name}{}", form.suffix)).collect();
    if unit.is_empty() {
        return Err(format!(" has no unit ({})", all.join(", ")));
    }
    if let Some(strange) = unit.chars().next().filter(|c| !c.is_alphabetic() && !"/%".contains(*c))
    {
        let at = begins + text[..text.len() - unit.len()].chars().count() + 1;
        return Err(format!(" has {strange:?} at character {at}, where the unit should begin"));
    }
    let unit = echo(unit);
    Err(match all.iter().find(|known| known.eq_ignore_ascii_case(&unit)) {
        Some(_) if all == [""] => format!(" has a unit, {unit:?}, where none belongs"),
        Some(meant) => format!(" has no known unit: {unit:?} is written {meant:?}"),
        None if all == [""] => format!(" has a unit, {unit:?}, where none belongs"),
        None => format!(" has no known unit: {unit:?} is none of {}", all.join(", ")),
    })
}

/// Why a number of some unit is no integer of the smallest one.
enum Inexact {
    Large,
    Fraction,
}

/// `whole.fraction * factor`, both of digits alone.
fn exactly(whole: &str, fraction: &str, factor: u64) -> Result<u64, Inexact> {
    let number = |digits: &str| match digits {
        "" => Ok(0),
        digits => digits.parse::<u64>().map_err(|_| Inexact::Large),
    };
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > DECIMALS_MAX {
        return Err(Inexact::Fraction);
    }
    let whole = u128::from(number(whole)?) * u128::from(factor);
    let scale = 10u128.pow(fraction.len() as u32);
    let part = u128::from(number(fraction)?) * u128::from(factor);
    if !part.is_multiple_of(scale) {
        return Err(Inexact::Fraction);
    }
    u64::try_from(whole + part / scale).map_err(|_| Inexact::Large)
}

#[cfg(test)]
mod tests {
    use super::Quantity::{self, *};

    #[test]
    fn what_is_sound_is_read_exactly() {
        for (quantity, text, want) in [
            (Count, "12", 12),
            (Count, "18446744073709551615", u64::MAX),
            (Bytes, "512B", 512),
            (Bytes, "0B", 0),
            (Bytes, "64KiB", 64 << 10),
            (Bytes, "0.25MiB", 1 << 18),
            (Bytes, "1.5 MiB", 3 << 19),
            (Bytes, " 16 MiB ", 16 << 20),
            (Bytes, "4GiB", 4 << 30),
            (Bytes, "16777215TiB", 16_777_215 << 40),
            (Bytes, "4kB", 4_000),
            (Bytes, "10TB", 10_000_000_000_000),
            (Bytes, "0.000000000001TB", 1),
            (Bytes, "1.50000000000000000000000000MiB", 3 << 19),
            (Bytes, "000000000000000000000000001B", 1),
            (Bytes, ".5KiB", 512),
            (Bytes, "5.KiB", 5 << 10),
            (Bytes, "18446744073709551615B", u64::MAX),
            (Time, "3.3us", 3_300),
            (Time, "0.8ms", 800_000),
            (Time, "250ms", 250_000_000),
            (Time, "10s", 10_000_000_000),
            (Time, "2min", 120_000_000_000),
            (ByteRate, "100MiB/s", 100 << 20),
            (ByteRate, "20 MB /s", 20_000_000),
            (RequestRate, "250/s", 250),
            (RequestRate, "250 iops", 250),
            (Share, "12.5%", 125_000),
            (Share, "0.0001%", 1),
            (Share, "100 %", 1_000_000),
            (DriveWrites, "0.3DWPD", 300_000),
        ] {
            assert_eq!(quantity.parse(text), Ok(want), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_what_to_write() {
        for (quantity, text, want) in [
            (Bytes, "", "\"\" is empty; write sizes like \"64MiB\""),
            (Bytes, "  ", "\"\" is empty; write sizes like \"64MiB\""),
            (Bytes, "-1MiB", "\"-1MiB\" begins with '-', not with a digit"),
            (Bytes, "+1MiB", "begins with '+'"),
            (Bytes, "\u{ff11}MiB", "begins with '\u{ff11}', not with a digit"),
            (Bytes, "\u{200b}1MiB", "begins with '\\u{200b}'"),
            (Bytes, "MiB", "has no number before its unit"),
            (Bytes, ".", "begins with '.'"),
            (Bytes, ".MiB", "begins with '.'"),
            (Bytes, "1.2.3MiB", "has a second point at character 4"),
            (Bytes, "1,5MiB", "has ',' at character 2, where the unit should begin"),
            (Bytes, "1 -MiB", "has '-' at character 3"),
            (Bytes, "1_000B", "has '_' at character 2"),
            (Bytes, "16", "has no unit (TiB, GiB, MiB, KiB, B, TB, GB, MB, kB)"),
            (Bytes, "16 bananas", "\"bananas\" is none of TiB, GiB"),
            (Bytes, "1e3B", "\"e3B\" is none of"),
            (Bytes, "16mib", "\"mib\" is written \"MiB\""),
            (Bytes, "16Kb", "\"Kb\" is written \"kB\""),
            (Bytes, "16µB", "\"µB\" is none of"),
            (Bytes, "16 M iB", "\"M iB\" is none of"),
            (Bytes, "16MiB/s", "\"MiB/s\" is none of"),
            (Bytes, "0.3B", "is no whole number of bytes; write sizes"),
            (Bytes, "0.0000000000000000001TiB", "is no whole number of bytes"),
            (Bytes, "99999999999TiB", "is too large: it must be below 2^64 bytes"),
            (Bytes, "16777216TiB", "is too large"),
            (Bytes, "18446744073709551616B", "is too large"),
            (Bytes, "99999999999999999999B", "is too large"),
            (Bytes, "99999999999999999999999999999999999999999999B", "is too large"),
            (Time, "12", "has no unit (s, ms, us, ns, min); write times like \"30s\""),
            (Time, "12S", "\"S\" is written \"s\""),
            (Time, "12h", "\"h\" is none of s, ms, us, ns, min"),
            (Time, "0.5ns", "is no whole number of nanoseconds"),
            (ByteRate, "100MiB", "\"MiB\" is none of TiB/s"),
            (ByteRate, "100mib/s", "\"mib/s\" is written \"MiB/s\""),
            (ByteRate, "100/s", "\"/s\" is none of TiB/s"),
            (RequestRate, "2.5/s", "is no whole number of requests per second"),
            (RequestRate, "250", "has no unit (/s, iops); write rates like \"250/s\""),
            (RequestRate, "250/h", "\"/h\" is none of /s, iops"),
            (Share, "12", "has no unit (%)"),
            (Share, "1.00001%", "is no whole number of millionths"),
            (Count, "12B", "has a unit, \"B\", where none belongs; write whole numbers like"),
            (Count, "1.5", "is no whole number of things"),
            (DriveWrites, "1dwpd", "\"dwpd\" is written \"DWPD\""),
        ] {
            let why = quantity.parse(text).expect_err(text).to_string();
            assert!(why.contains(want), "{text}: {why}");
        }
        let long = "9".repeat(1 << 20);
        let why = Bytes.parse(&long).expect_err("it has no unit").to_string();
        assert!(why.contains("9…\" has no unit") && why.len() < 200, "{why}");
    }

    #[test]
    fn bounds_are_told() {
        let read = |text| Bytes.within(text, 512..=32 << 20);
        assert_eq!((read("512B"), read("32MiB")), (Ok(512), Ok(32 << 20)));
        for (text, want) in [
            ("511B", "\"511B\" is too small: it must be at least 512B"),
            ("33MiB", "\"33MiB\" is too large: it must be at most 32MiB"),
            ("33", "has no unit"),
        ] {
            let why = read(text).expect_err(text).to_string();
            assert!(why.contains(want), "{text}: {why}");
        }
        let why = Time.within("0s", 1..=9).expect_err("no time").to_string();
        assert_eq!(why, "\"0s\" is too small: it must be above 0");
    }

    #[test]
    fn what_is_printed_is_read_again() {
        let values = [0, 1, 7, 999, 1_000, 1_999, 4_096, 10_000, 125_000, 1 << 20, 90_000_000_000];
        for quantity in [Count, Bytes, Time, ByteRate, RequestRate, Share, DriveWrites] {
            for value in values.into_iter().chain([u64::MAX]) {
                assert_eq!(quantity.parse(&quantity.print(value)), Ok(value), "{quantity:?}");
            }
        }
        let print = |quantity: Quantity, value| quantity.print(value);
        assert_eq!(print(Bytes, 1_000_000), "1000000B");
        assert_eq!(print(Time, 60_000_000_000), "60s");
        assert_eq!(print(Share, 125_000), "12.5%");
        assert_eq!(print(ByteRate, 1 << 20), "1MiB/s");
    }
}

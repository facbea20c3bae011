//! How is the value of a policy's setting written?
//!
//! As the kind of the setting says: `3`, `64KiB`, `2ms`, `1000/s`, `12.5%`, or one of its words.
//! What is printed can be read again, exactly.

use tandem_block::Quantity;
use tandem_engine::settings::{Kind, Setting};
use tandem_traces::spell;

/// Reads a value.
///
/// # Errors
/// What is wrong with it, and what would do.
pub fn parse(setting: &Setting, text: &str) -> Result<u64, String> {
    let text = text.trim();
    if let Some((_, value)) = setting.words.iter().find(|(word, _)| word.eq_ignore_ascii_case(text))
    {
        return Ok(*value);
    }
    let name = setting.name;
    let value = number(setting.kind, text).ok_or_else(|| {
        let mut why = format!("{name}={text:?} is not {}", wanted(setting));
        if setting.kind == Kind::Word {
            let nearest = spell::nearest(text, setting.words.iter().map(|(word, _)| *word));
            why = format!("{why}; did you mean {nearest:?}?");
        }
        why
    })?;
    if setting.allows(value) {
        return Ok(value);
    }
    Err(format!("{name}={text} is out of bounds: it is {}", wanted(setting)))
}

fn number(kind: Kind, text: &str) -> Option<u64> {
    let bare = (kind == Kind::Rate).then(|| Quantity::Count.parse(text).ok()).flatten();
    bare.or_else(|| quantity(kind)?.parse(text).ok())
}

/// None for words.
fn quantity(kind: Kind) -> Option<Quantity> {
    Some(match kind {
        Kind::Count => Quantity::Count,
        Kind::Bytes => Quantity::Bytes,
        Kind::Time => Quantity::Time,
        Kind::Rate => Quantity::RequestRate,
        Kind::Share => Quantity::Share,
        Kind::Factor => Quantity::Factor,
        Kind::Word => return None,
    })
}

/// What values it takes, in words.
pub fn wanted(setting: &Setting) -> String {
    let words: Vec<&str> = setting.words.iter().map(|(word, _)| *word).collect();
    let bound = |value: u64| bare(setting.kind, value);
    let (least, largest) = (bound(setting.bounds.0), bound(setting.bounds.1));
    let what = match setting.kind {
        Kind::Word => return format!("one of {}", words.join(", ")),
        Kind::Count => "a whole number from",
        Kind::Bytes => "a size from",
        Kind::Time => "a time from",
        Kind::Rate => "a rate from",
        Kind::Share => "a share from",
        Kind::Factor => "a number from",
    };
    let mut text = format!("{what} {least} to {largest}");
    for word in words {
        text.push_str(" or ");
        text.push_str(word);
    }
    text
}

/// A value as `parse` reads it.
pub fn print(setting: &Setting, value: u64) -> String {
    let word = setting.words.iter().find(|(_, known)| *known == value);
    word.map_or_else(|| bare(setting.kind, value), |(word, _)| (*word).to_owned())
}

fn bare(kind: Kind, value: u64) -> String {
    quantity(kind).unwrap_or(Quantity::Count).print(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AUTO: u64 = u64::MAX;

    fn setting(kind: Kind) -> Setting {
        Setting::new("x", kind, 1, 1..=2_000_000, "").words(&[("auto", AUTO)])
    }

    #[test]
    fn what_is_printed_is_read_again() {
        for (kind, value, text) in [
            (Kind::Count, 3, "3"),
            (Kind::Bytes, 65_536, "64KiB"),
            (Kind::Bytes, 1_000_000, "1000000B"),
            (Kind::Bytes, 1 << 20, "1MiB"),
            (Kind::Time, 2_000, "2us"),
            (Kind::Time, 1_999, "1999ns"),
            (Kind::Rate, 1_000, "1000/s"),
            (Kind::Share, 125_000, "12.5%"),
            (Kind::Share, 10_000, "1%"),
            (Kind::Share, 1, "0.0001%"),
            (Kind::Factor, 1_050_000, "1.05"),
            (Kind::Factor, 2_000_000, "2"),
            (Kind::Time, AUTO, "auto"),
            (Kind::Word, AUTO, "auto"),
        ] {
            let setting = setting(kind);
            assert_eq!(print(&setting, value), text);
            assert_eq!(parse(&setting, text), Ok(value), "{text}");
        }
        assert_eq!(parse(&setting(Kind::Rate), "50"), Ok(50));
        assert_eq!(bare(Kind::Bytes, 0), "0B");
    }

    #[test]
    fn what_would_do_is_said() {
        for (kind, text, want) in [
            (Kind::Count, "many", "is not a whole number from 1 to 2000000 or auto"),
            (Kind::Count, "0", "out of bounds: it is a whole number from 1 to 2000000"),
            (Kind::Bytes, "64", "is not a size from 1B to 2000000B"),
            (Kind::Time, "3s", "out of bounds: it is a time from 1ns to 2ms"),
            (Kind::Share, "-5%", "is not a share from 0.0001% to 200%"),
            (Kind::Factor, "5", "out of bounds: it is a number from 0.000001 to 2"),
            (Kind::Rate, "5/h", "is not a rate from 1/s"),
            (Kind::Word, "atuo", "is not one of auto; did you mean \"auto\"?"),
        ] {
            let error = parse(&setting(kind), text).expect_err(text);
            assert!(error.contains(want), "{text}: {error}");
        }
    }
}

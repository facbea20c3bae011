//! How are the columns of a line read without allocating?

use crate::error::Reason;

/// Splits at every `separator`; columns beyond `N` are counted but not kept.
pub(crate) fn split_at<const N: usize>(line: &[u8], separator: u8) -> ([&[u8]; N], usize) {
    let mut columns: [&[u8]; N] = [&[]; N];
    let mut found = 0;
    for column in line.split(|&byte| byte == separator) {
        if found == N {
            return (columns, N + 1);
        }
        columns[found] = column;
        found += 1;
    }
    (columns, found)
}

/// Splits at runs of spaces and tabs; columns beyond `N` are counted once and not kept.
pub(crate) fn split_blank<const N: usize>(line: &[u8]) -> ([&[u8]; N], usize) {
    let mut columns: [&[u8]; N] = [&[]; N];
    let mut found = 0;
    let mut rest = line;
    while let Some(start) = rest.iter().position(|&byte| !is_blank(byte)) {
        rest = &rest[start..];
        if found == N {
            return (columns, N + 1);
        }
        let end = rest.iter().position(|&byte| is_blank(byte)).unwrap_or(rest.len());
        columns[found] = &rest[..end];
        rest = &rest[end..];
        found += 1;
    }
    (columns, found)
}

/// Exactly `N` columns divided by `separator`, blanks around each removed.
pub(crate) fn columns<const N: usize>(line: &[u8], separator: u8) -> Result<[&[u8]; N], Reason> {
    match split_at::<N>(line, separator) {
        (columns, found) if found == N => Ok(columns.map(<[u8]>::trim_ascii)),
        (_, found) => Err(Reason::Columns { want: N, found }),
    }
}

/// Exactly `N` columns divided by blanks.
pub(crate) fn blank_columns<const N: usize>(line: &[u8]) -> Result<[&[u8]; N], Reason> {
    match split_blank::<N>(line) {
        (columns, found) if found == N => Ok(columns),
        (_, found) => Err(Reason::Columns { want: N, found }),
    }
}

const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// Nothing but blanks (a carriage return counts as one).
pub(crate) fn is_blank_line(line: &[u8]) -> bool {
    line.iter().all(|&byte| is_blank(byte) || byte == b'\r')
}

/// Does the line begin with these letters, whatever their case? For the header lines of CSV files.
pub(crate) fn begins_with(line: &[u8], letters: &str) -> bool {
    line.get(..letters.len()).is_some_and(|start| start.eq_ignore_ascii_case(letters.as_bytes()))
}

/// A whole number of decimal digits, nothing else.
pub(crate) fn whole(text: &[u8], column: &'static str) -> Result<u64, Reason> {
    if text.is_empty() {
        return Err(Reason::Number(column));
    }
    let mut value = 0u64;
    // 19 digits always fit 64 bits
    let (safe, rest) = text.split_at(text.len().min(19));
    for &byte in safe {
        value = value.wrapping_mul(10).wrapping_add(digit(byte, column)?);
    }
    for &byte in rest {
        let digit = digit(byte, column)?;
        value = value
            .checked_mul(10)
            .and_then(|value| value.checked_add(digit))
            .ok_or(Reason::TooLarge(column))?;
    }
    Ok(value)
}

fn digit(byte: u8, column: &'static str) -> Result<u64, Reason> {
    let digit = byte.wrapping_sub(b'0');
    if digit < 10 { Ok(u64::from(digit)) } else { Err(Reason::Number(column)) }
}

/// A decimal number times 10^`places`; further digits after the point are read and dropped.
pub(crate) fn decimal(text: &[u8], places: u32, column: &'static str) -> Result<u64, Reason> {
    let point = text.iter().position(|&byte| byte == b'.').unwrap_or(text.len());
    let (before, after) = (&text[..point], text.get(point + 1..).unwrap_or(&[]));
    let mut value = match before {
        // ".5" and "5." are numbers, "." is not
        [] if after.is_empty() => return Err(Reason::Number(column)),
        [] => 0,
        digits => whole(digits, column)?,
    };
    let mut missing = places;
    for &byte in after {
        let digit = digit(byte, column)?;
        if missing > 0 {
            missing -= 1;
            value = value
                .checked_mul(10)
                .and_then(|value| value.checked_add(digit))
                .ok_or(Reason::TooLarge(column))?;
        }
    }
    value.checked_mul(10u64.pow(missing)).ok_or(Reason::TooLarge(column))
}

/// `value * factor`, for units.
pub(crate) fn scaled(value: u64, factor: u64, column: &'static str) -> Result<u64, Reason> {
    value.checked_mul(factor).ok_or(Reason::TooLarge(column))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers() {
        for (text, want) in [
            ("0", Ok(0)),
            ("18446744073709551615", Ok(u64::MAX)),
            ("18446744073709551616", Err(Reason::TooLarge("x"))),
            ("99999999999999999999999999", Err(Reason::TooLarge("x"))),
            ("", Err(Reason::Number("x"))),
            ("-1", Err(Reason::Number("x"))),
            ("12a", Err(Reason::Number("x"))),
            ("9999999999999999999a", Err(Reason::Number("x"))),
        ] {
            assert_eq!(whole(text.as_bytes(), "x"), want, "{text}");
        }
    }

    #[test]
    fn decimal_numbers() {
        for (text, want) in [
            ("1.5", Ok(1_500)),
            ("1", Ok(1_000)),
            ("1.", Ok(1_000)),
            (".25", Ok(250)),
            ("0.123456789", Ok(123)),
            (".", Err(Reason::Number("x"))),
            ("1.2.3", Err(Reason::Number("x"))),
            ("1.5e3", Err(Reason::Number("x"))),
            ("18446744073709552", Err(Reason::TooLarge("x"))),
        ] {
            assert_eq!(decimal(text.as_bytes(), 3, "x"), want, "{text}");
        }
    }

    #[test]
    fn columns_are_counted() {
        assert_eq!(columns::<3>(b"a, b,c", b','), Ok([&b"a"[..], b"b", b"c"]));
        assert_eq!(columns::<3>(b"a,b", b','), Err(Reason::Columns { want: 3, found: 2 }));
        assert_eq!(columns::<3>(b"a,b,c,d,e", b','), Err(Reason::Columns { want: 3, found: 4 }));
        assert_eq!(blank_columns::<2>(b"  a\t b "), Ok([&b"a"[..], b"b"]));
        assert!(is_blank_line(b" \t\r") && !is_blank_line(b"\0"));
    }
}

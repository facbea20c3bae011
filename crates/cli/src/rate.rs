//! How is a rate written down? `250/s` or `250iops` in requests, `20MB/s` in bytes.

use tandem_drives::spec::parse_bytes;
use tandem_engine::qos::reserve::Rate;

/// Reads a rate above 0.
///
/// # Errors
/// What would do.
pub fn parse(text: &str) -> Result<Rate, String> {
    let wrong = || format!("{text:?} is no rate; write \"250/s\" or \"250iops\", or \"20MB/s\"");
    let number = |digits: &str| digits.trim().parse::<u64>().map_err(|_| wrong());
    let rate = if let Some(count) = text.strip_suffix("iops") {
        Rate::Requests(number(count)?)
    } else {
        let part = text.strip_suffix("/s").ok_or_else(wrong)?;
        if part.trim().bytes().all(|byte| byte.is_ascii_digit()) {
            Rate::Requests(number(part)?)
        } else {
            Rate::Bytes(parse_bytes(part).map_err(|_| wrong())?)
        }
    };
    match rate {
        Rate::Requests(0) | Rate::Bytes(0) => Err(format!("{text:?}: a rate is above 0")),
        rate => Ok(rate),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_and_slips_told() {
        for (text, want) in [
            ("250/s", Rate::Requests(250)),
            ("1000iops", Rate::Requests(1000)),
            ("20MB/s", Rate::Bytes(20_000_000)),
            ("4KiB/s", Rate::Bytes(4096)),
        ] {
            assert_eq!(parse(text), Ok(want), "{text}");
        }
        for text in
            ["", "250", "/s", "many/s", "20MB", "0/s", "0MB/s", "-1/s", "99999999999999999999/s"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}

//! How is a rate written down? `250/s` or `250iops` in requests, `20MB/s` in bytes.

use tandem_block::Quantity;
use tandem_engine::qos::reserve::Rate;

/// Reads a rate above 0.
///
/// # Errors
/// What would do.
pub fn parse(text: &str) -> Result<Rate, String> {
    let text = text.trim();
    let is_bytes = text.ends_with("B/s") || text.ends_with("b/s");
    let rate = match is_bytes {
        true => Quantity::ByteRate.parse(text).map(Rate::Bytes),
        false => Quantity::RequestRate.parse(text).map(Rate::Requests),
    };
    let rate = rate.map_err(|why| match is_bytes {
        true => why.to_string(),
        false => format!("{why} or \"20MB/s\""),
    })?;
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

//! How long do so many bytes take? In integers: rates as bytes per second or as ns per byte in Q32.

const NS_PER_S: u64 = 1_000_000_000;

/// Time for `bytes` at `bytes_per_s`, rounded down, in nanoseconds.
///
/// # Panics
/// If the rate is zero or the time exceeds 584 years.
pub(crate) fn transfer_ns(bytes: u64, bytes_per_s: u64) -> u64 {
    match bytes.checked_mul(NS_PER_S) {
        Some(product) => product / bytes_per_s,
        None => {
            let time = u128::from(bytes) * u128::from(NS_PER_S) / u128::from(bytes_per_s);
            u64::try_from(time).expect("less than 584 years")
        }
    }
}

/// Bytes that pass in `ns` at `bytes_per_s`, rounded down; saturates.
pub(crate) fn bytes_in(ns: u64, bytes_per_s: u64) -> u64 {
    let bytes = u128::from(ns) * u128::from(bytes_per_s) / u128::from(NS_PER_S);
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// A rate as nanoseconds per byte with 32 fractional bits, so that hot paths multiply only.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NsPerByte(u64);

impl NsPerByte {
    /// From bytes per second, at least 1.
    pub(crate) fn from_rate(bytes_per_s: u64) -> Self {
        NsPerByte((NS_PER_S << 32) / bytes_per_s)
    }

    /// Time for `bytes`, at most 2^32 bytes, in nanoseconds.
    pub(crate) fn time_ns(self, bytes: u64) -> u64 {
        ((u128::from(bytes) * u128::from(self.0)) >> 32) as u64
    }
}

/// Division of 32-bit numbers by one divisor, as a multiplication.
///
/// Exact for every dividend below 2^32: the magic number is `ceil(2^64 / divisor)`, and its error
/// times the dividend stays below `2^64 / divisor`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Divider {
    magic: u64,
    divisor: u32,
}

impl Divider {
    /// # Panics
    /// If `divisor` is zero.
    pub(crate) fn new(divisor: u32) -> Self {
        assert!(divisor > 0, "division by zero");
        // For 1 there is no 64-bit magic number; `quotient` knows.
        Divider { magic: (u64::MAX / u64::from(divisor)).wrapping_add(1), divisor }
    }

    /// `dividend / divisor`.
    #[inline]
    pub(crate) fn quotient(self, dividend: u32) -> u32 {
        if self.magic == 0 {
            return dividend;
        }
        ((u128::from(self.magic) * u128::from(dividend)) >> 64) as u32
    }

    /// `(dividend / divisor, dividend % divisor)`.
    #[inline]
    pub(crate) fn divide(self, dividend: u32) -> (u32, u32) {
        let quotient = self.quotient(dividend);
        (quotient, dividend - quotient * self.divisor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divider_equals_division() {
        for divisor in [1, 2, 3, 7, 12, 1280, 12_288, 65_536, u32::MAX] {
            let divider = Divider::new(divisor);
            for dividend in [0, 1, divisor - 1, divisor, 4_000_000_007, u32::MAX - 1, u32::MAX] {
                assert_eq!(divider.divide(dividend), (dividend / divisor, dividend % divisor));
            }
        }
    }

    #[test]
    fn rates_agree() {
        assert_eq!(transfer_ns(1 << 20, 1 << 20), 1_000_000_000);
        assert_eq!(transfer_ns(1 << 40, 1 << 30), 1024 * 1_000_000_000);
        assert_eq!(bytes_in(500_000_000, 210_000_000), 105_000_000);
        assert!(NsPerByte::from_rate(3_200_000_000).time_ns(4096).abs_diff(1280) <= 1);
    }
}

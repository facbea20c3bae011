//! How are logarithms and powers computed alike on every machine? In integers, bit by bit.
//!
//! libm may differ between machines in the last place, and one differing bit changes a digest.
//! Values are Q32: 32 fractional bits.

/// One in Q32.
pub const ONE: u64 = 1 << 32;

/// log2(x) of an integer x >= 1, in Q32. Exact to 2^-31.
///
/// # Panics
/// If `x` is zero.
pub fn log2_q32(x: u64) -> u64 {
    assert!(x > 0, "log2 of zero");
    let whole = 63 - u64::from(x.leading_zeros());
    // mantissa in [1, 2) as Q63
    let mut mantissa = u128::from(x) << (63 - whole);
    let mut fraction = 0u64;
    for bit in (0..32).rev() {
        mantissa = (mantissa * mantissa) >> 63;
        if mantissa >= 1 << 64 {
            mantissa >>= 1;
            fraction |= 1 << bit;
        }
    }
    (whole << 32) | fraction
}

/// 2^(x) for x in Q32, x < 64, as an integer rounded down; the fraction is exact to 2^-30 relative.
///
/// # Panics
/// If the result does not fit 64 bits.
pub fn exp2_q32(x: u64) -> u64 {
    let whole = x >> 32;
    assert!(whole < 64, "2^{whole} does not fit 64 bits");
    let mantissa = exp2_fraction_q62(x & (ONE - 1));
    if whole >= 62 {
        u64::try_from(u128::from(mantissa) << (whole - 62)).expect("whole is below 64")
    } else {
        mantissa >> (62 - whole)
    }
}

/// 2^(-x) for x in Q32, in Q32: 1 at x = 0, falling to 0.
pub fn exp2_neg_q32(x: u64) -> u64 {
    let whole = x >> 32;
    let rest = x & (ONE - 1);
    // 2^-(whole + rest) = 2^(1 - rest) / 2^(whole + 1)
    let (mantissa, shift) =
        if rest == 0 { (1u64 << 62, whole) } else { (exp2_fraction_q62(ONE - rest), whole + 1) };
    let total = shift + 30;
    if total >= 64 { 0 } else { mantissa >> total }
}

/// 2^f for f in [0, 1) given in Q32; the result in Q62.
fn exp2_fraction_q62(fraction: u64) -> u64 {
    // 2^(2^-k) in Q62 for k = 1.., each the square root of the one before.
    let mut result: u128 = 1 << 62;
    let mut root: u128 = 1 << 63; // 2 in Q62
    for bit in (0..32).rev() {
        root = isqrt_q62(root);
        if fraction >> bit & 1 == 1 {
            result = (result * root) >> 62;
        }
    }
    u64::try_from(result).expect("2^f is below 2")
}

/// Square root of a Q62 number in [1, 2], in Q62.
fn isqrt_q62(x: u128) -> u128 {
    (x << 62).isqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log2_matches_known_values() {
        assert_eq!(log2_q32(1), 0);
        assert_eq!(log2_q32(1 << 40), 40 << 32);
        // log2(3) = 1.584962500721156
        let three = log2_q32(3);
        assert!(three.abs_diff((1.584_962_500_721_156 * ONE as f64) as u64) < 4);
    }

    #[test]
    fn exp2_inverts_log2() {
        for x in [2u64, 3, 5, 1000, 4096, 123_456_789, 1 << 50] {
            let back = exp2_q32(log2_q32(x));
            assert!(back.abs_diff(x) <= (x >> 28) + 1, "{x} came back as {back}");
        }
    }

    #[test]
    fn negative_powers() {
        assert_eq!(exp2_neg_q32(0), ONE);
        assert_eq!(exp2_neg_q32(ONE), ONE / 2);
        assert_eq!(exp2_neg_q32(10 * ONE), ONE >> 10);
        let half_power = exp2_neg_q32(ONE / 2);
        assert!(half_power.abs_diff((ONE as f64 / 2f64.sqrt()) as u64) < 8);
        assert_eq!(exp2_neg_q32(80 * ONE), 0);
    }
}

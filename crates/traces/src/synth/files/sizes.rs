//! How large is a file of FileBench?
//!
//! Source: [LORIS §V] gives medians (128 KiB, 32 KiB); that sizes follow a gamma distribution of
//! shape 1.5 is what FileBench's own models ask for. X ~ Gamma(3/2, 1) is half of a chi-square of
//! three degrees of freedom, which is that of two, twice an exponential, and that of one, the square
//! of a normal deviate. So X = E + Z²/2, and needs no table. Its median is 1.182987, half of the
//! chi-square's 2.365974.

use tandem_block::Rng;

const MEDIAN_PPM: u128 = 1_182_987;

/// The next size, in bytes, at least 1.
pub(super) fn gamma(median_bytes: u64, rng: &mut Rng) -> u64 {
    let exponential_ppm = u128::from(rng.exponential(1_000_000));
    let normal_ppm = u128::from(rng.gauss_ppm().unsigned_abs());
    let drawn_ppm = exponential_ppm + normal_ppm * normal_ppm / 2_000_000;
    let bytes = u128::from(median_bytes) * drawn_ppm / MEDIAN_PPM;
    u64::try_from(bytes).expect("some sixty medians at most").max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The chi-square's table of three degrees of freedom, over its median.
    #[test]
    fn sizes_are_gamma_distributed() {
        let mut rng = Rng::new(4);
        let mut drawn: Vec<u64> = (0..200_000).map(|_| gamma(1_000_000, &mut rng)).collect();
        drawn.sort_unstable();
        for (permille, chi_square) in [
            (50, 0.3518),
            (250, 1.2125),
            (500, 2.3660),
            (750, 4.1083),
            (900, 6.2514),
            (990, 11.345),
        ] {
            let want = chi_square / 2.365974 * 1e6;
            let got = drawn[drawn.len() * permille / 1000] as f64;
            assert!((got / want - 1.0).abs() < 0.02, "{permille}: {got}, not {want}");
        }
        let mean = drawn.iter().sum::<u64>() as f64 / drawn.len() as f64;
        assert!((mean / 1e6 / (1.5 / 1.182987) - 1.0).abs() < 0.01, "{mean}");
        assert_eq!(gamma(0, &mut rng), 1);
    }
}

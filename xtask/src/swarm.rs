//! Can it lose data, if one looks for longer? Cuts the power in random pools for as many seeds as
//! one likes; the promise is checked by `tandem-sim`, this file only spells its arguments.

use crate::cargo;
use anyhow::{Context as _, Result, bail};

/// Flags in the order in which the example takes them, and what they are if not given.
const FLAGS: [(&str, u64); 5] = [
    ("--first", 0),
    ("--seeds", 1000),
    ("--requests", 150),
    ("--stride", 3),
    ("--recovery-stride", 100),
];

/// Runs the campaign. False if the promise was broken; the seed is printed then.
///
/// # Errors
/// If the arguments make no sense or cargo cannot be started.
pub fn run(words: &[String]) -> Result<bool> {
    let numbers = parse(words)?;
    let status = cargo::cargo()
        .args(["run", "--release", "-p", "tandem-sim", "--example", "swarm", "--"])
        .args(numbers.map(|number| number.to_string()))
        .status()
        .context("starting cargo")?;
    Ok(status.success())
}

fn parse(words: &[String]) -> Result<[u64; 5]> {
    let mut numbers = FLAGS.map(|(_, standard)| standard);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let Some(place) = FLAGS.iter().position(|(flag, _)| flag == word) else {
            bail!("unknown flag {word}; there are {}", FLAGS.map(|(flag, _)| flag).join(", "));
        };
        let value = words.next().with_context(|| format!("{word} wants a number"))?;
        numbers[place] =
            value.parse().with_context(|| format!("{word} wants a number, not {value:?}"))?;
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_in_any_order_and_errors_that_name_them() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(parse(&words("")).unwrap(), [0, 1000, 150, 3, 100]);
        assert_eq!(parse(&words("--stride 1 --seeds 5")).unwrap(), [0, 5, 150, 1, 100]);
        for (line, told) in [("--seed 5", "--seeds"), ("--seeds", "a number"), ("--seeds x", "x")] {
            let error = format!("{:#}", parse(&words(line)).unwrap_err());
            assert!(error.contains(told), "{line}: {error}");
        }
    }
}

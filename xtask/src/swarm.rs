//! Can it lose data, if one looks for longer? Cuts the power in random pools for as many seeds as
//! one likes; the promise is checked by `tandem-sim`, this file only spells its arguments.

use crate::cargo;
use anyhow::{Context as _, Result, bail};

/// Flags in the order in which the example takes them, and what they are if not given.
const FLAGS: [(&str, u64); 2] = [("--first", 0), ("--seeds", 200)];

/// Runs the campaign. False if the promise was broken; the seed is printed then.
///
/// # Errors
/// If the arguments make no sense or cargo cannot be started.
pub fn run(words: &[String]) -> Result<bool> {
    let (numbers, arm) = parse(words)?;
    let status = cargo::cargo()
        .args(["run", "--release", "-p", "tandem-sim", "--example", "swarm", "--"])
        .args(numbers.map(|number| number.to_string()))
        .args(arm)
        .status()
        .context("starting cargo")?;
    Ok(status.success())
}

/// The numbers, and the arm if one is named.
fn parse(words: &[String]) -> Result<([u64; 2], Option<&String>)> {
    let mut numbers = FLAGS.map(|(_, standard)| standard);
    let mut arm = None;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let value = words.next().with_context(|| format!("{word} wants a value"));
        if word == "--arm" {
            arm = Some(value?);
            continue;
        }
        let Some(place) = FLAGS.iter().position(|(flag, _)| flag == word) else {
            bail!(
                "unknown flag {word}; there are {}, --arm",
                FLAGS.map(|(flag, _)| flag).join(", ")
            );
        };
        let value = value?;
        numbers[place] =
            value.parse().with_context(|| format!("{word} wants a number, not {value:?}"))?;
    }
    Ok((numbers, arm))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_in_any_order_and_errors_that_name_them() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(parse(&words("")).unwrap(), ([0, 200], None));
        let line = words("--arm long --seeds 5");
        assert_eq!(parse(&line).unwrap(), ([0, 5], Some(&"long".to_owned())));
        for (line, told) in [("--seed 5", "--seeds"), ("--seeds", "a value"), ("--seeds x", "x")] {
            let error = format!("{:#}", parse(&words(line)).unwrap_err());
            assert!(error.contains(told), "{line}: {error}");
        }
    }
}

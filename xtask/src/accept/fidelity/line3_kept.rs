//! Is every relation of before still there, and none looser?
//!
//! Source: acceptance of fidelity, line 3. experiments/relations.txt has the relations of commit 7e05906:
//! file, id and what is asked, with a tab between them.

use crate::accept::Options;
use crate::cargo;
use crate::row::Row;
use anyhow::{Context as _, Result, bail};
use std::collections::BTreeMap;
use std::fs::read_to_string;
use toml::Value;

/// Bounds: those that may only rise, then those that may only fall.
const RISE: [&str; 3] = ["at_least", "least_factor", "cases"];
const FALL: [&str; 1] = ["at_most"];
/// What else a relation asks: it must be the same.
const SAME: [&str; 5] = ["value", "over", "order", "count", "direction"];

/// What a relation is for, where it does not score.
const KIND: &str = "kind";

/// What a relation asks, key by key.
type Asked = BTreeMap<String, String>;

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    let folder = cargo::root().join("experiments");
    let path = folder.join("relations.txt");
    let text = read_to_string(&path).with_context(|| path.display().to_string())?;
    let before = listed(&text)?;
    let mut now: BTreeMap<String, BTreeMap<String, Asked>> = BTreeMap::new();
    let (mut gone, mut looser, mut tighter, mut scores_no_more) =
        (Vec::new(), Vec::new(), 0, BTreeMap::<&str, u64>::new());
    for (file, id, asked) in &before {
        if !now.contains_key(file) {
            let path = folder.join(format!("{file}.toml"));
            let text = read_to_string(&path).with_context(|| path.display().to_string())?;
            now.insert(file.clone(), relations(&text).with_context(|| file.clone())?);
        }
        match now[file].get(id) {
            None => gone.push(id.clone()),
            Some(today) if without_kind(today) == *asked => {}
            Some(today) => match loosened(asked, today) {
                Some(key) => looser.push(format!("{id} ({key})")),
                None => tighter += 1,
            },
        }
        // every one of them scored then
        if now[file].get(id).is_some_and(|asked| asked.contains_key(KIND)) {
            *scores_no_more.entry(file).or_default() += 1;
        }
    }
    let list = |ids: &[String]| if ids.is_empty() { "none".into() } else { ids.join(", ") };
    Ok(vec![
        Row::new(
            format!("none of the {} relations of 7e05906 is gone", before.len()),
            list(&gone),
            gone.is_empty() && !before.is_empty(),
        ),
        Row::new("none of them is looser", list(&looser), looser.is_empty()),
        Row::info("tighter than then", format!("{tighter}")),
        Row::info(
            "of them calibrate or are built in now, so that they score no more",
            scores_no_more
                .iter()
                .map(|(file, count)| format!("{file} {count}"))
                .collect::<Vec<_>>()
                .join(", "),
        ),
    ])
}

/// File, id and what is asked, by line.
fn listed(text: &str) -> Result<Vec<(String, String, Asked)>> {
    let mut all = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let parts: Vec<&str> = line.split('\t').collect();
        let [file, id, asked] = parts[..] else { bail!("{line:?} has no file, id and bounds") };
        all.push((file.to_owned(), id.to_owned(), asked_of(asked)?));
    }
    Ok(all)
}

fn asked_of(text: &str) -> Result<Asked> {
    let pair = |word: &str| {
        let (key, value) = word.split_once('=').with_context(|| format!("{word:?} has no ="))?;
        Ok((key.to_owned(), value.to_owned()))
    };
    text.split(' ').map(pair).collect()
}

/// The relations of a file of experiments, by id.
fn relations(text: &str) -> Result<BTreeMap<String, Asked>> {
    let file: toml::Table = text.parse()?;
    let list = file.get("relation").and_then(Value::as_array);
    let mut all = BTreeMap::new();
    for relation in list.into_iter().flatten() {
        let id = relation.get("id").and_then(Value::as_str).context("a relation without id")?;
        let keys = SAME.iter().chain(&RISE).chain(&FALL).chain(&[KIND]);
        let asked = keys.filter_map(|key| Some(((*key).to_owned(), plain(relation.get(*key)?))));
        all.insert(id.to_owned(), asked.collect());
    }
    Ok(all)
}

/// A value as the list has it: several with a comma between them, numbers in their shortest form.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(plain).collect::<Vec<_>>().join(","),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        other => other.to_string(),
    }
}

fn without_kind(asked: &Asked) -> Asked {
    asked.iter().filter(|(key, _)| *key != KIND).map(|(k, v)| (k.clone(), v.clone())).collect()
}

/// The key that asks less than before, if one does.
fn loosened(before: &Asked, today: &Asked) -> Option<String> {
    let number =
        |asked: &Asked, key: &str| asked.get(key).and_then(|text| text.parse::<f64>().ok());
    let looser = |key: &&str, sign: f64| match (number(before, key), number(today, key)) {
        (Some(then), Some(now)) => (now - then) * sign < 0.0,
        (Some(_), None) => true,
        (None, _) => false,
    };
    let changed = SAME.iter().find(|key| before.get(**key) != today.get(**key));
    let rises = RISE.iter().find(|key| looser(key, 1.0));
    let falls = FALL.iter().find(|key| looser(key, -1.0));
    changed.or(rises).or(falls).map(|key| (*key).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_may_move_one_way_only() {
        let before = "value=a/b/c over=a/d/c at_least=0.5 at_most=2";
        for (today, want) in [
            (before, None),
            ("value=a/b/c over=a/d/c at_least=0.6 at_most=1.9", None),
            ("value=a/b/c over=a/d/c at_least=0.5 at_most=2.0", None),
            ("value=a/b/c over=a/d/c at_least=0.4 at_most=2", Some("at_least")),
            ("value=a/b/c over=a/d/c at_least=0.5 at_most=2.1", Some("at_most")),
            ("value=a/b/c over=a/d/c at_least=0.5", Some("at_most")),
            ("value=a/b/e over=a/d/c at_least=0.5 at_most=2", Some("value")),
            ("value=a/b/c at_least=0.5 at_most=2", Some("over")),
        ] {
            let loosened =
                loosened(&asked_of(before).expect("sound"), &asked_of(today).expect("sound"));
            assert_eq!(loosened.as_deref(), want, "{today}");
        }
        let orders = ["order=a,b direction=rising", "order=a,b,c direction=rising"];
        let [two, three] = orders.map(|text| asked_of(text).expect("sound"));
        assert_eq!(loosened(&two, &three).as_deref(), Some("order"));
        let factor = asked_of("order=a,b direction=rising least_factor=1.01").expect("sound");
        assert_eq!(loosened(&two, &factor), None, "a factor where there was none asks more");
        assert_eq!(loosened(&factor, &two).as_deref(), Some("least_factor"));
    }

    #[test]
    fn a_file_says_what_the_list_says() {
        let text = "[[relation]]\nid = \"M1\"\nwhat = \"w\"\ncount = [\"a/b/c\", \"d/e/f\"]\nat_most = 0.50\ncases = 2\n";
        let listed =
            listed("# a list\nx\tM1\tcount=a/b/c,d/e/f at_most=0.5 cases=2\n").expect("sound");
        assert_eq!(relations(text).expect("sound")["M1"], listed[0].2);
        assert!(super::listed("x\tM1\n").is_err());
    }
}

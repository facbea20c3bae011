//! Which known name did the user mean?

/// The name nearest to `wanted` by edit distance; the first of equally near ones.
///
/// # Panics
/// If `known` is empty.
pub fn nearest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> &'a str {
    known.into_iter().min_by_key(|name| distance(wanted, name)).expect("a registry is never empty")
}

/// Levenshtein distance in bytes, without regard to case; what is beyond 64 bytes is ignored.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<u8> = left.bytes().take(64).map(|byte| byte.to_ascii_lowercase()).collect();
    let right: Vec<u8> = right.bytes().take(64).map(|byte| byte.to_ascii_lowercase()).collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, &l) in left.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &r) in right.iter().enumerate() {
            let substituted = diagonal + usize::from(l != r);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_finger_are_forgiven() {
        let known = ["msr", "alibaba", "disksim", "mqsim"];
        for (wanted, meant) in
            [("mrs", "msr"), ("AliBaba", "alibaba"), ("disk-sim", "disksim"), ("mqsi", "mqsim")]
        {
            assert_eq!(nearest(wanted, known), meant);
        }
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}

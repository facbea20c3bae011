//! Which known name did the user mean?

/// The name nearest to `wanted` by edit distance, without regard to case; the first of equally near ones.
/// Two letters in the wrong order are one slip. A name of which `wanted` is the beginning is nearer than any
/// other.
///
/// # Panics
/// If `known` is empty.
pub fn nearest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> &'a str {
    let wanted: String = wanted.chars().take(64).collect::<String>().to_ascii_lowercase();
    let distance = |name: &&str| {
        let name = name.to_ascii_lowercase();
        let is_cut_off = !wanted.is_empty() && name.starts_with(&wanted);
        (!is_cut_off, strsim::damerau_levenshtein(&wanted, &name))
    };
    known.into_iter().min_by_key(distance).expect("a registry is never empty")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_finger_are_forgiven() {
        let known = ["msr", "alibaba", "disksim", "mqsim"];
        let long = "m".repeat(1 << 20);
        for (wanted, meant) in [
            ("mrs", "msr"),
            ("disskmi", "disksim"),
            ("AliBaba", "alibaba"),
            ("disk-sim", "disksim"),
            ("mqsi", "mqsim"),
            ("", "msr"),
            (&long, "mqsim"),
        ] {
            assert_eq!(nearest(wanted, known), meant);
        }
        assert_eq!(nearest("queue", ["pairs", "queue_length"]), "queue_length");
    }
}

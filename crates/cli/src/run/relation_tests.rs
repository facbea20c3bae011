//! Do relations hold when they should, and only then?

use super::*;

fn relation(text: &str) -> Relation {
    let text = format!("id = \"M1\"\nwhat = \"w\"\npaper = \"-65 %\"\n{text}");
    let entry: Spanned<file::Relation> = Spanned::new(0..0, toml::from_str(&text).expect(&text));
    Relation::check(&entry).unwrap_or_else(|fault| panic!("{text}: {}", fault.text))
}

/// `c/p/a` is 10, `c/p/b` 20, `c/p/z` 0; there is nothing else.
fn look_up(path: &Path) -> Result<f64, String> {
    match path.field.as_str() {
        "a" => Ok(10.0),
        "b" => Ok(20.0),
        "z" => Ok(0.0),
        other => Err(format!("no {other}")),
    }
}

#[test]
fn bounds_orders_and_counts_hold_or_not() {
    for (text, holds, ours) in [
        ("rule = \"effect\"\nvalue = \"c/p/a\"\nover = \"c/p/b\"\nat_most = 0.5", true, "-50.0 %"),
        (
            "rule = \"effect\"\nvalue = \"c/p/a\"\nover = \"c/p/b\"\nat_most = 0.49",
            false,
            "-50.0 %",
        ),
        (
            "rule = \"amount\"\nvalue = \"c/p/a\"\nover = \"c/p/b\"\nat_least = 0.4",
            true,
            "50.000 %",
        ),
        ("rule = \"amount\"\nvalue = \"c/p/a\"\nat_least = 11", false, "10"),
        ("rule = \"amount\"\nvalue = \"c/p/a\"\nover = \"c/p/z\"\nat_least = 0", false, "c/p is 0"),
        ("rule = \"amount\"\nvalue = \"c/p/x\"\nat_most = 9", false, "no x"),
        (
            "rule = \"direction\"\norder = [\"c/p/a\", \"c/p/b\"]\ndirection = \"rising\"",
            true,
            "10, 20",
        ),
        (
            "rule = \"direction\"\norder = [\"c/p/a\", \"c/p/b\"]\ndirection = \"falling\"",
            false,
            "10, 20",
        ),
        (
            "rule = \"direction\"\norder = [\"c/p/a\", \"c/p/b\"]\ndirection = \"rising\"\nleast_factor = 2.1",
            false,
            "10, 20",
        ),
        (
            "rule = \"direction\"\ncount = [\"c/p/a\", \"c/p/b\", \"c/p/x\"]\nat_least = 15\ncases = 1",
            true,
            "1 of 3 (10, 20, none)",
        ),
        (
            "rule = \"direction\"\ncount = [\"c/p/a\", \"c/p/b\", \"c/p/x\"]\nat_least = 1\ncases = 3",
            false,
            "2 of 3 (10, 20, none)",
        ),
    ] {
        let verdict = relation(text).verdict(&look_up);
        let has_value = !ours.starts_with("no ") && !ours.ends_with(" is 0");
        assert_eq!(verdict, Verdict { ours: ours.into(), holds, error: None, has_value }, "{text}");
    }
}

/// `c/p/a` is 10, `c/p/same` too, `c/p/near` half a percent more.
#[test]
fn what_is_equal_has_no_direction() {
    let look_up = |path: &Path| match path.field.as_str() {
        "a" | "same" => Ok(1000.0),
        "near" => Ok(1005.0),
        "more" => Ok(1011.0),
        other => Err(format!("no {other}")),
    };
    for (rule, last, direction, holds) in [
        ("direction", "same", "rising", false),
        ("direction", "same", "falling", false),
        ("direction", "near", "rising", false),
        ("direction", "more", "rising", true),
        ("direction", "more", "falling", false),
        ("effect", "near", "rising", true),
        ("effect", "same", "rising", false),
        ("effect", "same", "falling", false),
    ] {
        let text = format!(
            "rule = \"{rule}\"\norder = [\"c/p/a\", \"c/p/{last}\"]\ndirection = \"{direction}\""
        );
        assert_eq!(relation(&text).verdict(&look_up).holds, holds, "{text}");
    }
}

#[test]
fn what_calibrates_is_as_far_off_as_the_larger_is_of_the_smaller() {
    // c/p/a is 10
    for (published, rule, error, holds) in [
        ("10.0", "amount", 1.0, true),
        ("16.0", "amount", 1.6, true),
        ("5.0", "amount", 2.0, true),
        ("4.0", "amount", 2.5, false),
        ("11.0", "about equal", 1.1, true),
        ("12.0", "about equal", 1.2, false),
        ("10.04", "share", 1.004, true),
        ("10.06", "share", 1.006, false),
    ] {
        let text = format!(
            "rule = \"{rule}\"\nvalue = \"c/p/a\"\nkind = \"calibrates\"\npublished = {published}\nsource = \"Table 1\""
        );
        let verdict = relation(&text).verdict(&look_up);
        assert_eq!(verdict.holds, holds, "{text}");
        assert!((verdict.error.expect("a number") - error).abs() < 1e-9, "{text}: {verdict:?}");
    }
    let none = "rule = \"amount\"\nvalue = \"c/p/z\"\nkind = \"calibrates\"\npublished = 3.0\nsource = \"Table 1\"";
    let verdict = relation(none).verdict(&look_up);
    assert_eq!((verdict.holds, verdict.error), (false, Some(f64::INFINITY)));
}

#[test]
fn a_percentile_of_nothing_is_no_number() {
    let run = serde_json::json!({
        "write": { "count": 0, "p99_ns": 0 },
        "write_by_size": [{ "count": 2, "mean_ns": 7 }, { "count": 0, "mean_ns": 0 }],
        "share": null,
    });
    for (field, want) in [
        ("write.count", Ok(0.0)),
        ("write.p99_ns", Err("no requests in write".to_owned())),
        ("write_by_size.0.mean_ns", Ok(7.0)),
        ("write_by_size.1.mean_ns", Err("no requests in 1".to_owned())),
        ("share", Err("no share".to_owned())),
    ] {
        assert_eq!(field_of(&run, field), want, "{field}");
    }
}

#[test]
fn a_fraction_is_told_in_four_digits() {
    for (value, want) in [
        (0.034310241578477424, "0.03431"),
        (0.5, "0.5"),
        (2.0, "2"),
        (1234.56, "1234.6"),
        (0.000012345, "0.00001234"),
    ] {
        assert_eq!(significant(value), want);
    }
}

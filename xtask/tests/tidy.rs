//! Does the repository keep its own rules? The same check as `cargo xtask tidy`.

#[test]
fn the_house_is_tidy() {
    let report = xtask::tidy::check().expect("the repository can be read");
    assert!(report.files > 100, "only {} files were read", report.files);
    let lines: Vec<String> = report
        .findings
        .iter()
        .map(|f| format!("{}:{}: {}: {}", f.path, f.line, f.rule, f.what))
        .collect();
    assert!(lines.is_empty(), "\n{}", lines.join("\n"));
}

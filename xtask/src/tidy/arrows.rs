//! Do the arrows between the crates point inward only?
//!
//! Source: design, "The house": `block` knows nobody, `engine`, `drives`, `traces` and `names` know
//! `block` alone, `sim` and `live` never know each other, the front ends stay out of the simulator.

use super::{Finding, SourceFile};

/// Crate, what it may depend on, and what its tests may use besides.
const ARROWS: &[(&str, &[&str], &[&str])] = &[
    ("block", &[], &[]),
    ("engine", &["block"], &[]),
    ("drives", &["block"], &[]),
    ("traces", &["block"], &[]),
    ("names", &["block"], &[]),
    // its golden results replay traces, and power is cut under names too
    ("sim", &["block", "engine", "drives"], &["traces", "names"]),
    ("live", &["block", "engine", "drives"], &[]),
    // a front end is tested over a pool
    ("fronts", &["block", "live", "names"], &["engine", "drives"]),
    ("cli", &["block", "engine", "drives", "traces", "sim", "live", "fronts", "names"], &[]),
];

const RULE: &str = "arrows";

pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        let parts: Vec<&str> = file.path.split('/').collect();
        let &["crates", name, "Cargo.toml"] = &parts[..] else { continue };
        let Some((_, allowed, in_tests)) = ARROWS.iter().find(|(known, _, _)| *known == name)
        else {
            let what = "a crate without a line in ARROWS: say whom it may know".to_owned();
            findings.push(Finding { path: file.path.clone(), line: 0, rule: RULE, what });
            continue;
        };
        for (line, dependency, dev) in dependencies(&file.text) {
            let may = allowed.contains(&dependency) || dev && in_tests.contains(&dependency);
            if !may {
                let what = format!("{name} may not know {dependency}");
                findings.push(Finding { path: file.path.clone(), line, rule: RULE, what });
            }
        }
    }
    findings
}

/// Line, crate of ours, and whether only tests use it.
fn dependencies(manifest: &str) -> Vec<(usize, &str, bool)> {
    let mut found = Vec::new();
    let (mut inside, mut dev) = (false, false);
    for (index, line) in manifest.lines().enumerate() {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[') {
            let header = header.trim_end_matches(']');
            inside = header.ends_with("dependencies");
            dev = header.contains("dev-dependencies");
            if let Some((_, name)) = header.split_once("dependencies.tandem-") {
                found.push((index + 1, name, dev));
            }
        } else if let Some(rest) = line.strip_prefix("tandem-").filter(|_| inside) {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
            found.push((index + 1, &rest[..end], dev));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_arrow_is_found_however_it_is_written() {
        let wrong = [
            "[dependencies]\ntandem-sim.workspace = true",
            "[dependencies.tandem-sim]\npath = \"../sim\"",
            "[dependencies]\ntandem-sim = { path = \"../sim\" }",
            "[target.'cfg(unix)'.dependencies]\ntandem-sim = \"1\"",
            "[dev-dependencies]\ntandem-sim.workspace = true",
        ];
        for text in wrong {
            let path = "crates/live/Cargo.toml".to_owned();
            let found = check(&[SourceFile { path, text: text.to_owned() }]);
            assert_eq!(found.len(), 1, "{text}");
        }
        let path = "crates/sim/Cargo.toml".to_owned();
        let text = "[dependencies]\ntandem-engine.workspace = true\n\
                    [dev-dependencies]\ntandem-traces.workspace = true\n[lints]\ntandem-live = 1";
        assert!(check(&[SourceFile { path, text: text.to_owned() }]).is_empty());
    }
}

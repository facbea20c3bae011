//! ARCHITECTURE.md as a page with sections and the files that they name.

use crate::cargo;
use anyhow::{Context as _, Result};

pub(super) fn read() -> Result<String> {
    let path = cargo::root().join("ARCHITECTURE.md");
    std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
}

/// The lines below a heading, up to the next one.
pub(super) fn section(text: &str, heading: &str) -> String {
    let below = text.lines().skip_while(|line| *line != heading).skip(1);
    below.take_while(|line| !line.starts_with("## ")).collect::<Vec<_>>().join("\n")
}

/// Is there such a file or folder, from `crates/` or from the engine's sources on?
pub(super) fn exists(path: &str) -> bool {
    let root = cargo::root();
    ["crates", "crates/engine/src", "crates/fronts/src/nbd", "."]
        .iter()
        .any(|base| root.join(base).join(path).exists())
}

/// What a line names between backquotes and looks like a file or a folder.
pub(super) fn paths(line: &str) -> impl Iterator<Item = String> {
    let quoted = line.split('`').skip(1).step_by(2);
    quoted.filter(|word| word.ends_with(".rs") || word.ends_with('/')).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_ends_at_the_next_heading() {
        let text = "## A\n1\n## B\n2\n3\n";
        assert_eq!(section(text, "## A"), "1");
        assert_eq!(section(text, "## B"), "2\n3");
        assert_eq!(section(text, "## C"), "");
    }

    #[test]
    fn only_what_is_there_exists() {
        assert!(
            exists("engine/src/engine/turn.rs") && exists("requests/write.rs") && exists("io/")
        );
        assert!(!exists("requests/nowhere.rs"));
    }

    #[test]
    fn files_and_folders_are_paths_and_names_are_not() {
        let line = "`steer/`, `requests/write.rs`, `steer_write`: the `Command` in `map/`";
        assert_eq!(paths(line).collect::<Vec<_>>(), ["steer/", "requests/write.rs", "map/"]);
    }
}

//! Does the fuzzer run as it is called? Its program, for a moment and over one input.

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::process::{Command, Output};

fn fuzz(words: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    Command::new(env!("CARGO_BIN_EXE_tandem-fuzz"))
        .args(words)
        .current_dir(folder.path())
        .output()
        .unwrap()
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn it_lists_its_targets_and_tries_one() {
    let listed = fuzz(&["--list"]);
    assert!(listed.status.success() && printed(&listed).contains("superblock"), "{listed:?}");
    let tried = fuzz(&["superblock", "--seconds", "1"]);
    assert!(tried.status.success() && printed(&tried).contains("superblock"), "{tried:?}");
    for words in [&["superbloc"][..], &["--second", "1"], &["--input"]] {
        let refused = fuzz(words);
        assert!(!refused.status.success() && !refused.stderr.is_empty(), "{refused:?}");
    }
}

//! Does `TANDEM_LOG` choose what the log says, and is a word it does not know pointed out?

use std::process::Command;

/// What `serve` says on stderr about a configuration that is not there.
fn said(log: &str) -> String {
    let missing = std::env::temp_dir().join("tandem-no-such-pool.toml");
    let output = Command::new(env!("CARGO_BIN_EXE_tandem"))
        .arg("serve")
        .arg(missing)
        .env("TANDEM_LOG", log)
        .output()
        .unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_word_that_is_no_level_is_named_and_the_rest_goes_on() {
    let text = said("tandem_live=loud");
    assert!(text.contains("TANDEM_LOG=\"tandem_live=loud\" is not understood"), "{text}");
    assert!(text.contains("tandem-no-such-pool.toml"), "{text}");
}

#[test]
fn levels_for_all_and_for_one_crate_are_understood() {
    for log in ["debug", "warn,tandem_live=debug", "off"] {
        let text = said(log);
        assert!(!text.contains("TANDEM_LOG"), "{log}: {text}");
        assert!(text.contains("tandem-no-such-pool.toml"), "{log}: {text}");
    }
}

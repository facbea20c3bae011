//! How is cargo called from a task? Always at the root of the repository, never waiting for input.

use anyhow::{Context as _, Result, bail};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The root of the repository. Cargo says at run time which one it is: a build directory may serve several.
pub fn root() -> PathBuf {
    let own = std::env::var_os("CARGO_MANIFEST_DIR");
    let own = own.map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    own.parent().expect("xtask lies in a folder of the repository").to_path_buf()
}

/// A `cargo` that is ready for arguments.
pub fn cargo() -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root()).stdin(Stdio::null());
    command
}

/// Runs cargo with these words and returns what it printed; its messages pass through.
///
/// # Errors
/// If it cannot be started or fails.
pub fn output(words: &[&str]) -> Result<String> {
    let output = cargo()
        .args(words)
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("starting cargo {}", words.join(" ")))?;
    if !output.status.success() {
        bail!("cargo {} failed: {}", words.join(" "), output.status);
    }
    String::from_utf8(output.stdout).context("cargo printed what is not UTF-8")
}

/// Builds the `tandem` binary and returns where it is: as users run it, or as tests do, with every
/// debug assertion.
///
/// # Errors
/// If it does not build.
pub fn build_tandem(release: bool) -> Result<PathBuf> {
    let words: &[&str] = if release {
        &["-p", "tandem", "--release"]
    } else {
        &["-p", "tandem", "--profile", "test"]
    };
    build(words, "tandem")
}

/// Builds with these words and returns where the program of this name is.
///
/// # Errors
/// If it does not build.
pub fn build(words: &[&str], name: &str) -> Result<PathBuf> {
    let mut all = vec!["build", "--message-format=json-render-diagnostics"];
    all.extend(words);
    let messages = output(&all)?;
    for line in messages.lines().rev() {
        let Ok(message) = serde_json::from_str::<serde_json::Value>(line) else { continue };
        if message["target"]["name"] == name
            && let Some(path) = message["executable"].as_str()
        {
            return Ok(path.into());
        }
    }
    bail!("cargo built no program named {name}")
}

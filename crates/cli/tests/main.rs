//! Does the program do what it says? All its tests are one binary: what they share is built and linked once.

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod support;
mod sweep;

mod access;
mod attacks;
mod command_line;
mod examples;
mod files;
mod files_clone;
mod files_direct;
mod files_limits;
mod files_snapshot;
mod files_tier;
mod fuse;
mod live;
mod log;
mod log_full;
mod modes;
mod pool_add;
mod pool_bay;
mod pool_block;
mod pool_copies;
mod pool_cut;
mod pool_damage;
mod pool_drain;
mod pool_format;
mod pool_image;
mod pool_pair;
mod pool_replace;
mod pool_serve;
mod pool_sigkill;
mod pool_snapshot;
mod pool_tier;
mod profile;
mod run;
mod status_silent;
mod tls;

/// A file that is not named here would not be run.
#[test]
fn every_file_of_tests_is_a_module() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(name) = name.strip_suffix(".rs").filter(|name| *name != "main") else { continue };
        files += 1;
        let line = format!("mod {name};");
        assert!(include_str!("main.rs").lines().any(|known| known == line), "{line} is missing");
    }
    assert!(files > 30, "{files}");
}

//! Are the programs here that the tests call? Debian packages, installed where that is allowed.

use crate::watch::{Output, Patience, Watch};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// An installation that does nothing for so long is given up.
const PATIENCE: Patience = Patience { asleep: Duration::from_secs(180), ..Patience::TEST };

/// Packages that the tests need, each with a program that tells whether it is there.
const PACKAGES: &[(&str, &str)] = &[
    ("fio", "fio"),
    ("libnbd-bin", "nbdinfo"),
    ("qemu-utils", "qemu-img"),
    ("nbdkit", "nbdkit"),
    ("fuse3", "fusermount3"),
    ("xfsprogs", "mkfs.xfs"),
    ("e2fsprogs", "mkfs.ext4"),
];

/// Benchmarks of file systems, which acceptance alone runs.
pub const OF_FILES: &[(&str, &str)] = &[("postmark", "postmark"), ("dbench", "dbench")];

/// Installs what is missing, as root or with a sudo that asks nothing. Where that cannot be done it
/// says what to install; the tests concerned say that they skip.
///
/// A package source that does not answer is like none.
pub fn install() {
    install_all(PACKAGES);
}

/// The same for others; apart, so that one that cannot be had takes none of the first with it.
pub fn install_all(packages: &[(&'static str, &str)]) {
    let missing = missing(packages);
    if missing.is_empty() {
        return;
    }
    println!("== packages: installing {}", missing.join(" "));
    for prefix in [&["env"][..], &["sudo", "-n"][..]] {
        let apt = |words: &[&str]| {
            let mut command = Command::new(prefix[0]);
            command
                .args(&prefix[1..])
                .args(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q"])
                .args(["-o", "DPkg::Lock::Timeout=60", "-o", "Acquire::http::Timeout=60"])
                .args(words)
                .stdin(Stdio::null());
            Watch::new()
                .and_then(|watch| watch.run(&mut command, PATIENCE, Output::Kept))
                .is_ok_and(|ended| ended.succeeded)
        };
        let mut words = vec!["install", "-y", "--no-install-recommends"];
        words.extend(&missing);
        if apt(&words) || (apt(&["update"]) && apt(&words)) {
            return;
        }
    }
    println!(
        "they could not be installed (no root, no sudo, or no package source); \
         the tests that need them will skip. By hand: apt-get install {}",
        missing.join(" ")
    );
}

fn missing(packages: &[(&'static str, &str)]) -> Vec<&'static str> {
    let is_there = |program: &str| {
        let places =
            ["/usr/bin", "/usr/sbin", "/bin", "/sbin", "/usr/local/bin", "/usr/local/sbin"];
        places.iter().any(|place| Path::new(place).join(program).exists())
    };
    packages.iter().filter(|(_, program)| !is_there(program)).map(|(package, _)| *package).collect()
}

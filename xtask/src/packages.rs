//! Are the programs here that the tests call? Debian packages, installed where that is allowed.

use std::path::Path;
use std::process::{Command, Stdio};

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

/// Installs what is missing, as root or with a sudo that asks nothing. Where that cannot be done it
/// says what to install; the tests concerned say that they skip.
pub fn install() {
    let missing = missing();
    if missing.is_empty() {
        return;
    }
    println!("== packages: installing {}", missing.join(" "));
    for prefix in [&["env"][..], &["sudo", "-n"][..]] {
        let apt = |words: &[&str]| {
            Command::new(prefix[0])
                .args(&prefix[1..])
                .args(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q"])
                .args(words)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .status()
                .is_ok_and(|status| status.success())
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

fn missing() -> Vec<&'static str> {
    let is_there = |program: &str| {
        let places =
            ["/usr/bin", "/usr/sbin", "/bin", "/sbin", "/usr/local/bin", "/usr/local/sbin"];
        places.iter().any(|place| Path::new(place).join(program).exists())
    };
    PACKAGES.iter().filter(|(_, program)| !is_there(program)).map(|(package, _)| *package).collect()
}

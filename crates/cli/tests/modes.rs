//! Who may open the files of a pool, beside the user who made them?

use crate::support::PoolFixture;
use crate::support::program::{TWO, told};
use std::fs::{Permissions, metadata, set_permissions};
use std::os::unix::fs::PermissionsExt as _;

const FILES: [&str; 2] = ["ssd.img", "hdd.img"];

fn mode(pool: &PoolFixture, name: &str) -> u32 {
    metadata(pool.at(name)).unwrap().permissions().mode() & 0o7777
}

#[test]
fn files_of_drives_are_their_owners_alone() {
    // whatever the umask of the user: the usual one lets others read
    let pool = PoolFixture::formatted(TWO);
    let modes = FILES.map(|name| mode(&pool, name));
    println!("measured: modes of new drive files {:04o} and {:04o}", modes[0], modes[1]);
    assert_eq!(modes, [0o600, 0o600]);
    let (ended, said) = pool.start().stop();
    assert!(ended.success() && !said.contains("has mode"), "{said}");
}

#[test]
fn a_drive_that_others_may_open_is_named() {
    let pool = PoolFixture::formatted(TWO);
    set_permissions(pool.at("hdd.img"), Permissions::from_mode(0o644)).unwrap();
    // the group is the owner's choice, as it is for block devices
    set_permissions(pool.at("ssd.img"), Permissions::from_mode(0o660)).unwrap();
    let (ended, said) = pool.start().stop();
    assert!(ended.success(), "{said}");
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("has mode")).collect();
    assert_eq!(lines.len(), 1, "{said}");
    assert!(lines[0].contains("hdd.img") && lines[0].contains("0644"), "{said}");
    assert!(lines[0].contains("chmod o="), "{said}");
    let again = pool.run("format", &["--force"]);
    assert!(told(&again).contains("hdd.img has mode 0644"), "{}", told(&again));
    assert_eq!(mode(&pool, "hdd.img"), 0o644, "what is there is not changed");
}

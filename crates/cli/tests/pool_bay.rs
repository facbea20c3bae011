//! Can a pool grow beyond the drives that it was formatted with?
//!
//! Requirement of pool life. The real program over files: one SSD and one hard drive, with an empty bay for
//! another one of each.

use crate::support::PoolFixture;
use crate::support::program::{json, tandem, told};
use crate::support::user::User;

const GROWS: &str = r#"# it may grow
[pool]
name = "small"
[[device]]
role = "ssd"
path = "one.img"
size = "256MiB"
[[device]]
role = "hdd"
path = "hdd.img"
size = "256MiB"
[[device]]
role = "ssd"
path = "bay:256MiB" # for the next one
[[device]]
role = "hdd"
path = "bay:320MiB"
[[volume]]
name = "vol0"
size = "160MiB"
[serve]
nbd = ["unix:tandem.sock"]
"#;

/// A volume that does not fit beside the first one before a hard drive has come.
const SECOND: &str = "[[volume]]\nname = \"vol1\"\nsize = \"240MiB\"\n";

const PIECE: usize = 256 << 10;

fn refuses(arguments: &[&str], want: &str) {
    let refused = tandem(arguments);
    let said = told(&refused);
    assert!(!refused.status.success() && said.contains(want), "{arguments:?}: {said}");
}

#[test]
fn a_pool_of_two_drives_becomes_one_of_four() {
    let pool = PoolFixture::new(GROWS);
    let config = pool.config();
    pool.write(&format!("{GROWS}{SECOND}"));
    refuses(&["format", config], "does not fit");
    pool.write(GROWS);
    let risk = pool.done("format", &["--dry-run"]);
    assert_eq!(risk.matches("nothing: no drive is there yet").count(), 2, "{risk}");
    let made = pool.done("format", &[]);
    assert!(made.contains("2 bays are empty until `tandem add`"), "{made}");
    assert!(made.contains("Metadata for them takes") && made.contains("of RAM"), "{made}");
    assert!(!pool.at("bay:256MiB").exists(), "no file stands for a bay");
    // what the bay is for is not there yet, so nothing of it is promised
    pool.write(&format!("{GROWS}{SECOND}"));
    refuses(&["serve", config], "vol1");
    pool.write(GROWS);

    let server = pool.start();
    let pieces = (160 << 20) / PIECE;
    let mut user = User::new(&pool, "vol0", (PIECE, pieces)).busy(0..pieces, 16);
    user.writes_all();
    let shown = pool.done("status", &[]);
    assert!(shown.contains("ssd (empty)") && shown.contains("hdd (empty)"), "{shown}");
    let before = pool.status();
    assert_eq!(before["gone"], serde_json::json!([2, 3]));
    let follows = |told: &serde_json::Value| told["metadata_replica"]["device"].clone();
    assert_eq!(follows(&before), 1, "as in a pool with one SSD: {}", before["metadata_replica"]);

    // a life ends while the SSD comes
    let ssd = pool.file("two.img", 256);
    let dry = pool.done("add", &[&ssd, "--role", "ssd", "--dry-run"]);
    assert!(dry.contains("would take the bay bay:256MiB"), "{dry}");
    pool.done("add", &[&ssd, "--bay", "bay:256MiB", "--detach"]);
    user.writes_until(&pool, "begun", |told| !told["replacing"].is_null());
    server.kill();
    let server = pool.start();
    let mut user = user.back(&pool, "vol0");
    user.writes_until(&pool, "added", |told| told["gone"] == serde_json::json!([3]));
    let text = GROWS.replace("\"bay:256MiB\"", "\"two.img\"");
    assert_eq!(std::fs::read_to_string(&pool.config).unwrap(), text);
    let after = pool.status();
    let bytes = |told: &serde_json::Value| told["ssd_bytes"].as_u64().unwrap();
    assert!(bytes(&after) > bytes(&before) * 19 / 10, "{} {}", bytes(&before), bytes(&after));
    assert_eq!(follows(&after), 1, "it follows still: {}", after["metadata_replica"]);
    let written = |told: &serde_json::Value| told["devices"][2]["user_bytes"].as_u64() > Some(0);
    user.writes_until(&pool, "written to", written);

    let hdd = pool.file("hdd2.img", 330);
    pool.done("add", &[&hdd, "--detach"]);
    user.writes_until(&pool, "added", |told| told["gone"] == serde_json::json!([]));
    let text = text.replace("\"bay:320MiB\"", "\"hdd2.img\"");
    assert_eq!(std::fs::read_to_string(&pool.config).unwrap(), text);
    refuses(&["add", config, &ssd], "has no empty bay");
    user.finds_all();
    server.stops();
    pool.done("check", &[]);

    // what did not fit does now
    pool.write(&format!("{text}{SECOND}"));
    let server = pool.start();
    let mut second = User::new(&pool, "vol1", (PIECE, (240 << 20) / PIECE));
    second.writes_all();
    let mut user = user.back(&pool, "vol0");
    user.writes(0..100);
    user.finds_all();
    server.kill();
    let server = pool.start();
    user.back(&pool, "vol0").finds_all();
    second.back(&pool, "vol1").finds_all();
    server.stops();
    let checked = pool.done("check", &[]);
    assert!(!checked.contains("is empty"), "{checked}");
}

#[test]
fn an_empty_bay_is_no_drive() {
    let pool = PoolFixture::formatted(GROWS);
    let config = pool.config();
    let checked = pool.done("check", &[]);
    assert!(checked.contains("bay:256MiB (ssd) is empty: `tandem add` puts"), "{checked}");
    let server = pool.start();
    let new = pool.file("new.img", 400);
    let small = pool.file("small.img", 100);
    let one = pool.path("one.img");
    for verb in ["drain", "remove"] {
        refuses(&[verb, config, "bay:256MiB"], "is an empty bay, and no drive");
    }
    refuses(&["replace", config, "bay:256MiB", &new], "is an empty bay, and no drive");
    refuses(&["drain", config, &one, "--dry-run"], "the pool's last SSD in service");
    refuses(&["add", config, &new], "say --role");
    refuses(&["add", config, &small, "--role", "hdd"], "and 335544320 are needed");
    refuses(&["add", config, &new, "--bay", "bay:1GiB"], "no such empty bay");
    refuses(&["add", config, &new, "--bay", "bay:320MiB", "--role", "ssd"], "no such empty");
    // a change of mind leaves the bay as it was
    let came = tandem(&["add", config, &new, "--role", "hdd", "--json"]);
    assert!(json(&came)["finished"] == true, "{}", told(&came));
    server.stops();
    // the bay is not empty any more, whatever the configuration says
    let text = std::fs::read_to_string(&pool.config).unwrap();
    pool.write(GROWS);
    refuses(&["serve", config], "is in this bay, which is listed as empty");
    pool.write(&text);
    pool.start().stops();
    refuses(&["format", config], "holds a Tandem pool");
}

/// An entry that the format did not know is a bay from the next start on. One that is too large for the pool changes
/// nothing.
#[test]
fn a_bay_is_made_by_a_start() {
    let last = "[[device]]\nrole = \"hdd\"\npath = \"bay:320MiB\"\n";
    let one_ssd = PoolFixture::formatted(&GROWS.replace(last, ""));
    one_ssd.write(GROWS);
    refuses(&["serve", one_ssd.config()], "the metadata replica of a pool with one SSD");
    let grows = GROWS.replace("\"bay:256MiB\"", "\"two.img\"\nsize = \"256MiB\"");
    let without = grows.replace(last, "");
    let pool = PoolFixture::formatted(&without);
    let server = pool.start();
    let mut user = User::new(&pool, "vol0", (PIECE, (160 << 20) / PIECE));
    user.writes_all();
    server.kill();
    pool.write(&grows.replace("bay:320MiB", "bay:8TiB"));
    refuses(&["serve", pool.config()], "is a bay that the pool does not have yet");
    refuses(&["serve", pool.config()], "would have no room on the drives that keep metadata");
    pool.write(&grows.replace("path = \"bay:320MiB\"", "path = \"never.img\"\ngone = true"));
    refuses(&["serve", pool.config()], "the pool never had it");
    pool.write(&without);
    pool.start().kill();

    pool.write(&grows);
    let server = pool.start();
    let mut user = user.back(&pool, "vol0");
    user.finds_all();
    assert_eq!(pool.status()["gone"], serde_json::json!([3]));
    server.kill();
    // from now on the pool has it
    pool.write(&without);
    refuses(&["serve", pool.config()], "list all of them");
    pool.write(&grows);
    let server = pool.start();
    let hdd = pool.file("hdd2.img", 330);
    pool.done("add", &[&hdd, "--role", "hdd"]);
    let mut user = user.back(&pool, "vol0");
    user.finds_all();
    server.stops();
    pool.done("check", &[]);
    // a volume that did not fit does now
    let text = std::fs::read_to_string(&pool.config).unwrap();
    pool.write(&format!("{text}{SECOND}"));
    let server = pool.start();
    let mut second = User::new(&pool, "vol1", (PIECE, (240 << 20) / PIECE));
    second.writes_all();
    server.kill();
    let server = pool.start();
    second.back(&pool, "vol1").finds_all();
    user.back(&pool, "vol0").finds_all();
    server.stops();
    pool.done("check", &[]);
}

//! Can a pool grow beyond the drives that it was formatted with?
//!
//! Requirement of pool life. The real program over files: one SSD and one hard drive, with an empty bay for
//! another one of each.

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod support;

use std::fs::File;
use std::time::{Duration, Instant};
use support::program::{formatted, json, printed, start, status, tandem, told};
use support::{Pool, Server};
use tandem_fronts::nbd::Client;
use tandem_live::listen::Address;

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
/// Longest wait for anything on a machine that has other things to do.
const LONG: Duration = Duration::from_secs(120);

/// A user of a volume who knows what each of its pieces holds.
struct User {
    client: Client,
    rounds: Vec<u8>,
}

fn bytes_of(piece: usize, round: u8) -> Vec<u8> {
    vec![(piece as u8).wrapping_mul(7) ^ round.wrapping_mul(37); PIECE]
}

impl User {
    fn of(pool: &Pool, volume: &str, rounds: Vec<u8>) -> User {
        let client = Client::connect(&Address::Unix(pool.at("tandem.sock")), volume).unwrap();
        User { client, rounds }
    }

    fn writes(&mut self, pieces: impl Iterator<Item = usize>) {
        for piece in pieces {
            self.rounds[piece] = self.rounds[piece].wrapping_add(1);
            let bytes = bytes_of(piece, self.rounds[piece]);
            self.client.write((piece * PIECE) as u64, &bytes, false).unwrap();
        }
        self.client.flush().unwrap();
    }

    fn finds_all(&mut self) {
        for (piece, &round) in self.rounds.iter().enumerate() {
            let found = self.client.read((piece * PIECE) as u64, PIECE as u32).unwrap();
            assert!(found == bytes_of(piece, round), "piece {piece} of round {round}");
        }
    }

    fn works_until(&mut self, pool: &Pool, what: &str, so: impl Fn(&serde_json::Value) -> bool) {
        let deadline = Instant::now() + LONG;
        for from in 0.. {
            let count = self.rounds.len();
            self.writes((0..16).map(|n| (from * 16 + n) % count));
            let told = status(pool);
            if so(&told) {
                return;
            }
            assert!(Instant::now() < deadline, "never {what}: {told}");
        }
    }
}

fn at(pool: &Pool, name: &str) -> String {
    pool.at(name).to_str().unwrap().to_owned()
}

fn file(pool: &Pool, name: &str, mib: u64) -> String {
    File::create(pool.at(name)).unwrap().set_len(mib << 20).unwrap();
    at(pool, name)
}

fn done(arguments: &[&str]) -> String {
    let output = tandem(arguments);
    assert!(output.status.success(), "{arguments:?}: {}{}", printed(&output), told(&output));
    printed(&output)
}

fn refuses(arguments: &[&str], want: &str) {
    let refused = tandem(arguments);
    let said = told(&refused);
    assert!(!refused.status.success() && said.contains(want), "{arguments:?}: {said}");
}

fn stops(server: Server) {
    let (ended, said) = server.stop();
    assert!(ended.success(), "{said}");
}

fn write(pool: &Pool, text: &str) {
    std::fs::write(&pool.config, text).unwrap();
}

#[test]
fn a_pool_of_two_drives_becomes_one_of_four() {
    let pool = Pool::new(GROWS);
    let config = pool.config();
    write(&pool, &format!("{GROWS}{SECOND}"));
    refuses(&["format", config], "does not fit");
    write(&pool, GROWS);
    let risk = done(&["format", config, "--dry-run"]);
    assert_eq!(risk.matches("nothing: no drive is there yet").count(), 2, "{risk}");
    let made = done(&["format", config]);
    assert!(made.contains("2 bays are empty until `tandem add`"), "{made}");
    assert!(made.contains("Metadata for them takes") && made.contains("of RAM"), "{made}");
    assert!(!pool.at("bay:256MiB").exists(), "no file stands for a bay");
    // what the bay is for is not there yet, so nothing of it is promised
    write(&pool, &format!("{GROWS}{SECOND}"));
    refuses(&["serve", config], "vol1");
    write(&pool, GROWS);

    let server = start(&pool);
    let mut user = User::of(&pool, "vol0", vec![0; (160 << 20) / PIECE]);
    let all = 0..user.rounds.len();
    user.writes(all);
    let shown = done(&["status", config]);
    assert!(shown.contains("ssd (empty)") && shown.contains("hdd (empty)"), "{shown}");
    let before = status(&pool);
    assert_eq!(before["gone"], serde_json::json!([2, 3]));
    let follows = |told: &serde_json::Value| told["metadata_replica"]["device"].clone();
    assert_eq!(follows(&before), 1, "as in a pool with one SSD: {}", before["metadata_replica"]);

    // a life ends while the SSD comes
    let ssd = file(&pool, "two.img", 256);
    let dry = done(&["add", config, &ssd, "--role", "ssd", "--dry-run"]);
    assert!(dry.contains("would take the bay bay:256MiB"), "{dry}");
    done(&["add", config, &ssd, "--bay", "bay:256MiB", "--detach"]);
    user.works_until(&pool, "begun", |told| !told["replacing"].is_null());
    server.kill();
    let server = start(&pool);
    let mut user = User::of(&pool, "vol0", user.rounds);
    user.works_until(&pool, "added", |told| told["gone"] == serde_json::json!([3]));
    let text = GROWS.replace("\"bay:256MiB\"", "\"two.img\"");
    assert_eq!(std::fs::read_to_string(&pool.config).unwrap(), text);
    let after = status(&pool);
    let bytes = |told: &serde_json::Value| told["ssd_bytes"].as_u64().unwrap();
    assert!(bytes(&after) > bytes(&before) * 19 / 10, "{} {}", bytes(&before), bytes(&after));
    assert_eq!(follows(&after), 1, "it follows still: {}", after["metadata_replica"]);
    let written = |told: &serde_json::Value| told["devices"][2]["user_bytes"].as_u64() > Some(0);
    user.works_until(&pool, "written to", written);

    let hdd = file(&pool, "hdd2.img", 330);
    done(&["add", config, &hdd, "--detach"]);
    user.works_until(&pool, "added", |told| told["gone"] == serde_json::json!([]));
    let text = text.replace("\"bay:320MiB\"", "\"hdd2.img\"");
    assert_eq!(std::fs::read_to_string(&pool.config).unwrap(), text);
    refuses(&["add", config, &ssd], "has no empty bay");
    user.finds_all();
    stops(server);
    done(&["check", config]);

    // what did not fit does now
    write(&pool, &format!("{text}{SECOND}"));
    let server = start(&pool);
    let mut second = User::of(&pool, "vol1", vec![0; (240 << 20) / PIECE]);
    let all = 0..second.rounds.len();
    second.writes(all);
    let mut user = User::of(&pool, "vol0", user.rounds);
    user.writes(0..100);
    user.finds_all();
    server.kill();
    let server = start(&pool);
    User::of(&pool, "vol0", user.rounds).finds_all();
    User::of(&pool, "vol1", second.rounds).finds_all();
    stops(server);
    let checked = done(&["check", config]);
    assert!(!checked.contains("is empty"), "{checked}");
}

#[test]
fn an_empty_bay_is_no_drive() {
    let pool = formatted(GROWS);
    let config = pool.config();
    let checked = done(&["check", config]);
    assert!(checked.contains("bay:256MiB (ssd) is empty: `tandem add` puts"), "{checked}");
    let server = start(&pool);
    let new = file(&pool, "new.img", 400);
    let small = file(&pool, "small.img", 100);
    let one = at(&pool, "one.img");
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
    stops(server);
    // the bay is not empty any more, whatever the configuration says
    let text = std::fs::read_to_string(&pool.config).unwrap();
    write(&pool, GROWS);
    refuses(&["serve", config], "is in this bay, which is listed as empty");
    write(&pool, &text);
    stops(start(&pool));
    refuses(&["format", config], "holds a Tandem pool");

    // bays are laid out by format alone
    let without = GROWS.replace("[[device]]\nrole = \"hdd\"\npath = \"bay:320MiB\"\n", "");
    let other = formatted(&without);
    write(&other, GROWS);
    refuses(
        &["serve", other.config()],
        "a bay for a drive that will come is made by `tandem format`",
    );
}

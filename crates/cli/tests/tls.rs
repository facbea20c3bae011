//! Does TLS let in whom it should, and nobody else? With the clients of the NBD project's own library.

use crate::support::certificates::{
    Authority, EXPIRED, HOLDS, Pair, client_folder, folder, server_folder,
};
use crate::support::program::{program, tandem, told};
use crate::support::{PoolFixture, Server};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const VOLUME: u64 = 32 << 20;

/// Two volumes over an SSD, served as `serve` says.
fn text(serve: &str) -> String {
    format!(
        r#"{serve}
[pool]
name = "safe"
[[device]]
role = "ssd"
path = "ssd.img"
size = "160MiB"
[[volume]]
name = "vol0"
size = "32MiB"
[[volume]]
name = "vol1"
size = "32MiB"
"#
    )
}

fn installed() -> bool {
    let found = Command::new("nbdinfo").arg("--version").output().is_ok();
    if !found {
        println!(
            "skipped: nbdinfo is not installed (Debian: libnbd-bin), so TLS is NOT tested with it"
        );
    }
    found
}

/// A server with certificates of its own authority, on a free port.
struct Safe {
    server: Option<Server>,
    pool: PoolFixture,
    authority: Authority,
    port: u16,
}

impl Safe {
    /// `tls` is the word of the TCP socket; `more` goes into `[serve]`, and behind it.
    fn start(tls: &str, more: &str) -> Safe {
        let authority = Authority::new("authority");
        let serve = format!(
            "[serve]\nnbd = [{{ listen = \"127.0.0.1:0\", tls = \"{tls}\" }}, {{ listen = \"unix:tls.sock\", \
             tls = \"require\" }}]\ncertificates = \"pki\"\n{more}"
        );
        let pool = PoolFixture::formatted(&text(&serve));
        server_folder(&pool.at("pki"), &authority);
        Safe { server: None, pool, authority, port: 0 }.serve()
    }

    fn serve(mut self) -> Safe {
        let server = Server::start(program(), &[self.pool.config()]);
        let server = server.unwrap_or_else(|output| panic!("{}", told(&output)));
        let port = server.ready.split("127.0.0.1:").nth(1).unwrap();
        self.port = port.split('/').next().unwrap().parse().unwrap();
        self.server = Some(server);
        self
    }

    /// The folder of a client with this pair.
    fn client(&self, name: &str, pair: Option<&Pair>) -> PathBuf {
        client_folder(&self.pool.at(name), &self.authority, pair)
    }

    fn uri(&self, volume: &str, folder: &Path) -> String {
        format!("nbds://localhost:{}/{volume}?tls-certificates={}", self.port, folder.display())
    }

    /// Stops it as asked; what it said.
    fn stop(mut self) -> String {
        let (ended, said) = self.server.take().unwrap().stop();
        assert!(ended.success(), "{said}");
        said
    }
}

fn nbdinfo(arguments: &[&str]) -> Output {
    Command::new("nbdinfo").args(arguments).output().unwrap()
}

/// The size that a client sees.
fn sized(uri: &str) -> u64 {
    let output = nbdinfo(&["--size", uri]);
    assert!(output.status.success(), "{uri}: {}", told(&output));
    String::from_utf8_lossy(&output.stdout).trim().parse().unwrap()
}

fn refused(uri: &str) -> String {
    let output = nbdinfo(&["--size", uri]);
    assert!(!output.status.success(), "{uri} is served");
    told(&output)
}

fn exports(uri: &str) -> Vec<String> {
    let output = nbdinfo(&["--list", "--json", uri]);
    assert!(output.status.success(), "{uri}: {}", told(&output));
    let listed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let all = listed["exports"].as_array().unwrap().iter();
    all.map(|export| export["export-name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_client_with_a_certificate_of_ours_is_served_and_nobody_else() {
    if !installed() {
        return;
    }
    let safe = Safe::start("require", "");
    let ours = &safe.authority;
    let other = Authority::new("authority"); // of the same name, as a forger would call it
    let good = safe.client("good", Some(&ours.client("db1", &[], 1, HOLDS)));
    let none = safe.client("none", None);
    let forged = safe.client("forged", Some(&other.client("db1", &[], 1, HOLDS)));
    let expired = safe.client("expired", Some(&ours.client("db1", &[], 2, EXPIRED)));
    let servers = safe.client("servers", Some(&ours.server(HOLDS)));
    assert_eq!(sized(&safe.uri("vol0", &good)), VOLUME);
    assert_eq!(exports(&safe.uri("", &good)), ["vol0", "vol1"]);
    // an older protocol, and a Unix socket
    let old = format!("{}&tls-priority=NORMAL:-VERS-TLS1.3", safe.uri("vol0", &good));
    assert_eq!(sized(&old), VOLUME);
    let unix = |folder: &Path| {
        let socket = safe.pool.at("tls.sock");
        format!(
            "nbds+unix:///vol1?socket={}&tls-certificates={}",
            socket.display(),
            folder.display()
        )
    };
    assert_eq!(sized(&unix(&good)), VOLUME);
    let mut reasons = Vec::new();
    for folder in [&none, &forged, &expired, &servers] {
        reasons.push(refused(&safe.uri("vol0", folder)));
        refused(&unix(folder));
    }
    // a client that believes another authority leaves by itself
    let wary =
        client_folder(&safe.pool.at("wary"), &other, Some(&ours.client("db1", &[], 3, HOLDS)));
    assert!(refused(&safe.uri("vol0", &wary)).contains("certificate"));
    // without TLS
    let plain = refused(&format!("nbd://localhost:{}/vol0", safe.port));
    assert!(plain.contains("requires TLS") || plain.contains("TLS"), "{plain}");
    assert_eq!(sized(&safe.uri("vol0", &good)), VOLUME, "others have not hurt it");
    let said = safe.stop();
    assert!(said.contains("TLS failed"), "{said}");
    println!(
        "measured: served with a certificate over TLS 1.3, 1.2 and a Unix socket; refused without one, \
         forged, expired, a server's own, plain: {} of 5",
        reasons.len() + 1
    );
}

#[test]
fn bytes_go_there_and_back_over_tls() {
    if !installed() {
        return;
    }
    let safe = Safe::start("require", "");
    let good = safe.client("good", Some(&safe.authority.client("db1", &[], 1, HOLDS)));
    let uri = safe.uri("vol0", &good);
    let bytes: Vec<u8> =
        (0..VOLUME as u32 / 4).flat_map(|n| n.wrapping_mul(0x9E37_79B9).to_le_bytes()).collect();
    let (there, back) = (safe.pool.at("there"), safe.pool.at("back"));
    std::fs::write(&there, &bytes).unwrap();
    let began = std::time::Instant::now();
    // several connections, and requests larger than a record and than a buffer; then the largest there is
    for (connections, request) in [("4", "1048576"), ("1", "33554432")] {
        for (from, to) in [(there.to_str().unwrap(), &uri[..]), (&uri, back.to_str().unwrap())] {
            let mut copy = Command::new("nbdcopy");
            copy.arg(format!("--connections={connections}"));
            copy.arg(format!("--request-size={request}"));
            let output = copy.args(["--requests=16", "--flush", from, to]).output().unwrap();
            assert!(output.status.success(), "{}", told(&output));
        }
        assert!(std::fs::read(&back).unwrap() == bytes, "they came back changed");
        std::fs::remove_file(&back).unwrap();
    }
    let took = began.elapsed();
    println!("measured: {} MiB there and back over TLS, twice, in {took:?}", VOLUME >> 20);
    safe.stop();
}

#[test]
fn who_may_use_what_follows_from_names_in_certificates() {
    if !installed() {
        return;
    }
    let clients = "[[client]]\nname = \"db1\"\nexports = [\"vol0\"]\n[[client]]\nname = \"backup.example\"\n\
                   exports = [\"vol0\", \"vol1\"]\n";
    let safe = Safe::start("require", clients);
    let pair =
        |name: &str, others: &[&str], number| safe.authority.client(name, others, number, HOLDS);
    let one = safe.client("one", Some(&pair("db1", &[], 1)));
    let two = safe.client("two", Some(&pair("x", &["backup.example"], 2)));
    let unknown = safe.client("unknown", Some(&pair("db2", &["db1.example"], 3)));
    let taken = tandem(&["snapshot", safe.pool.config(), "vol1", "monday"]);
    assert!(taken.status.success(), "{}", told(&taken));
    assert_eq!(exports(&safe.uri("", &one)), ["vol0"]);
    assert_eq!(exports(&safe.uri("", &two)), ["vol0", "vol1", "vol1@monday"]);
    assert_eq!(sized(&safe.uri("vol0", &one)), VOLUME);
    assert_eq!(sized(&safe.uri("vol1", &two)), VOLUME);
    refused(&safe.uri("vol1", &one));
    refused(&safe.uri("vol1@monday", &one));
    refused(&safe.uri("vol0", &unknown));
    let said = safe.stop();
    assert!(said.contains("no [[client]] is called \"db2, db1.example\""), "{said}");
    println!("measured: 3 clients saw 1, 3 and 0 exports");
}

#[test]
fn where_tls_is_allowed_it_is_there_for_who_wants_it() {
    if !installed() {
        return;
    }
    let safe = Safe::start("allow", "");
    let good = safe.client("good", Some(&safe.authority.client("db1", &[], 1, HOLDS)));
    let none = safe.client("none", None);
    assert_eq!(sized(&format!("nbd://localhost:{}/vol0", safe.port)), VOLUME);
    assert_eq!(sized(&safe.uri("vol0", &good)), VOLUME);
    refused(&safe.uri("vol0", &none));
    let said = safe.stop();
    assert!(said.contains("every local user can read and write"), "{said}");
    // encryption alone: nobody is asked for a certificate
    let safe = Safe::start("require", "verify_clients = false\n");
    let none = safe.client("none", None);
    assert_eq!(sized(&safe.uri("vol0", &none)), VOLUME);
    assert!(safe.stop().contains("every local user can read and write"));
}

#[test]
fn a_certificate_that_was_revoked_is_refused() {
    if !installed() {
        return;
    }
    let safe = Safe::start("require", "");
    let lost = safe.client("lost", Some(&safe.authority.client("db1", &[], 7, HOLDS)));
    let kept = safe.client("kept", Some(&safe.authority.client("db1", &[], 8, HOLDS)));
    assert_eq!(sized(&safe.uri("vol0", &lost)), VOLUME);
    let Safe { server, pool, authority, .. } = safe;
    assert!(server.unwrap().stop().0.success());
    folder(&pool.at("pki"), &[("ca-crl.pem", &authority.revoked(7))]);
    let safe = Safe { server: None, pool, authority, port: 0 }.serve();
    refused(&safe.uri("vol0", &lost));
    assert_eq!(sized(&safe.uri("vol0", &kept)), VOLUME);
    let said = safe.stop();
    println!("measured: revoked refused, its neighbour served");
    assert!(said.contains("TLS failed"), "{said}");
}

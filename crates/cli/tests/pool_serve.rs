//! Does `tandem serve` come and go as promised?
//!
//! Source: acceptance of the spine, bad input.

use crate::support::fixture::{PoolText, is_refusal};
use crate::support::program::{printed, program, tandem, told};
use crate::support::sigkill::over_nbd;
use crate::support::{PoolFixture, Server};
use rustix::process::Signal;
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tandem_fronts::nbd::Client;
use tandem_live::listen::Address;

fn small() -> String {
    PoolText::named("small")
        .ssd("64MiB")
        .hdd("128MiB")
        .volume("vol0", "32MiB")
        .volume("vol1", "8MiB")
        .with("[serve]")
        .with("nbd = [\"unix:tandem.sock\", \"127.0.0.1:0\"]")
        .text()
}

/// Refuses to serve and says why.
fn refused(pool: &PoolFixture, code: i32, words: &[&str]) {
    let began = Instant::now();
    let Err(output) = pool.serve(&[]) else { panic!("it serves") };
    is_refusal(&output, code, words);
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}

#[test]
fn both_signals_end_it_cleanly_and_data_stays() {
    let pool = PoolFixture::formatted(&small());
    for (round, signal) in [Signal::TERM, Signal::INT].into_iter().enumerate() {
        let mut server = pool.start();
        let mut target = pool.nbd();
        let byte = 10 + round as u8;
        if round > 0 {
            assert_eq!(target.read(8192, 4096).unwrap(), [byte - 1; 4096]);
        }
        target.write(8192, &[byte; 4096], false).unwrap();
        server.signal(signal);
        let (status, said) = server.end();
        assert_eq!(status.code(), Some(0), "{said}");
        assert!(said.contains("closed cleanly"), "{said}");
        assert!(!pool.at("tandem.sock").exists() && !pool.at("pool.control").exists());
        let check = pool.run("check", &[]);
        let text = String::from_utf8_lossy(&check.stdout).into_owned();
        assert!(check.status.success() && text.contains("stopped cleanly"), "{text}");
    }
}

#[test]
fn both_sockets_and_both_volumes() {
    let pool = PoolFixture::formatted(&small());
    let server = pool.start();
    let tcp = server.ready.lines().find_map(|line| {
        let (address, _) = line.trim().strip_prefix("nbd://")?.split_once('/')?;
        Some(address.to_owned())
    });
    let address: Address = tcp.expect("it says its port").parse().unwrap();
    assert_eq!(Client::list(&address).unwrap(), ["vol0", "vol1"]);
    let mut small = Client::connect(&address, "vol1").unwrap();
    assert_eq!(small.size_bytes(), 8 << 20);
    small.write(0, &[1; 512], true).unwrap();
    let mut large = pool.nbd();
    assert_eq!(large.read(0, 512).unwrap(), [0; 512], "volumes are apart");
    server.stops();
}

/// Two names of one volume, a stream each, and the volume's own beside them.
#[test]
fn an_export_may_be_a_stream_of_a_volume() {
    let streams = r#"[[stream]]
volume = "vol0"
export = "gold"
weight = 300
[[stream]]
name = "batch jobs"
volume = "vol0"
export = "jobs"
limit = "10000/s"
[serve]"#;
    let pool = PoolFixture::formatted(&small().replace("[serve]", streams));
    let server = pool.start();
    assert!(server.ready.contains("/gold?socket="), "{}", server.ready);
    let address = Address::Unix(pool.at("tandem.sock"));
    assert_eq!(Client::list(&address).unwrap(), ["vol0", "vol1", "gold", "jobs"]);
    let mut clients = ["gold", "jobs", "vol0", "vol1"].map(|name| {
        let client = Client::connect(&address, name).unwrap();
        assert_eq!(client.size_bytes(), if name == "vol1" { 8 << 20 } else { 32 << 20 });
        client
    });
    clients[0].write(4096, &[7; 4096], true).unwrap();
    for (client, times) in [(1, 3), (2, 5), (3, 2)] {
        for _ in 0..times {
            let byte = if client == 3 { 0 } else { 7 };
            assert_eq!(clients[client].read(4096, 4096).unwrap(), [byte; 4096]);
        }
    }
    let told = pool.status();
    let streams: Vec<(&str, u64)> = told["streams"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (it["name"].as_str().unwrap(), it["requests"].as_u64().unwrap()))
        .collect();
    assert_eq!(streams, [("gold", 1), ("batch jobs", 3), ("others", 7)]);
    drop(clients);
    server.stops();
}

#[test]
fn a_second_server_is_refused_at_once_and_the_first_goes_on() {
    let pool = PoolFixture::formatted(&small());
    let server = pool.start();
    let process = server.id().to_string();
    refused(&pool, 1, &["ssd.img", "in use", &process, "tandem status"]);
    // over one drive alone, under another name
    let text = small().replace("tandem.sock", "other.sock").replace("\"ssd.img\"", "\"new.img\"");
    let other = pool.at("other.toml");
    std::fs::write(&other, text).unwrap();
    std::fs::write(pool.at("new.img"), vec![0; 64 << 20]).unwrap();
    let output = tandem(&["serve", other.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(told(&output).contains("hdd.img") && told(&output).contains("in use"));
    assert!(!pool.at("other.sock").exists());
    assert!(pool.nbd().read(0, 512).is_ok());
    server.stops();
}

#[test]
fn a_killed_server_leaves_nothing_in_the_way() {
    let pool = PoolFixture::formatted(&small());
    let server = pool.start();
    let mut target = pool.nbd();
    target.write(0, &[5; 8192], false).unwrap();
    target.flush().unwrap();
    server.kill();
    assert!(pool.at("tandem.sock").exists(), "a stale socket");
    let server = pool.start();
    assert_eq!(pool.nbd().read(0, 8192).unwrap(), [5; 8192]);
    server.stops();
}

#[test]
fn sockets_that_cannot_be_had() {
    let pool = PoolFixture::formatted(&small());
    let held = UnixListener::bind(pool.at("tandem.sock")).unwrap();
    refused(&pool, 1, &["tandem.sock", "in use"]);
    drop(held);
    std::fs::remove_file(pool.at("tandem.sock")).unwrap();
    std::fs::write(pool.at("tandem.sock"), "a text").unwrap();
    refused(&pool, 1, &["tandem.sock", "not a socket"]);
    assert_eq!(std::fs::read(pool.at("tandem.sock")).unwrap(), b"a text");
    std::fs::remove_file(pool.at("tandem.sock")).unwrap();
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = tcp.local_addr().unwrap().to_string();
    std::fs::write(&pool.config, small().replace("127.0.0.1:0", &taken)).unwrap();
    refused(&pool, 1, &[&taken, "in use"]);
    std::fs::write(&pool.config, small().replace("\"127.0.0.1:0\"", "")).unwrap();
    let held = UnixListener::bind(pool.at("pool.control")).unwrap();
    refused(&pool, 1, &["control", "in use"]);
    drop(held);
    let none = small().replace("nbd = [\"unix:tandem.sock\", \"127.0.0.1:0\"]", "");
    std::fs::write(&pool.config, none).unwrap();
    refused(&pool, 2, &["no way in", "nbd ="]);
    std::fs::write(&pool.config, small().replace("127.0.0.1:0", "0.0.0.0:0")).unwrap();
    refused(&pool, 2, &["allow_remote"]);
    let open = |way: &str| small().replace("\"127.0.0.1:0\"", way) + "allow_remote = true\n";
    std::fs::write(&pool.config, open("\"0.0.0.0:0\"")).unwrap();
    refused(&pool, 2, &["everybody there could write", "allow = ["]);
    let open = open("{ listen = \"0.0.0.0:0\", allow = [\"127.0.0.0/8\"] }");
    std::fs::write(&pool.config, open).unwrap();
    let server = pool.start();
    assert!(server.ready.contains("nbd://0.0.0.0:"), "{}", server.ready);
    server.stops();
}

/// Who breaks the protocol loses his connection; the server and its other clients go on.
#[test]
fn a_malformed_handshake_and_an_oversized_request() {
    let pool = PoolFixture::formatted(&small());
    let server = pool.start();
    let mut stranger = UnixStream::connect(pool.at("tandem.sock")).unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    // the server hangs up; whether we hear of that as an end or as a reset does not matter
    let _ = stranger.read_to_end(&mut answer);
    assert!(answer.starts_with(b"NBDMAGIC"));
    let address = Address::Unix(pool.at("tandem.sock"));
    let mut client = Client::connect(&address, "vol0").unwrap();
    client.begin(1, 0, (0, 1 << 30), &[0; 512]).unwrap();
    assert!(client.finish().is_err(), "a write larger than any allowed");
    assert!(Client::connect(&address, "vol7").is_err(), "no such export");
    assert!(pool.nbd().write(0, &[1; 512], true).is_ok());
    server.stops();
}

#[test]
fn status_of_a_running_and_of_a_stopped_server() {
    let pool = PoolFixture::formatted(&small());
    let output = pool.run("status", &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(told(&output).contains("not being served"), "{}", told(&output));
    let server = pool.start();
    pool.nbd().write(0, &[1; 1 << 20], true).unwrap();
    let status = pool.status();
    assert_eq!(status["pool"]["name"], "small");
    assert_eq!(status["pool"]["process"], server.id());
    assert_eq!(status["devices"][0]["user_bytes"], 1 << 20);
    assert!(status["pool"]["devices"][1]["path"].as_str().unwrap().ends_with("hdd.img"));
    let socket = pool.at("pool.control");
    let text = tandem(&["status", socket.to_str().unwrap()]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    for want in ["pool small", "ssd.img", "vol1", "1.0 MiB", "one SSD: if it dies"] {
        assert!(text.contains(want), "{want}: {text}");
    }
    server.stops();
}

/// Of each hard drive with a profile: what its controller does, and why it would not be steered to.
#[test]
fn status_tells_how_buffered_writes_fare() {
    let text = small()
        .replacen("size = \"32MiB\"", "size = \"32MiB\"\nsteer = \"mios-d\"", 1)
        .replacen("path = \"hdd.img\"", "path = \"hdd.img\"\nprofile = \"wd100efax\"\npadding_budget = \"0B\"\nlog_budget = \"3GiB\"", 1);
    let pool = PoolFixture::formatted(&text);
    let server = pool.start();
    let status = pool.status();
    let controllers = status["controllers"].as_array().expect("one for each drive");
    assert!(controllers.len() == 2 && controllers[0].is_null(), "{controllers:?}");
    assert_eq!(controllers[1]["user_slow_writes"], 0);
    assert_eq!(controllers[1]["unreliable"]["by_reason"]["write_cache_off"], 0);
    assert_ne!(controllers[1]["state"], "off", "a policy redirects to it");
    assert_eq!(status["user_slow_writes_per_million"], 0.0);
    let today = &status["today"][1];
    assert_eq!(today["rated_bytes"], 180_000_000_000_000u64 / 365, "the profile's");
    assert_eq!(
        (&today["padding"]["budget_bytes"], &today["log"]["used_bytes"]),
        (&0.into(), &0.into())
    );
    assert_eq!(today["log"]["budget_bytes"], 3u64 << 30);
    assert!(today["used_bytes"].as_u64() > Some(0), "recovery has read it: {today}");
    let told = pool.run("status", &[]);
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    for want in [
        "is never padded",
        "3.0 GiB",
        "steering stopped",
        "never",
        "met a slow write: 0, 0 of a million",
    ] {
        assert!(told.contains(want), "{want}: {told}");
    }
    server.stops();
}

#[test]
fn a_volume_that_cannot_be_steered_says_why() {
    let text = small().replacen("size = \"32MiB\"", "size = \"32MiB\"\nsteer = \"mios-d\"", 1);
    let pool = PoolFixture::formatted(&text);
    let server = pool.start();
    let status = pool.status();
    let why = status["pool"]["volumes"][0]["why_not_steered"].as_str().unwrap();
    assert!(why.contains("profile"), "{why}");
    assert!(status["pool"]["volumes"][1]["why_not_steered"].is_null());
    server.stops();
}

#[test]
fn a_pool_in_memory_is_new_at_every_start() {
    let text = "[pool]\nname='m'\n[[device]]\nrole='ssd'\npath='ram:64MiB'\n[[volume]]\n\
                name='vol0'\nsize='16MiB'\n[serve]\nnbd=['unix:tandem.sock']\n";
    let pool = PoolFixture::new(text);
    for _ in 0..2 {
        let server = pool.start();
        let mut target = pool.nbd();
        assert_eq!(target.read(0, 512).unwrap(), [0; 512]);
        target.write(0, &[1; 512], true).unwrap();
        server.stops();
    }
    std::fs::write(pool.at("hdd.img"), vec![0; 64 << 20]).unwrap();
    let mixed = text.replace("[[volume]]", "[[device]]\nrole='hdd'\npath='hdd.img'\n[[volume]]");
    std::fs::write(&pool.config, mixed).unwrap();
    refused(&pool, 1, &["memory"]);
}

#[test]
fn the_demo_removes_its_files() {
    let folder = tempfile::tempdir().unwrap();
    for signal in [Signal::INT, Signal::TERM] {
        let mut command = Command::new(program());
        command.args(["serve", "--demo"]).env("TMPDIR", folder.path());
        let mut server = Server::run(command).unwrap_or_else(|output| panic!("{}", told(&output)));
        let way = server.ready.lines().find_map(|line| line.split_once("socket="));
        let socket = way.unwrap().1;
        let mut target = over_nbd(Path::new(socket).parent().unwrap()).unwrap();
        target.write(4096, &[3; 4096], true).unwrap();
        assert_eq!(target.read(4096, 4096).unwrap(), [3; 4096]);
        server.signal(signal);
        let (status, said) = server.end();
        assert_eq!(status.code(), Some(0), "{said}");
        for want in ["nbdcopy FILE", "fio --name", "nbdinfo", "tandem status"] {
            assert!(said.contains(want), "{want}: {said}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "its files are gone");
    }
}

/// systemd hears when requests are welcome and when the pool is being closed.
#[test]
fn systemd_is_notified() {
    let pool = PoolFixture::formatted(&small());
    let path = pool.at("notify.sock");
    let notify = UnixDatagram::bind(&path).unwrap();
    notify.set_read_timeout(Some(crate::support::PATIENCE)).unwrap();
    let mut command = Command::new(program());
    command.args(["serve", pool.config()]).env("NOTIFY_SOCKET", &path);
    let server = Server::run(command).unwrap_or_else(|output| panic!("{}", told(&output)));
    let heard = || {
        let mut bytes = [0; 256];
        let length = notify.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    };
    assert_eq!(heard().trim(), "READY=1");
    server.stops();
    assert_eq!(heard().trim(), "STOPPING=1");
}

/// A socket that systemd has opened is served, and not opened a second time.
#[test]
fn needs_systemd_socket_activation() {
    let pool = PoolFixture::formatted(&small().replace("\"127.0.0.1:0\"", ""));
    let socket = pool.at("tandem.sock");
    let mut command = Command::new("systemd-socket-activate");
    command.arg("--listen").arg(&socket).arg(program()).args(["serve", pool.config()]);
    if Command::new("systemd-socket-activate").arg("--version").output().is_err() {
        println!("skipped: systemd-socket-activate is not installed");
        return;
    }
    let activator = Server::launch(command);
    let deadline = Instant::now() + crate::support::PATIENCE;
    // the first connection is what starts the server
    let mut client = loop {
        match over_nbd(pool.folder.path()) {
            Ok(client) => break client,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    client.write(0, &[4; 512], true).unwrap();
    assert_eq!(client.read(0, 512).unwrap(), [4; 512]);
    let (status, said) = activator.stop();
    assert!(status.success(), "{said}");
    assert!(socket.exists(), "it is systemd's socket, not ours to remove");
}

/// As many drives as a superblock has room for.
#[test]
fn a_pool_has_64_drives_and_not_65() {
    let text = |hdds: usize| {
        let pool = PoolText::named("wide").ssd("64MiB").ssd("64MiB");
        let pool = (0..hdds).fold(pool, |pool, _| pool.hdd("96MiB"));
        pool.volume("vol0", "200MiB").nbd().text()
    };
    let pool = PoolFixture::new(&text(63));
    is_refusal(&pool.run("format", &[]), 2, &["at most 64 devices, not 65"]);
    let pool = PoolFixture::formatted(&text(62));
    let server = pool.start();
    let mut target = pool.nbd();
    let offsets: Vec<u64> = (0..50).map(|round| round * (4 << 20)).collect();
    for &offset in &offsets {
        target.write(offset, &offset.to_le_bytes().repeat(512), false).unwrap();
    }
    target.flush().unwrap();
    server.kill();
    let server = pool.start();
    let mut target = pool.nbd();
    for &offset in &offsets {
        assert!(target.read(offset, 4096).unwrap() == offset.to_le_bytes().repeat(512));
    }
    assert_eq!(pool.status()["devices"].as_array().unwrap().len(), 64);
    assert!(server.stop().0.success());
    let check = pool.run("check", &[]);
    assert!(check.status.success(), "{}", printed(&check));
}

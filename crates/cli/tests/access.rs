//! Is nothing served to strangers by mistake, and does a configuration that would do so say what to type?
//!
//! Whatever is wrong is said before a drive or a socket is touched.

use crate::support::PoolFixture;
use crate::support::certificates::{Authority, EXPIRED, HOLDS, folder, server_folder};
use crate::support::fixture::is_refusal;
use crate::support::program::{TWO, program, told};
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

const NBD: &str = "nbd = [\"unix:tandem.sock\"]";

fn with(serve: &str) -> String {
    TWO.replacen(NBD, serve, 1)
}

/// `serve` ends with this code and these words, and has touched nothing.
fn refused(pool: &PoolFixture, code: i32, words: &[&str]) {
    let touched = || {
        ["ssd.img", "hdd.img"]
            .map(|name| std::fs::metadata(pool.at(name)).unwrap().modified().unwrap())
    };
    let before = touched();
    let Err(output) = pool.serve(&[]) else { panic!("it serves") };
    is_refusal(&output, code, words);
    assert_eq!(touched(), before, "something was written");
    for socket in ["tandem.sock", "pool.control"] {
        assert!(!pool.at(socket).exists(), "{socket} was made");
    }
}

/// What `[serve]` says, and what it is told. `@safe` is a socket with TLS, `@pki` the key that it needs,
/// `@client` a client.
type Refused = (&'static str, &'static [&'static str]);

const STRANGERS: &[Refused] = &[
    ("nbd = ['0.0.0.0:0']", &["line 15", "allow_remote = true", "tls = \"require\"", "allow = ["]),
    (
        "nbd = ['0.0.0.0:0']\nallow_remote = true",
        &["line 15", "everybody there", "tls = \"require\""],
    ),
    ("nbd = ['[::]:0']\nallow_remote = true", &["line 15", "everybody there", "allow = ["]),
    ("nbd = [{ listen = '0.0.0.0:0', allow = ['10.0.0.0/8'] }]", &["allow_remote = true"]),
    (
        "nbd = [{ listen = '0.0.0.0:0', tls = 'allow' }]\nallow_remote = true\n@pki",
        &["everybody there"],
    ),
    (
        "nbd = [{ listen = '0.0.0.0:0', tls = 'require' }]\nallow_remote = true\nverify_clients = false\n@pki",
        &["everybody there"],
    ),
    ("nbd = [{ listen = '0.0.0.0:0', allow = [] }]\nallow_remote = true", &["allow is empty"]),
];

const ODD: &[Refused] = &[
    (
        "nbd = [{ listen = '127.0.0.1:0', allow = ['10.0.0.7/24'] }]",
        &["line 15", "\"10.0.0.7/24\"", "did you mean \"10.0.0.0/24\""],
    ),
    (
        "nbd = [{ listen = '127.0.0.1:0', allow = ['10.0.0'] }]",
        &["\"10.0.0\" is no address", "\"10.0.0.0/24\""],
    ),
    (
        "nbd = [{ listen = 'unix:a', allow = ['10.0.0.1'] }]",
        &["has no addresses", "mode and group"],
    ),
    ("nbd = [@safe]", &["add certificates = \"DIR\" to [serve]"]),
    ("nbd = ['unix:a']\n@pki", &["line 16", "no socket uses TLS", "tls = \"require\""]),
    ("nbd = ['unix:a']\nverify_clients = true", &["verify_clients", "certificates"]),
    ("nbd = [{ listen = '127.0.0.1:0', tls = 'required' }]", &["did you mean \"require\""]),
    (
        "nbd = [{ listen = 'unix:a', lts = 'off' }]",
        &["unknown key \"lts\"", "did you mean \"tls\""],
    ),
    ("nbd = [{ listen = 'unix:a', mode = '0770' }]", &["line 15", "\"0660\"", "unlike \"0770\""]),
    ("nbd = [{ listen = 'unix:a', mode = 'rw' }]", &["unlike \"rw\""]),
    ("nbd = [{ listen = 'unix:a', mode = '0066' }]", &["unlike \"0066\""]),
    ("nbd = [{ listen = 'unix:a', mode = 660 }]", &["line 15", "string"]),
    (
        "nbd = [{ listen = 'unix:a', mode = '0660', group = 'no-such-group' }]",
        &["there is no group \"no-such-group\"", "getent group"],
    ),
    (
        "nbd = [{ listen = 'unix:a', group = 'root' }]",
        &["may not open the socket", "mode = \"0660\""],
    ),
    ("nbd = [{ listen = '127.0.0.1:0', mode = '0660' }]", &["of a Unix socket's file"]),
    ("control = { path = 'c', mode = '0999' }", &["line 15", "unlike \"0999\""]),
    ("control = { mode = '0660' }", &["missing key `path`"]),
];

const CLIENTS: &[Refused] = &[
    ("nbd = ['127.0.0.1:1', @safe]\n@pki\n@client", &["lets clients in without a certificate"]),
    ("nbd = ['unix:a']\n@client", &["clients are known by their certificates"]),
    ("nbd = [@safe]\nverify_clients = false\n@pki\n@client", &["no verify_clients = false"]),
    (
        "nbd = [@safe]\n@pki\n[[client]]\nname = 'a'\nexports = ['vol1']",
        &["line 19", "there is no export \"vol1\"", "did you mean \"vol0\""],
    ),
    (
        "nbd = [@safe]\n@pki\n@client\n[[client]]\nname = 'A'\nexports = ['vol0']",
        &["two clients called \"A\""],
    ),
    (
        "nbd = [@safe]\n@pki\n[[client]]\nname = ''\nexports = ['vol0']",
        &["common name of its certificate"],
    ),
    ("nbd = [@safe]\n@pki\n[[client]]\nname = 'a'\nexports = []", &["exports is empty"]),
];

/// Every line that would open a pool to strangers, or makes no sense, is refused with what would do.
#[test]
fn what_anybody_could_reach_is_refused_with_what_to_type() {
    let pool = PoolFixture::formatted(TWO);
    let all = [STRANGERS, ODD, CLIENTS].concat();
    for (serve, words) in &all {
        let serve = serve
            .replace("@safe", "{ listen = '127.0.0.1:0', tls = 'require' }")
            .replace("@pki", "certificates = 'pki'")
            .replace("@client", "[[client]]\nname = 'a'\nexports = ['vol0']");
        std::fs::write(&pool.config, with(&serve)).unwrap();
        refused(&pool, 2, words);
    }
    println!(
        "measured: {} configurations that let strangers in and {} that make no sense are refused",
        STRANGERS.len(),
        all.len() - STRANGERS.len()
    );
}

/// What is served is told: loopback by name, and an address list lets others in.
#[test]
fn what_local_users_can_reach_is_told_of() {
    let listed = "nbd = [\"127.0.0.1:0\", { listen = \"0.0.0.0:0\", allow = [\"10.0.0.0/8\"] }]\nallow_remote = true";
    let pool = PoolFixture::formatted(&with(listed));
    let (ended, said) = pool.start().stop();
    assert!(ended.success(), "{said}");
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("NBD at ")).collect();
    println!("measured: {} lines of two TCP sockets: {lines:?}", lines.len());
    assert_eq!(lines.len(), 2, "{said}");
    assert!(
        lines[0].contains("127.0.0.1:") && lines[0].contains("every local user can read and write")
    );
    assert!(
        lines[1].contains("0.0.0.0:")
            && lines[1].contains("`allow`")
            && lines[1].contains("not encrypted")
    );
    let quiet = PoolFixture::formatted(TWO);
    assert!(!quiet.start().stop().1.contains("NBD at "));
}

/// A socket that systemd has opened, as it would pass it.
#[test]
fn a_socket_of_systemd_is_no_way_around() {
    let pool = PoolFixture::formatted(TWO);
    let run = |pool: &PoolFixture, address: &str| {
        let listener = std::net::TcpListener::bind(address).unwrap();
        // the descriptor has to be number 3, and the process its own addressee: a shell sees to both
        let script = format!(
            "LISTEN_PID=$$ LISTEN_FDS=1 exec {} serve {}",
            program().display(),
            pool.config()
        );
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec 3<&0; {script}")]);
        shell.stdin(std::process::Stdio::from(std::os::fd::OwnedFd::from(listener)));
        shell
    };
    let mut child = run(&pool, "0.0.0.0:0").stderr(std::process::Stdio::piped()).spawn().unwrap();
    let deadline = std::time::Instant::now() + crate::support::PATIENCE;
    while child.try_wait().unwrap().is_none() {
        if std::time::Instant::now() > deadline {
            let _ = child.kill(); // it serves; what it says is told below
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let output = child.wait_with_output().unwrap();
    let text = told(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("the socket of systemd") && text.contains("allow_remote"), "{text}");
}

#[test]
fn sockets_have_the_modes_that_are_asked_for() {
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let pool = PoolFixture::formatted(TWO);
    let server = pool.start();
    let usual = [mode(&pool.at("tandem.sock")), mode(&pool.at("pool.control"))];
    server.stops();
    // a group by its number: that of whoever runs this
    let group = std::fs::metadata(pool.folder.path()).unwrap().gid();
    let asked = format!(
        "nbd = [{{ listen = \"unix:tandem.sock\", mode = \"0660\", group = \"{group}\" }}]\n\
         control = {{ path = \"pool.control\", mode = \"0666\" }}"
    );
    std::fs::write(&pool.config, with(&asked)).unwrap();
    let server = pool.start();
    let changed = [mode(&pool.at("tandem.sock")), mode(&pool.at("pool.control"))];
    assert_eq!(std::fs::metadata(pool.at("tandem.sock")).unwrap().gid(), group);
    assert!(pool.run("status", &[]).status.success());
    server.stops();
    let told = |modes: [u32; 2]| format!("{:04o} and {:04o}", modes[0], modes[1]);
    println!(
        "measured: modes of NBD and control socket {}, as asked {}",
        told(usual),
        told(changed)
    );
    assert_eq!((usual, changed), ([0o600, 0o600], [0o660, 0o666]));
}

/// A pool with TLS whose certificates are sound, and their folder.
fn safe(ours: &Authority) -> (PoolFixture, PathBuf) {
    let serve = "nbd = [{ listen = \"127.0.0.1:0\", tls = \"require\" }]\ncertificates = \"pki\"";
    let pool = PoolFixture::formatted(&with(serve));
    let pki = server_folder(&pool.at("pki"), ours);
    (pool, pki)
}

/// What is in a file is something else: where, what, and what to type, before anything is touched.
#[test]
fn files_that_are_no_certificates_are_refused_by_name() {
    let ours = Authority::new("ours");
    let (pool, pki) = safe(&ours);
    let good = ours.server(HOLDS);
    let encrypted =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let broken = good.certificate.replacen("MII", "MI!", 1);
    let cases: Vec<(&str, Option<&str>, &[&str])> = vec![
        ("server-key.pem", Some(""), &["holds no key", "-----BEGIN PRIVATE KEY-----"]),
        ("server-key.pem", None, &["No such file", "`certificates` in [serve]"]),
        ("server-cert.pem", None, &["No such file"]),
        ("ca-cert.pem", None, &["No such file"]),
        ("server-cert.pem", Some(""), &["holds no certificate", "-----BEGIN CERTIFICATE-----"]),
        ("ca-cert.pem", Some("no PEM at all\n"), &["holds no certificate"]),
        ("server-cert.pem", Some(&good.key), &["holds a key and no certificate", "exchanged"]),
        (
            "server-key.pem",
            Some(&good.certificate),
            &["holds a certificate and no key", "exchanged"],
        ),
        ("server-key.pem", Some(encrypted), &["the key is encrypted", "openssl pkey -in"]),
        ("server-cert.pem", Some(&broken), &["no sound PEM file"]),
        ("ca-crl.pem", Some(&good.certificate), &["-----BEGIN X509 CRL-----"]),
    ];
    for (name, text, words) in &cases {
        std::fs::remove_dir_all(&pki).unwrap();
        server_folder(&pki, &ours);
        match text {
            Some(text) => drop(folder(&pki, &[(name, text)])),
            None => std::fs::remove_file(pki.join(name)).unwrap(),
        }
        refused(&pool, 2, &[&["line 16", name], *words].concat());
    }
    std::fs::remove_dir_all(&pki).unwrap();
    server_folder(&pki, &ours);
    std::fs::remove_file(pki.join("server-key.pem")).unwrap();
    std::fs::create_dir(pki.join("server-key.pem")).unwrap();
    refused(&pool, 2, &["server-key.pem", "it is no file"]);
    println!("measured: {} files that are no certificates are refused by name", cases.len() + 1);
}

/// Each is sound, and they are of each other, or of today, no more.
#[test]
fn certificates_that_do_not_fit_are_refused_by_name() {
    let ours = Authority::new("ours");
    let (pool, pki) = safe(&ours);
    let stranger = Authority::new("other").server(HOLDS);
    let (late, early) = (ours.server(EXPIRED), ours.server((2110, 2120)));
    let expired = Authority::dated("expired", EXPIRED).certificate();
    let (cert, key, ca) = ("server-cert.pem", "server-key.pem", "ca-cert.pem");
    type Case<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str]);
    let cases: [Case<'_>; 4] = [
        (&[(key, &stranger.key)], &["does not belong to", "-pubkey", "-pubout"]),
        (&[(cert, &late.certificate), (key, &late.key)], &[cert, "expired on 2021-01-01"]),
        (&[(cert, &early.certificate), (key, &early.key)], &[cert, "holds only from 2110-01-01"]),
        (&[(ca, &expired)], &[ca, "expired on 2021-01-01"]),
    ];
    for (files, words) in cases {
        server_folder(&pki, &ours);
        folder(&pki, files);
        refused(&pool, 2, words);
    }
    // and what is sound is served; a key that others may read is told of
    server_folder(&pki, &ours);
    set_permissions(pki.join(key), Permissions::from_mode(0o644)).unwrap();
    let (ended, said) = pool.start().stop();
    assert!(ended.success() && said.contains("server-key.pem: other users"), "{said}");
    assert!(!said.contains("every local user"), "it asks for certificates: {said}");
    println!("measured: {} sets of certificates that do not fit are refused by name", cases.len());
}

/// A key that this user may not read: root reads every key, so root tries it as nobody.
#[test]
fn a_key_that_cannot_be_read_is_named() {
    use std::os::unix::process::CommandExt as _;
    const NOBODY: u32 = 65_534;
    let (pool, pki) = safe(&Authority::new("ours"));
    set_permissions(pki.join("server-key.pem"), Permissions::from_mode(0o000)).unwrap();
    let mut serve = Command::new(program());
    serve.args(["serve", pool.config()]);
    if rustix::process::geteuid().is_root() {
        set_permissions(pool.folder.path(), Permissions::from_mode(0o755)).unwrap();
        serve.uid(NOBODY).gid(NOBODY);
    }
    let output = match serve.output() {
        Ok(output) => output,
        Err(why) => {
            println!("skipped: nobody may not run {}: {why}", program().display());
            return;
        }
    };
    let text = told(&output);
    println!("measured: {}", text.trim());
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("server-key.pem: Permission denied"), "{text}");
}

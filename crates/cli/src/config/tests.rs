//! Is every error of a configuration told with its line, and what would do?

use super::*;
use tandem_live::listen::Address;

const GOOD: &str = r#"[pool]
name = "laptop"
metadata_replica_lag = "45s"
[[device]]
role = "ssd"
path = "ssd.img"
size = "16GiB"
emulate = "960evo"

[[device]]
role = "hdd"
path = "hdd.img"
size = "64GiB"
emulate = "wd100efax"
profile = "wd100efax"
write_cache = "volatile"

[[volume]]
name = "vol0"
size = "32GiB"
steer = "mios-d"
durability = "volatile-ok"

[serve]
nbd = ["unix:tandem.sock", "127.0.0.1:10809"]
fuse = "mnt"
submission = "batched"
spin = "20us"
"#;

fn parse(text: &str) -> Result<PoolConfig, ConfigFault> {
    PoolConfig::parse(text, Path::new("/pool/tandem.toml"))
}

/// The good file with one change; where `from` is not found the test itself is wrong.
fn changed(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from} is in the good file");
    GOOD.replacen(from, to, 1)
}

#[test]
fn the_example_of_the_design_is_read() {
    let pool = parse(GOOD).expect("good");
    assert_eq!(pool.name, "laptop");
    assert_eq!(pool.engine_config(&[1 << 34, 1 << 36]).metadata_replica_lag.ns, 45_000_000_000);
    let lag = "metadata_replica_lag = \"45s\"";
    let read_back = changed(lag, "read_back = \"16MiB\"\npromote_after = 2");
    let config = parse(&read_back).expect("good").engine_config(&[1 << 34, 1 << 36]);
    assert_eq!((config.read_back_bytes, config.promote_after_reads), (16 << 20, 2));
    let memory = changed("[serve]", "[memory]\nmetadata = \"3GiB\"\n[serve]");
    let config = parse(&memory).expect("good").engine_config(&[1 << 34, 1 << 36]);
    assert_eq!(config.metadata_memory_bytes, Some(3 << 30));
    for (value, said) in [("3", "write sizes like"), ("9000000TiB", "so much")] {
        let wrong = memory.replace("3GiB", value);
        let error = parse(&wrong).expect_err(value).to_string();
        assert!(error.contains(said), "{value}: {error}");
    }
    let too_much = parse(&changed(lag, "read_back = \"1GiB\"")).expect_err("too much");
    assert!(too_much.text.contains("256MiB at most"), "{too_much}");
    let by_itself =
        parse(&changed("metadata_replica_lag = \"45s\"", "")).expect("it has a default");
    assert_eq!(
        by_itself.engine_config(&[1 << 34, 1 << 36]).metadata_replica_lag.ns,
        30_000_000_000
    );
    let [ssd, hdd] = pool.devices.as_slice() else { panic!("two devices") };
    assert_eq!((ssd.role, ssd.size_bytes, ssd.line), (Role::Ssd, Some(16 << 30), 6));
    assert_eq!(ssd.backing, Backing::Path("/pool/ssd.img".into()));
    assert_eq!(ssd.emulate.as_ref().map(|drive| drive.name.as_str()), Some("960evo"));
    assert!(ssd.profile.is_none() && hdd.profile.is_some());
    let [volume] = pool.volumes.as_slice() else { panic!("one volume") };
    assert_eq!((volume.steer.policy(), volume.steer.get("queue_length")), ("mios-d", 2));
    let ways = [
        Address::Unix("/pool/tandem.sock".into()),
        Address::Tcp("127.0.0.1:10809".parse().expect("an address")),
    ];
    assert_eq!(pool.serve.nbd, ways.map(Way::plain));
    assert_eq!(pool.serve.fuse.as_deref(), Some(Path::new("/pool/mnt")));
    let event_loop = pool.event_loop_config();
    assert_eq!((event_loop.submission, event_loop.spin.ns), (Submission::Batched, 20_000));
    let usual = changed("submission = \"batched\"\nspin = \"20us\"\n", "");
    // what is kept for payloads follows from the fronts: see `limits_are_read_and_nonsense_is_told`
    let defaults = parse(&usual).expect("defaults").event_loop_config();
    let kept_bytes_max = defaults.kept_bytes_max;
    assert_eq!(defaults, EventLoopConfig { kept_bytes_max, ..EventLoopConfig::default() });
}

#[test]
fn other_ways_to_write_it() {
    let table = changed("\"mios-d\"", "{ policy = \"mios-e\", queue_length = 5 }");
    assert_eq!(
        parse(&table).expect("a table").volumes[0].steer,
        SteerConfig::named("mios-e").with("queue_length", 5)
    );
    let ram = changed("path = \"ssd.img\"\nsize = \"16GiB\"", "path = \"ram:4GiB\"");
    assert_eq!(parse(&ram).expect("memory").devices[0].backing, Backing::Ram { bytes: 4 << 30 });
    let bare = "[pool]\nname='p'\n[[device]]\nrole='ssd'\npath='/dev/x'\n[[volume]]\nname='v'\nsize='1GiB'\n";
    let bare = parse(bare).expect("the least there is");
    assert_eq!((bare.volumes[0].steer.policy(), bare.serve), ("ssd-first", Serve::default()));
}

#[test]
fn engines_are_told_what_the_file_says() {
    let pool = parse(GOOD).expect("good");
    let config = pool.engine_config(&[16 << 30, 64 << 30]);
    assert!(!config.format && config.contents);
    assert_eq!(config.devices[0].depth, SSD_DEPTH);
    assert_eq!(config.devices[1].depth, 1, "design decision 4");
    let sata = GOOD.replace("emulate = \"960evo\"", "emulate = \"x25e\"");
    let sata = parse(&sata).expect("good").engine_config(&[16 << 30, 64 << 30]);
    assert_eq!(sata.devices[0].depth, 31, "as in a replay: a SATA link takes no more");
    assert!(config.devices[1].hdd_profile.is_some());
    tandem_engine::Engine::new(config).expect("an engine runs it");
    let mut renamed = pool.volumes[0].clone();
    renamed.name = "vol1".into();
    assert_ne!(renamed.object(), pool.volumes[0].object());
}

/// How long a drive may leave a command without an answer, and what is too short or too long.
#[test]
fn deadlines_leave_drives_their_own_error_recovery() {
    let deadlines =
        |text: &str| parse(text).expect("good").engine_config(&[16 << 30, 64 << 30]).deadlines;
    assert_eq!(deadlines(GOOD), [Duration::from_s(30); 2]);
    let said = |role: &str, value: &str| {
        let role = format!("role = \"{role}\"\n");
        changed(&role, &format!("{role}deadline = \"{value}\"\n"))
    };
    assert_eq!(deadlines(&said("hdd", "8s"))[1], Duration::from_s(8));
    assert_eq!(deadlines(&said("ssd", "1500ms"))[0], Duration::from_ms(1500));
    for (role, value, want) in [
        ("hdd", "7s", "its own error recovery; write at least"),
        ("ssd", "0s", "is too short"),
        ("ssd", "3000s", "write at most"),
        ("hdd", "soon", "30s"),
    ] {
        let fault = parse(&said(role, value)).expect_err(value).to_string();
        assert!(fault.contains(want), "{value}: {fault}");
    }
}

/// Budgets of a day: a rating is the configuration's or the profile's, drive writes are of the size.
#[test]
fn budgets_are_a_days_bytes() {
    let budgets =
        |text: &str| parse(text).expect("good").engine_config(&[16_000_000_000, 64 << 30]).budgets;
    let usual = budgets(GOOD);
    assert_eq!(usual[1].rated_bytes, Some(180_000_000_000_000 / 365), "of the profile");
    assert_eq!((usual[1].padding_bytes, usual[1].log_bytes), (None, None));
    let role = "role = \"hdd\"\n";
    let keys = "workload_rating = \"365TB\"\npadding_budget = \"0B\"\nlog_budget = \"5GB\"\n";
    let said = budgets(&changed(role, &format!("{role}{keys}")));
    let want = (Some(1_000_000_000_000), Some(0), Some(5_000_000_000));
    assert_eq!((said[1].rated_bytes, said[1].padding_bytes, said[1].log_bytes), want);
    let role = "role = \"ssd\"\n";
    for (budget, want) in
        [("0.3DWPD", 4_800_000_000), ("2 DWPD", 32_000_000_000), ("7GB", 7_000_000_000)]
    {
        let text = changed(role, &format!("{role}write_budget = \"{budget}\"\n"));
        assert_eq!(budgets(&text)[0].ssd_write_bytes, Some(want), "{budget}");
    }
    for (role, key, want) in [
        ("ssd", "write_budget = \"0DWPD\"", "nothing may be written"),
        ("ssd", "write_budget = \"0GB\"", "nothing may be written"),
        ("ssd", "write_budget = \"-1DWPD\"", "begins with '-', not with a digit"),
        ("ssd", "write_budget = \"much\"", "0.3DWPD"),
        ("ssd", "padding_budget = \"1GB\"", "is for hard drives"),
        ("hdd", "write_budget = \"1GB\"", "is for SSDs"),
        ("hdd", "log_budget = \"0B\"", "no write could ever be redirected"),
        ("hdd", "workload_rating = \"0TB\"", "rated for no work"),
        ("hdd", "padding_budget = \"30\"", "has no unit"),
    ] {
        let role = format!("role = \"{role}\"\n");
        let text = changed(&role, &format!("{role}{key}\n"));
        let said = parse(&text).expect_err(key).to_string();
        assert!(said.contains(want), "{key}: {said}");
    }
}

#[test]
fn destaging_is_told_to_the_engine_and_what_is_not_said_is_as_it_was() {
    let said = |keys: &str| {
        let pool = parse(&changed("[serve]", &format!("[destage]\n{keys}\n[serve]"))).expect(keys);
        let config = pool.engine_config(&[1 << 34, 1 << 36]);
        let marks = (config.writeback_high_percent, config.writeback_low_percent);
        (marks, config.writeback_run_bytes, config.flush_budget_percent)
    };
    assert_eq!(said(""), ((60, 40), 8 << 20, 2));
    let all = "high = \"80%\"\nlow = \"70%\"\nrun = \"16MiB\"\nflush_budget = \"5%\"";
    assert_eq!(said(all), ((80, 70), 16 << 20, 5));
    assert_eq!(said("low = \"0%\"\nflush_budget = \"100%\""), ((60, 0), 8 << 20, 100));
    // a drive that turns out to be smaller than a run wants
    let text = changed("[serve]", "[destage]\nrun = \"64MiB\"\n[serve]");
    let small = parse(&text).expect("sound").engine_config(&[256 << 20, 1 << 36]);
    assert_eq!(small.writeback_run_bytes, 32 << 20);
}

/// (what is changed, into what, the line that is named, words of the error)
const FAULTS: &[(&str, &str, usize, &str)] = &[
    ("name = \"laptop\"", "nmae = \"laptop\"", 2, "did you mean \"name\""),
    ("[pool]\nname = \"laptop\"\nmetadata_replica_lag = \"45s\"", "", 0, "missing key `pool`"),
    ("name = \"laptop\"", "name = \"lap top\"", 2, "the name of this pool"),
    ("name = \"laptop\"", "name = laptop", 2, ""),
    ("metadata_replica_lag", "metadata_replica_leg", 3, "did you mean \"metadata_replica_lag\""),
    (
        "metadata_replica_lag",
        "second_home_lag",
        3,
        "\"second_home_lag\" is now called \"metadata_replica_lag\"",
    ),
    ("\"45s\"", "\"30\"", 3, "write times like"),
    ("[serve]", "[destage]\nhigh = \"30%\"\n[serve]", 25, "low has to be below high"),
    ("[serve]", "[destage]\nlow = \"60%\"\n[serve]", 25, "begins at high = \"60%\""),
    (
        "[serve]",
        "[destage]\nhigh = \"50%\"\nlow = \"50%\"\n[serve]",
        26,
        "low has to be below high",
    ),
    ("[serve]", "[destage]\nhigh = \"96%\"\n[serve]", 25, "from 1% to 95%"),
    ("[serve]", "[destage]\nflush_budget = \"0%\"\n[serve]", 25, "from 1% to 100%"),
    ("[serve]", "[destage]\nflush_budget = \"2.5%\"\n[serve]", 25, "write whole percent"),
    ("[serve]", "[destage]\nflush_budget = \"101%\"\n[serve]", 25, "from 1% to 100%"),
    ("[serve]", "[destage]\nflush_budget = 2\n[serve]", 25, "invalid type"),
    ("[serve]", "[destage]\nrun = \"64KiB\"\n[serve]", 25, "1MiB at least and 64MiB at most"),
    ("[serve]", "[destage]\nrun = \"1GiB\"\n[serve]", 25, "1MiB at least and 64MiB at most"),
    (
        "size = \"16GiB\"",
        "size = \"256MiB\"\n[destage]\nrun = \"64MiB\"\n[[device]]\nrole = \"ssd\"\npath = \"b.img\"\nsize = \"16GiB\"",
        9,
        "32MiB of 256MiB",
    ),
    ("[serve]", "[destage]\nflush_budgett = \"2%\"\n[serve]", 25, "did you mean \"flush_budget\""),
    ("\"45s\"", "\"10ms\"", 3, "1s at least"),
    ("emulate = \"960evo\"", "emulates = \"960evo\"", 8, "did you mean \"emulate\""),
    ("role = \"ssd\"", "role = \"sdd\"", 5, "did you mean \"ssd\""),
    ("role = \"ssd\"\n", "", 4, "missing key `role`"),
    ("path = \"ssd.img\"\n", "", 4, "missing key `path`"),
    ("path = \"ssd.img\"", "path = \"\"", 6, "empty"),
    ("path = \"hdd.img\"", "path = \"./ssd.img\"", 12, "listed twice"),
    ("path = \"hdd.img\"", "path = \"x/../ssd.img\"", 12, "listed twice"),
    ("path = \"ssd.img\"", "path = \"ram:4GiB\"", 7, "drop this one"),
    ("path = \"ssd.img\"", "path = \"/dev/nvme0n1\"", 7, "drop this key"),
    ("size = \"16GiB\"", "size = \"16\"", 7, "write sizes like"),
    ("size = \"16GiB\"", "size = \"4MiB\"", 7, "at least 8MiB"),
    ("size = \"16GiB\"", "size = \"4097TiB\"", 7, "at most 4096TiB"),
    ("size = \"16GiB\"", "size = 16", 7, ""),
    ("emulate = \"960evo\"", "emulate = \"970evo\"", 8, "did you mean `960evo`"),
    ("emulate = \"960evo\"", "emulate = \"wd100efax\"", 8, "role is not"),
    ("profile = \"wd100efax\"", "profile = \"wd100efx\"", 15, "did you mean \"wd100efax\""),
    ("profile = \"wd100efax\"", "profile = \"960evo\"", 15, "other role"),
    ("profile = \"wd100efax\"", "profile = \"none.toml\"", 15, "cannot read the profile"),
    ("\"volatile\"", "\"safe\"", 16, "one of volatile, protected"),
    ("name = \"vol0\"", "name = \"\"", 19, "the name of this volume"),
    ("size = \"32GiB\"", "size = \"1000B\"", 20, "multiple of 4KiB"),
    ("size = \"32GiB\"", "size = \"0KiB\"", 20, "at least 4KiB"),
    ("\"mios-d\"", "\"mios-x\"", 21, "did you mean \"mios-d\""),
    ("\"mios-d\"", "{ policy = \"mios-d\", queue_len = 1 }", 21, "did you mean \"queue_length\""),
    ("\"mios-d\"", "{ policy = \"ssd-first\", queue_length = 1 }", 21, "no settings"),
    ("\"mios-d\"", "{ policy = \"mios-d\", queue_length = \"2ms\" }", 21, "is not a whole number"),
    ("\"mios-d\"", "{ policy = \"mios-d\", queue_length = -1 }", 21, "is not a whole number"),
    ("\"mios-d\"", "{ policy = \"mios-d\", queue_length = 1000001 }", 21, "from 0 to 1000000"),
    ("\"mios-d\"", "{ queue_length = 1 }", 21, "missing key `policy`"),
    ("\"mios-d\"", "7", 21, "a policy's name or a table"),
    ("\"volatile-ok\"", "\"strcit\"", 22, "did you mean \"strict\""),
    ("\"volatile-ok\"", "\"protected\"", 22, "not every device"),
    ("durability = \"volatile-ok\"", "tier = \"hot-dts\"", 22, "did you mean \"hot-dst\""),
    (
        "durability = \"volatile-ok\"",
        "tier = { policy = \"hot-dst\", intervall = \"5s\" }",
        22,
        "did you mean \"interval\"",
    ),
    (
        "durability = \"volatile-ok\"",
        "tier = { policy = \"hot-dst\", interval = \"0s\" }",
        22,
        "a time from 1ms",
    ),
    ("\"127.0.0.1:10809\"", "\"0.0.0.0:10809\"", 25, "allow_remote"),
    ("\"127.0.0.1:10809\"", "\"unix:\"", 25, "no address"),
    ("\"127.0.0.1:10809\"", "\"unix:tandem.sock\"", 25, "listed twice"),
    ("fuse = \"mnt\"", "fues = \"mnt\"", 26, "did you mean \"fuse\""),
    ("\"batched\"", "\"batch\"", 27, "did you mean \"batched\""),
    ("\"20us\"", "\"20\"", 28, "write times like"),
    ("\"20us\"", "\"1s\"", 28, "longer than 10ms"),
    ("[serve]", "[server]", 24, "did you mean \"serve\""),
];

#[test]
fn limits_are_read_and_nonsense_is_told() {
    let usual = parse(GOOD).expect("good");
    let nbd = usual.serve.limits.nbd(2);
    assert_eq!((nbd.connections_max, nbd.memory_bytes), (100, 256 << 20));
    // NBD, the mount, and the tail of the hard drive
    assert_eq!(usual.event_loop_config().kept_bytes_max, (256 + 128 + 64) << 20);
    let keys = "connections = 7\nnegotiation_timeout = \"3s\"\nstall_timeout = \"90s\"\n\
                nbd_memory = \"128MiB\"\nfuse_memory = \"32MiB\"\n";
    let pool = parse(&format!("{GOOD}{keys}")).expect("good");
    let nbd = pool.serve.limits.nbd(2);
    assert_eq!((nbd.connections_max, nbd.memory_bytes), (7, 128 << 20));
    assert_eq!(
        (nbd.negotiation_timeout, nbd.stall_timeout),
        (Duration::from_s(3), Duration::from_s(90))
    );
    assert_eq!(pool.event_loop_config().front_bytes_max, 32 << 20);
    // many connections, and nothing said of memory: it is what they need
    let pool = parse(&format!("{GOOD}connections = 3000\n")).expect("good");
    let nbd = pool.serve.limits.nbd(2);
    assert!(nbd.memory_bytes > 1 << 30 && nbd.memory_bytes >= nbd.memory_least_bytes(2));
    let line = GOOD.lines().count() + 1;
    for (key, want) in [
        ("connections = 0", "nobody could be served"),
        ("connections = -1", "from 1 to 10000"),
        ("connections = 10001", "from 1 to 10000"),
        ("connections = \"many\"", ""),
        ("negotiation_timeout = \"0s\"", "1s at least"),
        ("negotiation_timeout = \"10\"", "write times like"),
        ("stall_timeout = \"10ms\"", "1s at least"),
        ("stall_timeout = \"100000s\"", "86400s"),
        ("nbd_memory = \"0B\"", "96MiB at least"),
        ("nbd_memory = \"64MiB\"", "96MiB at least"),
        ("nbd_memory = \"256\"", "write sizes like"),
        ("nbd_memory = \"96MiB\"\nconnections = 200", "2 sockets with 200 connections each"),
        ("fuse_memory = \"1MiB\"", "16MiB at least"),
        ("fuse_memory = \"9000000TiB\"", "so much"),
        ("connection = 5", "did you mean \"connections\""),
    ] {
        let fault = parse(&format!("{GOOD}{key}\n")).expect_err(key);
        assert!(fault.text.contains(want), "{key}: {fault}");
        assert_eq!(fault.line, Some(line), "{key}: {fault}");
    }
}

#[test]
fn a_volume_of_files_has_a_mount_point_and_no_size() {
    let of_files = |text: &str| changed("size = \"32GiB\"", text);
    let good = parse(&of_files("files = true\nmount = \"tree\"")).expect("good");
    let volume = &good.volumes[0];
    assert!(volume.is_files && volume.told_bytes().is_none() && good.block_volumes().count() == 0);
    assert_eq!(volume.mount.as_deref(), Some(Path::new("/pool/tree")));
    assert_eq!(volume.reach, Reach::Owner);
    let open =
        parse(&of_files("files = true\nmount = \"tree\"\nallow_other = true")).expect("good");
    assert_eq!(open.volumes[0].reach, Reach::Everybody);
    for (text, want) in [
        ("files = true\nallow_other = true", "add mount"),
        ("files = true\nsize = \"1GiB\"", "drop this key"),
        ("files = false", "add size"),
        ("size = \"1GiB\"\nmount = \"tree\"", "cannot be mounted"),
        ("files = true\nmount = \"\"", "name a directory"),
        ("files = true\nmount = \"x/../mnt\"", "something else of this pool"),
        ("flies = true", "did you mean \"files\""),
    ] {
        let fault = parse(&of_files(text)).expect_err(text);
        assert!(fault.text.contains(want), "{text}: {fault}");
    }
    let stream = "[[stream]]\nvolume = \"vol0\"\nexport = \"x\"\nweight = 2\n";
    let fault = parse(&format!("{}\n{stream}", of_files("files = true"))).expect_err("no export");
    assert!(fault.text.contains("not exported"), "{fault}");
}

#[test]
fn faults_are_told_with_their_line() {
    for (from, to, line, want) in FAULTS {
        let fault = parse(&changed(from, to)).expect_err(to);
        assert!(fault.text.contains(want), "{to}: {fault}");
        let found = fault.line.unwrap_or_default();
        // a table that lacks a key is named by any line of it
        let near =
            if want.contains("missing") { found.abs_diff(*line) <= 5 } else { found == *line };
        assert!(near, "{to}: {fault}, expected line {line}");
        assert!(fault.to_string().starts_with("/pool/tandem.toml"), "{fault}");
    }
}

#[test]
fn a_pool_has_devices_and_volumes() {
    let without = |table: &str| {
        let at = GOOD.find(table).expect("it is in the good file");
        let end = GOOD[at + 2..].find("\n[[v").or(GOOD[at + 2..].find("\n[serve")).expect("more");
        format!("{}{}", &GOOD[..at], &GOOD[at + 2 + end..])
    };
    let fault = parse(&without("[[device]]")).expect_err("no devices");
    assert!(fault.text.contains("no [[device]]"), "{fault}");
    let fault = parse(&without("[[volume]]")).expect_err("no volumes");
    assert!(fault.text.contains("no [[volume]]"), "{fault}");
    let alone = GOOD.replace("role = \"hdd\"", "role = \"ssd\"");
    let alone = alone.replace("wd100efax", "960evo");
    let fault = parse(&alone).expect_err("nowhere to redirect to");
    assert!(fault.text.contains("there is none in this pool") && fault.line == Some(21), "{fault}");
    let no_ssd = GOOD.replace("role = \"ssd\"", "role = \"hdd\"");
    let no_ssd = no_ssd.replace("960evo", "wd100efax").replace("volatile-ok", "journaled");
    let fault = parse(&no_ssd).expect_err("nowhere to keep the copy");
    assert!(fault.text.contains("has none") && fault.line == Some(22), "{fault}");
    let twice = format!("{GOOD}\n[[volume]]\nname = \"vol0\"\nsize = \"1GiB\"\n");
    let fault = parse(&twice).expect_err("two of a name");
    assert!(fault.text.contains("two volumes") && fault.line == Some(31), "{fault}");
}

#[test]
fn files_that_are_not_there_or_too_large() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.toml");
    assert!(PoolConfig::read(&path).expect_err("missing").to_string().contains("t.toml"));
    std::fs::write(&path, vec![b'#'; 2 << 20]).expect("written");
    assert!(PoolConfig::read(&path).expect_err("large").text.contains("larger than 1 MiB"));
    std::fs::write(&path, GOOD).expect("written");
    std::os::unix::fs::symlink("ssd.img", folder.path().join("hdd.img")).expect("linked");
    std::fs::write(folder.path().join("ssd.img"), b"").expect("written");
    let fault = PoolConfig::read(&path).expect_err("one file under two names");
    assert!(fault.text.contains("listed twice"), "{fault}");
}

#[test]
fn a_device_may_be_two_drives() {
    let ssd = "emulate = \"960evo\"\n";
    let with = |pair: &str| changed(ssd, &format!("{ssd}pair = {pair}\n"));
    let pool = parse(&with("{ leg = \"b.img\", period = \"2s\", idle = \"100ms\" }")).unwrap();
    let drives: Vec<String> = pool.drives().map(PoolDevice::label).collect();
    assert_eq!(drives, ["/pool/ssd.img", "/pool/hdd.img", "/pool/b.img"]);
    // the smaller leg decides, and both keep their records
    let header = tandem_engine::format::pair::HEADER_BYTES;
    let config = pool.engine_config(&[16 << 30, 64 << 30, 8 << 30]);
    assert_eq!(config.devices[0].capacity_bytes, (8 << 30) - header);
    assert_eq!(config.pairs[0].config.period, Duration::from_s(2));
    for (pair, line, want) in [
        ("{ leg = \"hdd.img\" }", 13, "listed twice"),
        ("{ leg = \"ssd.img\" }", 9, "a drive of its own"),
        ("{ leg = \"ram:4GiB\" }", 9, "protects nothing"),
        ("{ leg = \"b.img\", period = \"1ms\" }", 9, "at least 100 ms"),
        ("{ leg = \"b.img\", period = \"2s\", idle = \"1.5s\" }", 9, "more than half"),
        ("{ leg = \"b.img\", cache = \"4KiB\" }", 9, "at least 64MiB"),
        ("{ leg = \"b.img\", answer = \"soon\" }", 9, "written, cached"),
        ("{ leg = \"b.img\", answer = \"journaled\" }", 9, "no journal to answer from"),
        ("{ leg = \"b.img\", journal = \"b.img\" }", 9, "dies with a leg"),
        ("{ leg = \"b.img\", journal = \"hdd.img\" }", 13, "listed twice"),
        ("{ leg = \"b.img\", journal = \"ram:1GiB\" }", 9, "lost when it is needed"),
        (
            "{ leg = \"b.img\", journal = { path = \"j.img\", size = \"1MiB\" } }",
            9,
            "at least 128MiB",
        ),
        (
            "{ leg = \"b.img\", journal = { path = \"j.img\", emulate = \"wd100efax\" } }",
            9,
            "say so with `role`",
        ),
        ("{ leg = \"b.img\", journal = { path = \"j.img\", role = \"hdd\" } }", 9, "must be known"),
        ("{ leg = \"b.img\", journal = { size = \"1GiB\" } }", 9, "path"),
        ("{ leg = \"b.img\", peroid = \"1s\" }", 9, "did you mean \"period\""),
        ("{ period = \"1s\" }", 9, "leg"),
        ("{ twin = \"b.img\" }", 9, "\"twin\" is now called \"leg\""),
    ] {
        let said = parse(&with(pair)).expect_err(pair).to_string();
        assert!(said.contains(want) && said.contains(&format!("line {line}:")), "{pair}: {said}");
    }
    let hdd = "profile = \"wd100efax\"\n";
    let text = changed(hdd, &format!("{hdd}pair = {{ leg = \"b.img\" }}\n"));
    assert!(parse(&text).unwrap_err().to_string().contains("only SSDs"));
}

/// Bays for drives that will come: what they are, and what they are not.
#[test]
fn a_bay_may_be_empty_from_the_beginning() {
    let entry = "[[device]]\nrole = \"hdd\"\npath = \"bay:8GiB\"\n";
    let with = |entry: &str| changed("[[volume]]", &format!("{entry}[[volume]]"));
    let pool = parse(&with(entry)).expect("a bay");
    let bay = &pool.devices[2];
    assert!(bay.gone && bay.bay_bytes == Some(8 << 30), "{bay:?}");
    assert_eq!(bay.label(), "bay:8GiB");
    // the event loop has a stand-in there, whose size does not count
    let config = pool.engine_config(&[16 << 30, 64 << 30, 8 << 20]);
    assert_eq!(config.gone, [tandem_block::DeviceId(2)]);
    assert_eq!(config.devices[2].capacity_bytes, 8 << 30);
    for (text, want) in [
        (with(&entry.replace("bay:", "spare:")), "is now called \"bay:\": write \"bay:8GiB\""),
        (with(&entry.replace("8GiB", "much")), "write sizes like"),
        (with(&entry.replace("8GiB", "1MiB")), "at least 8MiB"),
        (with(&format!("{entry}size = \"8GiB\"\n")), "has its size in its path"),
        (with(&format!("{entry}gone = true\n")), "was never there"),
        (with(&format!("{entry}pair = {{ leg = \"b.img\" }}\n")), "is for one drive"),
        (
            changed("[[device]]\nrole = \"hdd\"", &format!("{entry}[[device]]\nrole = \"hdd\"")),
            "behind",
        ),
    ] {
        let fault = parse(&text).expect_err(&text).to_string();
        assert!(fault.contains(want), "{fault}");
    }
    let ram = "[pool]\nname='p'\n[[device]]\nrole='ssd'\npath='ram:1GiB'\n[[device]]\nrole='ssd'\npath='bay:1GiB'\n[[volume]]\nname='v'\nsize='1MiB'\n";
    assert!(parse(ram).expect_err("memory").to_string().contains("in memory"));
}

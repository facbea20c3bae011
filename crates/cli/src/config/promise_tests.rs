//! Are promises read as they are meant, and slips told?

use crate::config::PoolConfig;
use tandem_block::Duration;
use tandem_engine::qos::reserve::{Does, Rate, Selector};

const POOL: &str = r#"
[pool]
name = "p"
[[device]]
role = "ssd"
path = "ram:1GiB"
profile = "PROFILE"
[[volume]]
name = "gold"
size = "64MiB"
reservation = { rate = "25/s", size = "256KiB", does = "random-read", window = "5s", confidence = 99.5 }
weight = 300
[[volume]]
name = "silver"
size = "64MiB"
limit = "20MB/s"
[[volume]]
name = "tin"
size = "64MiB"
[[stream]]
volume = "tin"
reservation = "1000iops"
"#;

/// Every request costs 100 us, over windows of a second and more.
const COSTS: &str = r#"
name = "slow"
about = "a drive of 10,000 requests a second"
[ssd]
write_rate = { value = "40MB/s", source = "measured: here" }
flush = { value = "1ms", source = "measured: here" }
[costs]
source = "measured: here"
range = "1GiB"
windows = ["1s", "10s"]
confidences = [95.0, 100.0]
"#;

fn costs() -> String {
    let row = |does| {
        format!(
            "[[costs.row]]\ndoes = \"{does}\"\nsize = \"4KiB\"\ndepth = 31\nmean_ns = 90000\n\
             cost_ns = [[200000, 400000], [100000, 100000]]\n"
        )
    };
    let kinds = ["random-read", "sequential-read", "random-write", "sequential-write"];
    kinds.iter().fold(COSTS.to_owned(), |text, does| text + &row(does))
}

fn parse(text: &str) -> Result<PoolConfig, String> {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("slow.toml"), costs()).expect("written");
    let text = text.replace("PROFILE", "slow.toml");
    PoolConfig::parse(&text, &folder.path().join("p.toml")).map_err(|why| why.to_string())
}

#[test]
fn promises_are_read() {
    let config = parse(POOL).expect("sound");
    let promises = &config.promises;
    assert_eq!((promises.order, promises.overcommit, promises.depth), ("edf", false, 31));
    let [gold, silver, tin] = promises.streams.as_slice() else { panic!("{promises:?}") };
    let promise = gold.promise.expect("promised");
    assert_eq!((promise.rate, promise.size_bytes), (Rate::Requests(25), 256 << 10));
    assert_eq!((promise.does, promise.sequential), (Does::Read, false));
    assert_eq!((promise.window, promise.confidence_ppm), (Duration::from_s(5), 995_000));
    assert_eq!(gold.weight, Some(300));
    assert_eq!((silver.promise, silver.limit), (None, Some(Rate::Bytes(20_000_000))));
    assert_eq!(tin.promise.expect("promised").rate, Rate::Requests(1000));
    // without any, everything is as ever
    let plain = POOL.split("reservation").next().expect("a part");
    let plain = parse(plain).expect("sound");
    assert_eq!((plain.promises.order, plain.promises.streams.len()), ("fifo", 0));
    let other = parse(&format!(
        "{POOL}\n[qos]\norder = \"fios\"\novercommit = true\ndepth = 8\nbackground = \"2%\""
    ));
    let other = other.expect("sound").promises;
    assert_eq!((other.order, other.overcommit, other.depth), ("fios", true, 8));
    assert_eq!(other.background_ppb, 20_000_000);
}

#[test]
fn slips_are_named() {
    for (from, to, want) in [
        ("volume = \"tin\"", "volume = \"tinn\"", "no volume \"tinn\"; did you mean \"tin\"?"),
        ("volume = \"tin\"", "volume = \"gold\"", "has a reservation, weight or limit already"),
        ("reservation = \"1000iops\"", "name = \"x\"", "this one has none"),
        ("reservation = \"1000iops\"", "reservations = \"1\"", "did you mean \"reservation\"?"),
        ("\"1000iops\"", "\"many\"", "\"many\" has no number"),
        ("weight = 300", "weight = 0", "a weight is 1 to"),
        ("does = \"random-read\"", "does = \"random-raed\"", "did you mean \"random-read\""),
        ("window = \"5s\"", "window = \"1ms\"", "a window is 10ms"),
        ("confidence = 99.5", "confidence = 101", "a confidence is above 0"),
        ("weight = 300", "limit = \"10/s\"", "the limit 10 requests/s is below what is reserved"),
        ("limit = \"20MB/s\"", "limit = \"0/s\"", "above 0"),
        ("[[stream]]", "[qos]\norder = \"efd\"\n[[stream]]", "did you mean \"edf\"?"),
        ("[[stream]]", "[qos]\nbackground = \"95%\"\n[[stream]]", "0% to 90%"),
        ("[[stream]]", "[qos]\ndepth = 0\n[[stream]]", "1 to 1024"),
    ] {
        let error = parse(&POOL.replacen(from, to, 1)).expect_err(from);
        assert!(error.contains(want), "{to}: {error}");
    }
}

/// A volume may have a promise for all, and others for who comes by a name of its own.
#[test]
fn exports_are_streams_of_their_volume() {
    let more = "[[stream]]\nvolume = \"tin\"\nexport = \"coin\"\nlimit = \"10/s\"\n\
                [[stream]]\nname = \"n\"\nvolume = \"gold\"\nexport = \"ring\"\nweight = 5";
    let promises = parse(&format!("{POOL}\n{more}")).expect("sound").promises;
    let exports: Vec<_> = promises.exports.iter().map(|it| (it.name.as_str(), it.volume)).collect();
    assert_eq!(exports, [("coin", 2), ("ring", 0)]);
    let of: Vec<_> = promises.streams.iter().map(|it| (it.name.as_str(), it.of)).collect();
    assert_eq!(of[3], ("coin", Selector::Stream(promises.exports[0].stream)));
    assert_eq!(of[4], ("n", Selector::Stream(promises.exports[1].stream)));
    assert_ne!(promises.exports[0].stream, promises.exports[1].stream);
    for (from, to, want) in [
        ("\"coin\"", "\"tin\"", "an export called \"tin\" already"),
        ("\"coin\"", "\"ring\"", "an export called \"ring\" already"),
        ("\"coin\"", "\"a/b\"", "the name of this export has"),
        ("\"n\"", "\"coin\"", "two streams called \"coin\""),
        ("limit = \"10/s\"", "", "this one has none"),
    ] {
        let error = parse(&format!("{POOL}\n{}", more.replacen(from, to, 1))).expect_err(to);
        assert!(error.contains(want), "{to}: {error}");
    }
}

#[test]
fn what_does_not_fit_is_refused_with_what_would() {
    // gold: 25 of 25.6 ms (64 times 400 us: the window of 1 s is the longest that 5 s covers, and 99.5 %
    // are profiled as 100 %): 64 %; background 5 %
    let tin = |text: &str| POOL.replace("\"1000iops\"", text);
    parse(&tin("\"3100iops\"")).map(|_| ()).expect("what would fit does");
    let error = parse(&tin("\"7000iops\"")).expect_err("too much");
    for want in
        ["line 22", "stream tin needs 70.00%", "69.00% are promised", "3100 requests/s would fit"]
    {
        assert!(error.contains(want), "{want}: {error}");
    }
    assert!(parse(&tin("\"7000iops\"\n[qos]\novercommit = true")).is_ok());
    let short = tin("{ rate = \"10/s\", window = \"500ms\" }");
    let error = parse(&short).expect_err("too short");
    assert!(error.contains("shorter than the shortest that was profiled, 1.0 s"), "{error}");
    let error = parse(&POOL.replace("profile = \"PROFILE\"\n", "")).expect_err("no profile");
    assert!(error.contains("it has no cost profile"), "{error}");
    let error = parse(&POOL.replace("\"ssd\"", "\"hdd\"").replace("profile = \"PROFILE\"\n", ""));
    assert!(error.expect_err("no SSD").contains("this pool has none"));
}

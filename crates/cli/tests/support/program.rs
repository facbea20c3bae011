//! How is a pool made, filled, served, damaged and looked at by the real program?

use super::PoolFixture;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Output};
use tandem_engine::format::layout::Layout;
use tandem_engine::format::superblock::Superblock;

/// An SSD and a hard drive with a volume.
pub const TWO: &str = r#"[pool]
name = "two"
[[device]]
role = "ssd"
path = "ssd.img"
size = "64MiB"
[[device]]
role = "hdd"
path = "hdd.img"
size = "128MiB"
[[volume]]
name = "vol0"
size = "32MiB"
[serve]
nbd = ["unix:tandem.sock"]
"#;

/// What `fill` writes: so many rounds, each so many bytes at a multiple of the step.
pub const ROUNDS: u64 = 40;
pub const ROUND_BYTES: usize = 16384;
pub const ROUND_STEP: u64 = 65536;

/// The program under test.
pub fn program() -> &'static Path {
    let path: Option<&str> = option_env!("CARGO_BIN_EXE_tandem"); // the examples have none
    path.map(Path::new).expect("cargo names it to tests")
}

/// Runs it to its end.
pub fn tandem(arguments: &[&str]) -> Output {
    Command::new(program()).args(arguments).output().unwrap()
}

/// What it said on stderr.
pub fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What it said on stdout.
pub fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Its stdout as one JSON document.
pub fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", told(output)))
}

/// What each round writes.
pub fn round_byte(round: u64) -> u8 {
    u8::try_from(round + 1).expect("there are few rounds")
}

/// A pool that holds something: flushed, and stopped as asked.
pub fn filled(text: &str, cleanly: bool) -> PoolFixture {
    let pool = PoolFixture::formatted(text);
    let server = pool.start();
    let mut target = pool.nbd();
    for round in 0..ROUNDS {
        let bytes = [round_byte(round); ROUND_BYTES];
        target.write(round * ROUND_STEP, &bytes, false).unwrap();
        target.flush().unwrap();
    }
    if cleanly {
        assert!(server.stop().0.success());
    } else {
        server.kill();
    }
    pool
}

/// Serves what `filled` wrote.
pub fn works(pool: &PoolFixture) {
    let server = pool.start();
    let mut target = pool.nbd();
    for round in 0..ROUNDS {
        let bytes = [round_byte(round); ROUND_BYTES];
        assert!(target.read(round * ROUND_STEP, ROUND_BYTES).unwrap() == bytes);
    }
    assert!(server.stop().0.success());
}

/// What lies on the drives, of those that there are.
pub fn images(pool: &PoolFixture) -> Vec<Vec<u8>> {
    let images = ["ssd.img", "hdd.img"].map(|name| pool.at(name));
    images.iter().filter(|path| path.exists()).map(|path| std::fs::read(path).unwrap()).collect()
}

/// Changes one bit of the byte there.
pub fn flip(path: &Path, at: u64) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
}

/// Where what lies on a drive.
pub fn layout(path: &Path) -> Layout {
    let mut block = vec![0; 4096];
    File::open(path).unwrap().read_exact_at(&mut block, 0).unwrap();
    Superblock::decode(&block).unwrap().layout
}

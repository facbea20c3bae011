//! How does a test make a pool, serve it, ask the program about it, and use it?
//!
//! `PoolText::named("two").ssd("64MiB").hdd("128MiB").volume("vol0", "32MiB").nbd()` says what is in a pool;
//! its `formatted` makes it, in a folder of its own, and `start` serves it.

use super::program::{json, printed, program, tandem, told};
use super::sigkill::{Target, over_nbd};
use super::{PATIENCE, Server};
use serde_json::Value;
use std::fs::File;
use std::path::PathBuf;
use std::process::Output;
use std::time::{Duration, Instant};
use tandem_fronts::nbd::Client;
use tandem_live::listen::Address;

/// The text of a configuration, in the order in which it is told.
#[derive(Clone)]
pub struct PoolText {
    text: String,
    ssds: usize,
    hdds: usize,
}

impl PoolText {
    /// A pool of this name, without anything in it.
    #[must_use]
    pub fn named(name: &str) -> PoolText {
        PoolText { text: format!("[pool]\nname = {name:?}\n"), ssds: 0, hdds: 0 }
    }

    /// A further key of what was told last.
    #[must_use]
    pub fn with(mut self, line: &str) -> PoolText {
        self.text.push_str(line);
        self.text.push('\n');
        self
    }

    /// A drive of this role, at this path.
    #[must_use]
    pub fn drive(self, role: &str, path: &str) -> PoolText {
        self.with(&format!("[[device]]\nrole = {role:?}\npath = {path:?}"))
    }

    /// An SSD in a file of this size: `ssd.img`, then `ssd2.img` and so on.
    #[must_use]
    pub fn ssd(mut self, size: &str) -> PoolText {
        self.ssds += 1;
        let name = numbered("ssd", self.ssds);
        self.drive("ssd", &name).with(&format!("size = {size:?}"))
    }

    /// A hard drive in a file of this size: `hdd.img`, then `hdd2.img` and so on.
    #[must_use]
    pub fn hdd(mut self, size: &str) -> PoolText {
        self.hdds += 1;
        let name = numbered("hdd", self.hdds);
        self.drive("hdd", &name).with(&format!("size = {size:?}"))
    }

    /// The drive that was told last is emulated by this model.
    #[must_use]
    pub fn emulated(self, model: &str) -> PoolText {
        self.with(&format!("emulate = {model:?}"))
    }

    /// … and steered by this profile.
    #[must_use]
    pub fn profiled(self, name: &str) -> PoolText {
        self.with(&format!("profile = {name:?}"))
    }

    /// A volume of blocks.
    #[must_use]
    pub fn volume(self, name: &str, size: &str) -> PoolText {
        self.with(&format!("[[volume]]\nname = {name:?}\nsize = {size:?}"))
    }

    /// A volume of files.
    #[must_use]
    pub fn files(self, name: &str) -> PoolText {
        self.with(&format!("[[volume]]\nname = {name:?}\nfiles = true"))
    }

    /// … at `mnt`
    #[must_use]
    pub fn mounted(self) -> PoolText {
        self.with("mount = \"mnt\"")
    }

    /// The volumes of blocks are served at `tandem.sock`.
    #[must_use]
    pub fn nbd(self) -> PoolText {
        self.with("[serve]\nnbd = [\"unix:tandem.sock\"]")
    }

    pub fn text(self) -> String {
        self.text
    }

    /// The pool, not formatted.
    pub fn made(self) -> PoolFixture {
        PoolFixture::new(&self.text)
    }

    pub fn formatted(self) -> PoolFixture {
        PoolFixture::formatted(&self.text)
    }
}

fn numbered(role: &str, count: usize) -> String {
    match count {
        1 => format!("{role}.img"),
        count => format!("{role}{count}.img"),
    }
}

/// A pool's configuration in a folder of its own, where its drives are too.
pub struct PoolFixture {
    pub folder: tempfile::TempDir,
    pub config: PathBuf,
}

impl PoolFixture {
    /// With this configuration, and nothing else yet.
    pub fn new(text: &str) -> PoolFixture {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("pool.toml");
        std::fs::write(&config, text).unwrap();
        PoolFixture { folder, config }
    }

    pub fn formatted(text: &str) -> PoolFixture {
        let pool = PoolFixture::new(text);
        pool.done("format", &[]);
        pool
    }

    /// A place in its folder.
    pub fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// … as a word of a command line.
    pub fn path(&self, name: &str) -> String {
        self.at(name).to_str().unwrap().to_owned()
    }

    pub fn config(&self) -> &str {
        self.config.to_str().unwrap()
    }

    /// Another configuration.
    pub fn write(&self, text: &str) {
        std::fs::write(&self.config, text).unwrap();
    }

    /// A file of zeroes in its folder, for a drive that comes.
    pub fn file(&self, name: &str, mib: u64) -> String {
        File::create(self.at(name)).unwrap().set_len(mib << 20).unwrap();
        self.path(name)
    }

    /// `tandem VERB CONFIG WORDS…`.
    pub fn run(&self, verb: &str, words: &[&str]) -> Output {
        tandem(&[&[verb, self.config()], words].concat())
    }

    /// … which succeeds: what it prints.
    pub fn done(&self, verb: &str, words: &[&str]) -> String {
        let output = self.run(verb, words);
        let said = told(&output);
        assert!(output.status.success(), "{verb} {words:?}: {}{said}", printed(&output));
        printed(&output)
    }

    /// … with `--json`, which succeeds.
    pub fn asked(&self, verb: &str, words: &[&str]) -> Value {
        let output = self.run(verb, &[words, &["--json"]].concat());
        assert!(output.status.success(), "{}{}", printed(&output), told(&output));
        json(&output)
    }

    /// What a running server answers.
    pub fn status(&self) -> Value {
        self.asked("status", &[])
    }

    /// Waits until a part of the status, by its JSON pointer, is so.
    pub fn until(&self, part: &str, what: &str, so: impl Fn(&Value) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = self.status();
            let found = status.pointer(part).unwrap_or(&Value::Null);
            if so(found) {
                return;
            }
            assert!(Instant::now() < deadline, "never {what}: {found}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Serves it.
    pub fn start(&self) -> Server {
        self.start_with(&[])
    }

    /// … with further words.
    pub fn start_with(&self, words: &[&str]) -> Server {
        self.serve(words).unwrap_or_else(|output| panic!("{}", told(&output)))
    }

    /// … or says why not.
    pub fn serve(&self, words: &[&str]) -> Result<Server, Output> {
        Server::start(program(), &[&[self.config()], words].concat())
    }

    /// A client of `vol0`.
    pub fn nbd(&self) -> Box<dyn Target> {
        over_nbd(self.folder.path()).unwrap()
    }

    /// A client of an export.
    pub fn client(&self, export: &str) -> Client {
        Client::connect(&Address::Unix(self.at("tandem.sock")), export).unwrap()
    }
}

/// It failed with this code and these words, and did not panic.
pub fn is_refusal(output: &Output, code: i32, wanted: &[&str]) {
    let text = told(output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    for word in wanted {
        assert!(text.contains(word), "{word:?} is missing: {text}");
    }
    assert!(!text.contains("panicked"), "{text}");
}

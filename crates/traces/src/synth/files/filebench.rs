//! What do a file server and a web server do, as FileBench models them?
//!
//! Source: [LORIS §V]. File server: 10,000 files of 128 KiB (median), 20 in a directory;
//! create, write, append, read, delete, stat, each of a file chosen uniformly. Web server: 25,000
//! files of 32 KiB; ten files are read, then up to 16 KiB appended to one log that nobody reads. With
//! Zipf: two sets of 25,000 files; the second is made after the first, which a tier that keeps new
//! data on the SSD must move out for it; then the first is used.
//! From FileBench's own models, as far as the paper is silent: the order of the operations; gamma
//! distributed sizes (`sizes`); an append writes 1 byte to its setting's. **Guesses:** Zipf's theta is
//! 1; the number of rounds (`mod`); all files are there when it begins.

use super::layer::{FileId, Layer};
use super::rotation::Rotation;
use super::sizes::gamma;
use super::{ALIGN, APPEND_READS, DIRTY, ORDER, RAM, REQUEST, Script, bytes, count, files};
use crate::synth::scatter::Scatter;
use crate::synth::settings::{Kind, Setting, Settings};
use crate::synth::{Generator, SynthError, Workload};
use tandem_block::Rng;

/// The index of this word in `ORDER`.
pub(super) const ROTATION: u64 = 1;

/// Operations of a file server that pick a file.
#[derive(Clone, Copy)]
enum Picks {
    Append,
    Read,
    Delete,
    Stat,
}

const WIDTH: Setting = files("width", "20", "files of a directory");

pub(in crate::synth) const FILE_SERVER: Generator = Generator {
    name: "fileserver",
    summary: "a file server: 10,000 files of 128 KiB, made, appended to, read, deleted",
    settings: &[
        files("files", "10000", "how many there are at any time"),
        count("rounds", "20000", "how often: create, append, read, delete, stat"),
        bytes("median", "128KiB", "median size of a file"),
        bytes("append", "1MiB", "an append has at most this"),
        WIDTH,
        RAM,
        DIRTY,
        ALIGN,
        REQUEST,
        APPEND_READS,
        ORDER,
    ],
    build: |settings, mut rng| {
        let mut layer = super::layer(settings)?;
        let server = FileServer {
            set: FileSet::add(&mut layer, Kinds::of(settings), 1, rng.split(1)),
            append_bytes: settings.get("append"),
            next_directory: 0,
            in_rotation: settings.get("order") == ROTATION,
            rotation: None,
            rng: rng.split(2),
        };
        Ok(super::workload(layer, Rounds { of: server, left: settings.get("rounds") }))
    },
};

const WEB_SETTINGS: &[Setting] = &[
    files("files", "25000", "how many there are"),
    count("rounds", "12000", "how often: some reads, then an append to the log"),
    count("reads", "10", "files that are read in a round"),
    bytes("median", "32KiB", "median size of a file"),
    bytes("append", "16KiB", "an append to the log has at most this"),
    WIDTH,
    RAM,
    DIRTY,
    ALIGN,
    REQUEST,
    APPEND_READS,
    ORDER,
];

pub(in crate::synth) const WEB_SERVER: Generator = Generator {
    name: "webserver",
    summary: "a web server: 25,000 files of 32 KiB, all read alike, and a log",
    settings: WEB_SETTINGS,
    build: |settings, rng| {
        let order = if settings.get("order") == ROTATION { None } else { Some(0) };
        web_server(settings, order, 1, rng)
    },
};

pub(in crate::synth) const WEB_SERVER_ZIPF: Generator = Generator {
    name: "webserver-zipf",
    summary: "a web server whose files are popular by Zipf's law, and lie behind newer ones",
    settings: &[
        WEB_SETTINGS[0],
        WEB_SETTINGS[1],
        WEB_SETTINGS[2],
        WEB_SETTINGS[3],
        WEB_SETTINGS[4],
        Setting {
            name: "theta",
            default: "1",
            kind: Kind::Exponent,
            summary: "exponent of the popularity; 0 is uniform",
        },
        Setting {
            name: "sets",
            default: "2",
            kind: Kind::Count { least: 1, most: 8 },
            summary: "sets of so many files; the first is used, those made behind it are not",
        },
        WIDTH,
        RAM,
        DIRTY,
        ALIGN,
        REQUEST,
        APPEND_READS,
    ],
    build: |settings, rng| {
        web_server(settings, Some(settings.get("theta")), settings.get("sets"), rng)
    },
};

/// `theta_ppm`: `None`, files are taken in rotation.
fn web_server(
    settings: &Settings,
    theta_ppm: Option<u64>,
    sets: u64,
    mut rng: Rng,
) -> Result<Workload, SynthError> {
    let mut layer = super::layer(settings)?;
    let kinds = Kinds::of(settings);
    let sets = u32::try_from(sets).expect("settings are bounded");
    let mut rng_of_run = rng.split(2);
    let popular = theta_ppm.map(|theta| Scatter::new(kinds.files.into(), theta, &mut rng_of_run));
    let server = WebServer {
        set: FileSet::add(&mut layer, kinds, sets, rng.split(1)),
        log: None,
        popular,
        rotation: None,
        reads: settings.get("reads"),
        append_bytes: settings.get("append"),
        rng: rng_of_run,
    };
    Ok(super::workload(layer, Rounds { of: server, left: settings.get("rounds") }))
}

/// How many files of which size.
#[derive(Clone, Copy)]
pub(super) struct Kinds {
    pub(super) files: u32,
    pub(super) median_bytes: u64,
    /// Files of a directory.
    pub(super) width: u32,
}

impl Kinds {
    fn of(settings: &Settings) -> Kinds {
        let whole = |name| u32::try_from(settings.get(name)).expect("settings are bounded");
        Kinds { files: whole("files"), median_bytes: settings.get("median"), width: whole("width") }
    }
}

/// Files that are made ahead, in a volume of their own.
#[derive(Clone)]
pub(super) struct FileSet {
    volume: u8,
    kinds: Kinds,
    made: u32,
    rng: Rng,
}

impl FileSet {
    /// A volume for these files, `sets` times.
    pub(super) fn add(layer: &mut Layer, kinds: Kinds, sets: u32, rng: Rng) -> FileSet {
        let kinds = Kinds { files: kinds.files * sets, ..kinds };
        // one file more than are made ahead: the log, or what is created before another is deleted
        let names = kinds.files + 1;
        let volume = layer.add_volume(names, names.div_ceil(kinds.width), kinds.width);
        FileSet { volume, kinds, made: 0, rng }
    }

    /// The directory that has room when all are made.
    fn last_directory(&self) -> u32 {
        self.kinds.files / self.kinds.width
    }

    /// Makes one more; `false`: all are made.
    pub(super) fn make(&mut self, layer: &mut Layer) -> bool {
        if self.made == self.kinds.files {
            return false;
        }
        self.create(layer, self.made / self.kinds.width);
        self.made += 1;
        true
    }

    fn create(&mut self, layer: &mut Layer, directory: u32) -> FileId {
        let size_bytes = gamma(self.kinds.median_bytes, &mut self.rng);
        let made = layer.create(self.volume, directory, size_bytes, true);
        made.expect("a volume has room for one file more")
    }
}

/// What a server does again and again.
pub(super) trait Server: Clone + Send + 'static {
    /// Makes some more of its files; `false`: all are made.
    fn prepare(&mut self, layer: &mut Layer) -> bool;
    /// One round.
    fn round(&mut self, layer: &mut Layer);
}

/// So many rounds of a server.
#[derive(Clone)]
struct Rounds<S> {
    of: S,
    left: u64,
}

impl<S: Server> Script for Rounds<S> {
    fn prepare(&mut self, layer: &mut Layer) -> bool {
        self.of.prepare(layer)
    }

    fn run(&mut self, layer: &mut Layer) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        self.of.round(layer);
        true
    }
}

#[derive(Clone)]
pub(super) struct FileServer {
    pub(super) set: FileSet,
    pub(super) append_bytes: u64,
    /// Where a name is free.
    pub(super) next_directory: u32,
    pub(super) in_rotation: bool,
    /// Once the files are made, if they are taken in rotation.
    pub(super) rotation: Option<Rotation>,
    pub(super) rng: Rng,
}

/// The file that an operation of a file server is done to.
fn picked(server: &mut FileServer, layer: &Layer, picks: Picks) -> FileId {
    match &mut server.rotation {
        Some(rotation) if matches!(picks, Picks::Delete) => rotation.remove(picks as usize),
        Some(rotation) => rotation.take(picks as usize),
        None => {
            let any = layer.pick(server.set.volume, &mut server.rng);
            any.expect("there are as many files as at first")
        }
    }
}

impl Server for FileServer {
    fn prepare(&mut self, layer: &mut Layer) -> bool {
        let is_not_done = self.set.make(layer);
        if !is_not_done {
            self.next_directory = self.set.last_directory();
            if self.in_rotation && self.rotation.is_none() {
                let operations = Picks::Stat as usize + 1;
                let rotation = Rotation::of(layer, self.set.volume, operations, &mut self.rng);
                self.rotation = Some(rotation);
            }
        }
        is_not_done
    }

    fn round(&mut self, layer: &mut Layer) {
        let volume = self.set.volume;
        let made = self.set.create(layer, self.next_directory);
        if let Some(rotation) = &mut self.rotation {
            rotation.put(made);
        }
        let grows = picked(self, layer, Picks::Append);
        layer.append(volume, grows, self.rng.between(1, self.append_bytes));
        let read = picked(self, layer, Picks::Read);
        layer.read_whole(volume, read);
        let goes = picked(self, layer, Picks::Delete);
        self.next_directory = layer.directory(volume, goes);
        layer.delete(volume, goes);
        let asked = picked(self, layer, Picks::Stat);
        layer.stat(volume, asked);
    }
}

#[derive(Clone)]
pub(super) struct WebServer {
    pub(super) set: FileSet,
    pub(super) log: Option<FileId>,
    /// `None`: files are taken in rotation.
    pub(super) popular: Option<Scatter>,
    /// Once the files are made.
    pub(super) rotation: Option<Rotation>,
    pub(super) reads: u64,
    pub(super) append_bytes: u64,
    pub(super) rng: Rng,
}

impl Server for WebServer {
    fn prepare(&mut self, layer: &mut Layer) -> bool {
        if self.set.make(layer) {
            return true;
        }
        if self.log.is_some() {
            return false;
        }
        let (volume, directory) = (self.set.volume, self.set.last_directory());
        self.log = layer.create(volume, directory, 0, false);
        assert!(self.log.is_some(), "a volume has room for one file more");
        if self.popular.is_none() {
            self.rotation = Some(Rotation::of(layer, volume, 1, &mut self.rng));
        }
        true
    }

    fn round(&mut self, layer: &mut Layer) {
        let volume = self.set.volume;
        for _ in 0..self.reads {
            let file = match (&mut self.popular, &mut self.rotation) {
                (Some(popular), _) => layer.listed(volume, popular.draw(&mut self.rng)),
                (None, Some(rotation)) => rotation.take(0),
                (None, None) => unreachable!("files are made before they are read"),
            };
            layer.read_whole(volume, file);
        }
        let log = self.log.expect("it was made with the files");
        layer.append(volume, log, self.rng.between(1, self.append_bytes));
    }
}

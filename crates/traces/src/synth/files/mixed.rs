//! What do a file server and a web server ask for together, with volumes of their own?
//!
//! Source: [LORIS §V]: both workloads as they are, and a dummy set of files that is made behind
//! theirs, so that what tiers keep on the SSD since it is new has to leave it; a volume for each, so
//! that each may have a tier of its own. Volume 0 is the file server's, 1 the web server's, 2 the
//! dummies'. **Guesses:** a round of the one takes turns with a round of the other; there are as many
//! dummies, as large, as the file server has files.

use super::filebench::{FileServer, FileSet, Kinds, ROTATION, Server, WebServer};
use super::layer::Layer;
use super::{ALIGN, APPEND_READS, DIRTY, ORDER, RAM, REQUEST, Script, bytes, count, files};
use crate::synth::Generator;
use crate::synth::scatter::Scatter;

pub(in crate::synth) const MIXED: Generator = Generator {
    name: "mixed-files",
    summary: "a file server and a web server, a volume each, and new files that nobody reads",
    settings: &[
        files("files", "10000", "files of the file server"),
        files("web_files", "25000", "files of the web server"),
        files("dummy_files", "10000", "files that are made last"),
        count("rounds", "12000", "how often: a round of the one, a round of the other"),
        count("reads", "10", "files that the web server reads in a round"),
        bytes("median", "128KiB", "median size of the file server's files and the dummies"),
        bytes("web_median", "32KiB", "median size of the web server's files"),
        bytes("append", "1MiB", "an append of the file server has at most this"),
        bytes("web_append", "16KiB", "an append to the web server's log has at most this"),
        files("width", "20", "files of a directory"),
        RAM,
        DIRTY,
        ALIGN,
        REQUEST,
        APPEND_READS,
        ORDER,
    ],
    build: |settings, mut rng| {
        let mut layer = super::layer(settings)?;
        let whole = |name| u32::try_from(settings.get(name)).expect("settings are bounded");
        let kinds = |files, median| Kinds {
            files: whole(files),
            median_bytes: settings.get(median),
            width: whole("width"),
        };
        let mut set = |files, median, part| {
            FileSet::add(&mut layer, kinds(files, median), 1, rng.split(part))
        };
        let of_files = set("files", "median", 1);
        let of_web = set("web_files", "web_median", 2);
        let dummies = set("dummy_files", "median", 3);
        let mut rng_of_web = rng.split(4);
        let in_rotation = settings.get("order") == ROTATION;
        let popular =
            (!in_rotation).then(|| Scatter::new(settings.get("web_files"), 0, &mut rng_of_web));
        let script = Mixed {
            files: FileServer {
                set: of_files,
                append_bytes: settings.get("append"),
                next_directory: 0,
                in_rotation,
                rotation: None,
                rng: rng.split(5),
            },
            web: WebServer {
                set: of_web,
                log: None,
                popular,
                rotation: None,
                reads: settings.get("reads"),
                append_bytes: settings.get("web_append"),
                rng: rng_of_web,
            },
            dummies,
            rounds: settings.get("rounds"),
        };
        Ok(super::workload(layer, script))
    },
};

#[derive(Clone)]
struct Mixed {
    files: FileServer,
    web: WebServer,
    dummies: FileSet,
    rounds: u64,
}

impl Script for Mixed {
    fn prepare(&mut self, layer: &mut Layer) -> bool {
        self.files.prepare(layer) || self.web.prepare(layer) || self.dummies.make(layer)
    }

    fn run(&mut self, layer: &mut Layer) -> bool {
        if self.rounds == 0 {
            return false;
        }
        self.rounds -= 1;
        self.files.round(layer);
        self.web.round(layer);
        true
    }
}

//! What does a mail server do? Postmark: small files come, grow, are read and go.
//!
//! Source: [LORIS §V]: 80,000 transactions on 40,000 files in 10 subdirectories, 4 to 28 KiB, each a
//! read of a whole file or an append, with a create or a delete; 1 read to 2 writes, no locality.
//! From Postmark 1.5 itself, as far as the paper is silent: each half of a transaction is either with
//! the same chance, files are uniform in size and place, an append writes 1 byte to what is left to
//! the greatest size, and one to a file that has it does nothing.

use super::layer::Layer;
use super::{ALIGN, APPEND_READS, DIRTY, RAM, REQUEST, Script, bytes, count, files};
use crate::synth::settings::Settings;
use crate::synth::{Generator, SynthError};
use tandem_block::Rng;

pub(in crate::synth) const POSTMARK: Generator = Generator {
    name: "postmark",
    summary: "a mail server: 80,000 transactions on 40,000 files of 4 to 28 KiB",
    settings: &[
        files("files", "40000", "how many are made ahead"),
        count("transactions", "80000", "how many"),
        files("directories", "10", "in how many the files are"),
        bytes("smallest", "4KiB", "smallest file"),
        bytes("largest", "28KiB", "largest file"),
        RAM,
        DIRTY,
        ALIGN,
        REQUEST,
        APPEND_READS,
    ],
    build: |settings, rng| {
        let (layer, script) = postmark(settings, rng)?;
        Ok(super::workload(layer, script))
    },
};

fn postmark(settings: &Settings, rng: Rng) -> Result<(Layer, Postmark), SynthError> {
    let mut layer = super::layer(settings)?;
    let (smallest, largest) = (settings.get("smallest"), settings.get("largest"));
    if smallest > largest {
        return settings.contradiction("the smallest file is larger than the largest");
    }
    let whole = |name| u32::try_from(settings.get(name)).expect("settings are bounded");
    let (files, directories) = (whole("files"), whole("directories"));
    // twice as many as there are at first: their number walks by some hundreds
    let files_max = 2 * files + 1024;
    let volume = layer.add_volume(files_max, directories, files_max.div_ceil(directories));
    let script = Postmark {
        volume,
        to_make: files,
        transactions: settings.get("transactions"),
        directories,
        smallest,
        largest,
        rng,
    };
    Ok((layer, script))
}

#[derive(Clone)]
pub(super) struct Postmark {
    volume: u8,
    to_make: u32,
    transactions: u64,
    directories: u32,
    smallest: u64,
    largest: u64,
    rng: Rng,
}

impl Postmark {
    fn create(&mut self, layer: &mut Layer) {
        let directory = self.rng.below(self.directories.into()) as u32;
        let size_bytes = self.rng.between(self.smallest, self.largest);
        // a volume that is full of files takes no more, as a real one does
        let _ = layer.create(self.volume, directory, size_bytes, true);
    }
}

impl Script for Postmark {
    fn prepare(&mut self, layer: &mut Layer) -> bool {
        if self.to_make == 0 {
            return false;
        }
        self.to_make -= 1;
        self.create(layer);
        true
    }

    fn run(&mut self, layer: &mut Layer) -> bool {
        if self.transactions == 0 {
            return false;
        }
        self.transactions -= 1;
        let reads = self.rng.below(2) == 0;
        if let Some(file) = layer.pick(self.volume, &mut self.rng) {
            let left_bytes = self.largest.saturating_sub(layer.size_bytes(self.volume, file));
            if reads {
                layer.read_whole(self.volume, file);
            } else if left_bytes > 0 {
                layer.append(self.volume, file, self.rng.between(1, left_bytes));
            }
        }
        if self.rng.below(2) == 0 {
            self.create(layer);
        } else if let Some(file) = layer.pick(self.volume, &mut self.rng) {
            layer.delete(self.volume, file);
        }
        true
    }
}

/// A small one, to look into.
#[cfg(test)]
pub(super) fn small() -> super::Stream<Postmark> {
    let text = "files=1000,transactions=8000,ram=1MiB";
    let settings = Settings::parse("postmark", POSTMARK.settings, text).expect("settings");
    let (layer, script) = postmark(&settings, Rng::new(1)).expect("they go together");
    super::Stream { layer, script, is_prepared: false }
}

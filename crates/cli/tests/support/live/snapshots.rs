//! Do the snapshots of a run show what they must, and for ever the same?

use super::history::{Look, Shown};
use super::volume::{self, SnapshotTrouble, Volume};
use std::collections::BTreeMap;
use std::path::Path;
use tandem_block::Rng;

/// Sectors between two places at which a snapshot is looked at.
const PIECE: u64 = 512;
/// Snapshots of a volume at most.
const OF_VOLUME_MAX: usize = 3;

/// A snapshot that there should be.
struct Snapshot {
    volume: usize,
    /// What each sector may show. What it has shown once it shows for ever.
    may_show: Vec<Vec<Shown>>,
    /// Whether it is known to be there, or the server was gone before it had said so.
    is_certain: bool,
    /// Its deletion was begun, and the server was gone before it had said so.
    may_be_gone: bool,
}

/// The snapshots of all volumes by their full names, `VOLUME@NAME`.
#[derive(Default)]
pub struct Snapshots {
    all: BTreeMap<String, Snapshot>,
    made: u64,
    /// Asked for, and the server has not said whether they were made: volume, full name, and what is seen
    /// meanwhile.
    pending: Vec<(usize, String, Look)>,
}

/// What was asked of the server and how it answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It did it.
    Done,
    /// It would not.
    Refused,
    /// It was gone before it had answered.
    Cut,
}

impl Snapshots {
    /// A name for a new snapshot of this volume; nothing if it has enough.
    pub fn next_name(&mut self, volume: usize) -> Option<String> {
        let count = self.all.values().filter(|snapshot| snapshot.volume == volume).count();
        self.made += 1;
        (count < OF_VOLUME_MAX).then(|| format!("snapshot-{}", self.made))
    }

    /// One was asked for while `look` was open.
    pub fn made(&mut self, volume: usize, of: &Volume, name: &str, look: Look, answer: Answer) {
        let full = format!("{}@{name}", of.name);
        if answer == Answer::Cut {
            self.pending.push((volume, full, look));
            return;
        }
        if let Some(may_show) = of.end_snapshot(look, answer == Answer::Done) {
            let (is_certain, may_be_gone) = (true, false);
            self.all.insert(full, Snapshot { volume, may_show, is_certain, may_be_gone });
        }
    }

    /// The server is gone, and the volumes have not been told yet: what it had not said it may have done
    /// until now.
    pub fn end_of_server(&mut self, volumes: &[Volume]) {
        for (volume, full, look) in std::mem::take(&mut self.pending) {
            let may_show = volumes[volume].end_snapshot(look, true).unwrap_or_default();
            let (is_certain, may_be_gone) = (false, false);
            self.all.insert(full, Snapshot { volume, may_show, is_certain, may_be_gone });
        }
    }

    /// One that may be deleted: its volume's number and both names.
    pub fn any(&self, rng: &mut Rng) -> Option<String> {
        let index = rng.below(self.all.len().max(1) as u64) as usize;
        self.all.keys().nth(index).cloned()
    }

    /// One was to be deleted.
    pub fn deleted(&mut self, full: &str, answer: Answer) {
        match answer {
            Answer::Done => {
                self.all.remove(full);
            }
            Answer::Cut => {
                if let Some(snapshot) = self.all.get_mut(full) {
                    snapshot.may_be_gone = true;
                }
            }
            Answer::Refused => {}
        }
    }

    /// Looks at some pieces of one snapshot while it is served.
    ///
    /// # Errors
    /// What is wrong. That the server is gone is not.
    pub fn glance(
        &mut self,
        socket: &Path,
        volumes: &[Volume],
        rng: &mut Rng,
        pieces: u64,
    ) -> Result<(), String> {
        let Some(full) = self.any(rng) else { return Ok(()) };
        let snapshot = self.all.get_mut(&full).expect("it was found just now");
        let Ok(mut client) = volume::connect(socket, &full) else { return Ok(()) };
        let of = &volumes[snapshot.volume];
        for _ in 0..pieces {
            let first = rng.below(snapshot.may_show.len() as u64 / PIECE) * PIECE;
            match of.check_snapshot(&mut client, &full, &mut snapshot.may_show, first) {
                Ok(()) => {}
                Err(SnapshotTrouble::Unreadable(_)) => return Ok(()),
                Err(SnapshotTrouble::Wrong(what)) => return Err(what),
            }
        }
        let _ = client.disconnect();
        Ok(())
    }

    /// Looks at all of all snapshots after a start: whatever was said to be there must be, and show what
    /// it must.
    ///
    /// # Errors
    /// What is wrong.
    pub fn verify(&mut self, socket: &Path, volumes: &[Volume]) -> Result<(), String> {
        let mut gone = Vec::new();
        for (full, snapshot) in &mut self.all {
            let mut client = match volume::connect(socket, full) {
                Ok(client) => client,
                Err(_) if !snapshot.is_certain || snapshot.may_be_gone => {
                    gone.push(full.clone());
                    continue;
                }
                Err(why) => return Err(format!("a snapshot is gone: {why}")),
            };
            (snapshot.is_certain, snapshot.may_be_gone) = (true, false);
            for first in (0..snapshot.may_show.len() as u64).step_by(PIECE as usize) {
                let of = &volumes[snapshot.volume];
                of.check_snapshot(&mut client, full, &mut snapshot.may_show, first).map_err(
                    |trouble| match trouble {
                        SnapshotTrouble::Wrong(what) => what,
                        SnapshotTrouble::Unreadable(why) => format!("snapshot {full}: {why}"),
                    },
                )?;
            }
            let _ = client.disconnect();
        }
        for full in gone {
            self.all.remove(&full);
        }
        Ok(())
    }
}

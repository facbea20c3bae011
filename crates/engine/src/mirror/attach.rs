//! Where do mirrors sit in the engine?
//!
//! Behind the device queues: commands to a pair are taken out of what the engine sends to the event loop,
//! and what the mirror makes of them is sent instead. Leg 0 has the pair's own id in the event loop, the
//! second legs come after all devices.

use super::config::PairConfig;
use super::{Ended, Mirror, MirrorSetup, PairError, PairView, owner};
use crate::config::{EngineConfig, Placement};
use crate::config_error::ConfigError;
use crate::format::pair::HEADER_BYTES;
use crate::io::DeviceIo;
use crate::port::{Command, IoId};
use tandem_block::{BLOCK_BYTES, DeviceId, Instant, IoError};

/// A device that is two drives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Which device: an SSD.
    pub device: DeviceId,
    /// How it behaves.
    pub config: PairConfig,
}

impl EngineConfig {
    /// Drives of the event loop: the devices, the second legs of pairs, the journals of pairs, and a
    /// successor.
    pub fn drive_count(&self) -> usize {
        usize::from(self.successor_place().0) + usize::from(self.successor.is_some())
    }

    /// Where the event loop has a successor, or would have one.
    pub(crate) fn successor_place(&self) -> DeviceId {
        let journals = self.pairs.iter().filter(|pair| pair.config.journal.is_some()).count();
        DeviceId((self.devices.len() + self.pairs.len() + journals) as u8)
    }

    /// The drive of the event loop that is the journal of the pair of this number, or would be.
    pub(crate) fn journal_of(&self, pair: usize) -> DeviceId {
        let before = self.pairs[..pair].iter().filter(|pair| pair.config.journal.is_some());
        DeviceId((self.devices.len() + self.pairs.len() + before.count()) as u8)
    }
}

impl EngineConfig {
    /// Can each pair keep what it promises?
    pub(crate) fn check_pairs(&self) -> Result<(), ConfigError> {
        for Pair { device, config } in &self.pairs {
            let promises = self.placement == Placement::Mapped || config.journal.is_some();
            if let Some(why) = config.is_not_durable().filter(|_| promises) {
                return Err(ConfigError::Pair { device: usize::from(device.0), why });
            }
        }
        Ok(())
    }
}

/// What a pair of drives holds, if the smaller one has so many bytes.
pub fn pair_bytes(smaller_bytes: u64, placement: Placement) -> u64 {
    match placement {
        Placement::Fixed => smaller_bytes,
        Placement::Mapped => smaller_bytes.saturating_sub(HEADER_BYTES) / BLOCK_BYTES * BLOCK_BYTES,
    }
}

/// The mirrors of a configuration.
pub(crate) fn mirrors(config: &EngineConfig) -> Vec<Mirror> {
    let mirror = |(index, pair): (usize, &Pair)| {
        let second = DeviceId((config.devices.len() + index) as u8);
        Mirror::new(MirrorSetup {
            config: pair.config.clone(),
            index,
            legs: [pair.device, second],
            capacity_bytes: config.devices[usize::from(pair.device.0)].capacity_bytes,
            journal: config.journal_of(index),
            durable: config.placement == Placement::Mapped,
            contents: config.contents,
            format: config.format,
        })
    };
    config.pairs.iter().enumerate().map(mirror).collect()
}

/// The mirrored pairs of a pool.
#[derive(Clone, Debug)]
pub(crate) struct Pairs {
    mirrors: Vec<Mirror>,
    /// How many are not ready yet.
    opening: usize,
    /// How many have not stopped yet, since the engine has.
    stopping: Option<usize>,
}

impl Pairs {
    /// As they are configured.
    pub(crate) fn of(config: &EngineConfig) -> Self {
        Pairs { mirrors: super::mirrors(config), opening: 0, stopping: None }
    }

    /// Has the pool none?
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.mirrors.is_empty()
    }

    /// From now on what is read is read for users.
    pub(crate) fn engine_runs(&mut self, io: &DeviceIo) {
        assert_eq!(self.mirrors.len(), io.config().pairs.len(), "each pair has its mirror");
        for (mirror, pair) in self.mirrors.iter_mut().zip(&io.config().pairs) {
            let layout = &io[pair.device].layout;
            let bytes = layout.slot_count * BLOCK_BYTES;
            mirror.engine_runs((layout.slot_offset, layout.slot_offset + bytes));
        }
    }

    /// What is under way, in words.
    pub(crate) fn debug_state(&self) -> Vec<String> {
        self.mirrors.iter().map(Mirror::debug_state).collect()
    }

    /// Breaks a rule from now on; `None` mends it.
    #[cfg(feature = "mutants")]
    pub(crate) fn set_mutant(&mut self, mutant: Option<crate::mutant::Mutant>) {
        self.mirrors.iter_mut().for_each(|mirror| mirror.set_mutant(mutant));
    }

    /// The pairs, as seen from outside.
    pub(crate) fn pairs(&self) -> Vec<PairView> {
        self.mirrors.iter().map(Mirror::view).collect()
    }

    /// Of each pair: bytes that were acknowledged and are in RAM alone ([IANUS §5.2], "data loss"). Counted
    /// when asked, over everything in the cache.
    pub(crate) fn pairs_risk_bytes(&self) -> Vec<u64> {
        self.mirrors.iter().map(Mirror::risked_bytes).collect()
    }

    /// Starts the pairs; the engine itself starts when they are ready.
    pub(crate) fn start_mirrors(&mut self, io: &mut DeviceIo) {
        let now = io.now();
        for mirror in &mut self.mirrors {
            mirror.start(now, io.out_mut());
        }
        self.opening = self.mirrors.len();
    }

    /// What can go on now does. Returns the commands to pairs that have ended.
    pub(crate) fn advance(&mut self, io: &mut DeviceIo) -> Vec<Ended> {
        let mut ended = Vec::new();
        for mirror in &mut self.mirrors {
            mirror.advance(io.now(), io.out_mut());
            ended.append(&mut mirror.take_ended());
        }
        ended
    }

    /// Are all ready since just now?
    ///
    /// # Errors
    /// Why one of them cannot serve.
    pub(crate) fn take_opened(&mut self) -> Result<bool, PairError> {
        let mut opened = false;
        for started in self.mirrors.iter_mut().filter_map(Mirror::take_started) {
            started?;
            assert!(self.opening > 0, "each pair is ready once");
            self.opening -= 1;
            opened |= self.opening == 0;
        }
        Ok(opened)
    }

    /// When a pair is to be asked again.
    pub(crate) fn due(&self) -> Instant {
        self.mirrors.iter().map(Mirror::due).min().unwrap_or(Instant::NEVER)
    }

    /// A command of a mirror is done.
    pub(crate) fn leg_completed(
        &mut self,
        id: IoId,
        status: Result<(), IoError>,
        checksums: &[u32],
        bytes: &[u8],
        io: &mut DeviceIo,
    ) {
        let index = owner(id).expect("the caller looked");
        let mirror = &mut self.mirrors[index];
        mirror.completed(io.now(), id, status, (checksums, bytes), io.out_mut());
    }

    /// Commands to pairs go to their mirrors.
    pub(crate) fn route(&mut self, io: &mut DeviceIo) {
        let commands = std::mem::take(io.out_mut());
        let mut out = Vec::with_capacity(commands.len());
        for command in commands {
            match command {
                Command::Submit(sent) if owner(sent.id).is_none() => {
                    let pairs = &io.config().pairs;
                    match pairs.iter().position(|pair| pair.device == sent.device) {
                        Some(index) => self.mirrors[index].submit(io.now(), sent, &mut out),
                        None => out.push(Command::Submit(sent)),
                    }
                }
                Command::Stopped if self.stopping.is_none() => {
                    self.stopping = Some(self.mirrors.len());
                    self.mirrors.iter_mut().for_each(Mirror::stop);
                }
                other => out.push(other),
            }
        }
        *io.out_mut() = out;
    }

    /// The engine has stopped when its pairs have.
    pub(crate) fn stop_after_mirrors(&mut self, io: &mut DeviceIo) {
        if self.stopping.is_some_and(|left| left > 0)
            && self.mirrors.iter().all(Mirror::has_stopped)
        {
            self.stopping = Some(0);
            io.send(Command::Stopped);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirror::{JournalConfig, RoleRule};

    /// What would not survive a power cut is refused where something is promised, and told by name.
    #[test]
    fn a_pair_that_could_not_keep_its_promise_is_refused() {
        let usual = PairConfig::default;
        let alike = PairConfig { role_rule: RoleRule::Alike, ..usual() };
        let unflushed = PairConfig { settles: false, ..usual() };
        let journaled = PairConfig { journal: Some(JournalConfig::default()), ..unflushed.clone() };
        for (config, placement, refused) in [
            (usual(), Placement::Mapped, None),
            (alike.clone(), Placement::Mapped, Some("no roles")),
            (alike, Placement::Fixed, None),
            (unflushed.clone(), Placement::Mapped, Some("not flushed")),
            (unflushed, Placement::Fixed, None),
            (journaled, Placement::Fixed, Some("not flushed")),
        ] {
            let pairs = vec![Pair { device: DeviceId(3), config }];
            let config =
                EngineConfig { placement, pairs, ..EngineConfig::with_drives(vec![], vec![]) };
            let told = config.check_pairs().map_err(|why| why.to_string()).err();
            assert_eq!(told.is_some(), refused.is_some(), "{placement:?}: {told:?}");
            if let (Some(told), Some(word)) = (told, refused) {
                assert!(told.starts_with("device 3 is a pair") && told.contains(word), "{told}");
            }
        }
    }
}

//! Who has to know before a drive comes or goes?
//!
//! Superblocks are written in rounds, each under the next generation. Before the one that makes a drive
//! gone, it is no metadata home any more, and nothing is under way with it: its metadata may then be
//! behind, as that of an SSD that died, and a start that finds it a member still takes what is newest.

mod steps;

use super::{Drain, Ending, Stage, Step};
use crate::StartError;
use crate::device::Service;
use crate::drain::Evacuation;
use crate::format::superblock::{Numbered, Standing, Superblock};
use crate::io::{DeviceIo, Phase};
use crate::map::Map;
use crate::map::objects::Objects;
use crate::metadata::MetadataHomes;
use crate::migration::moves::Moves;
use crate::port::Command;
use crate::store::commit::Commit;
use crate::tiering::Tiers;
use tandem_block::{DeviceId, Instant, IoError};

impl Evacuation {
    /// At the start: what every member is, as the newest superblocks say. Who was removed is not asked for
    /// anything, also if the configuration lists it still.
    pub(crate) fn take_standings(
        &self,
        found: &mut [(Option<Superblock>, bool)],
        metadata: &mut MetadataHomes,
        io: &mut DeviceIo,
    ) -> Result<(), StartError> {
        let newest = found.iter().filter_map(|(s, _)| s.as_ref()).max_by_key(|s| s.generation);
        let Some(newest) = newest else { return Ok(()) };
        let (pool, members) = (newest.pool, newest.members.clone());
        io.config_mut().has_metadata_replica = newest.has_metadata_replica;
        metadata.take_lagging(newest.lagging, io);
        let (generation, newest) = (newest.generation, newest.standings.clone());
        // who is further behind may be the drive that was removed, and another one has its place now
        let knows = |s: &&Superblock| s.pool == pool && s.generation + 1 >= generation;
        for index in 0..found.len().min(newest.len()) {
            let of_pool = found.iter().filter_map(|(s, _)| s.as_ref()).filter(knows);
            let mut told = of_pool.filter_map(|s| s.standings.get(index)).copied();
            let gone = told.find(|standing| matches!(standing, Standing::Gone(_)));
            let device = DeviceId(index as u8);
            let is_listed = !io.config().gone.contains(&device);
            io[device].standing = gone.unwrap_or(newest[index]);
            match gone {
                // a successor may have taken the place already, which is found out next
                None => {}
                // slots and homes are numbered by role
                Some(_) if members[index].role != io[device].config.role => {
                    return Err(StartError::WrongPlace { device: index, place: index });
                }
                Some(_) => {
                    found[index] = (None, false);
                    io[device].service = Service::Out(IoError::Dead(device));
                    if is_listed {
                        io.note_gone(device, true);
                        io.send(Command::Close { device });
                    }
                }
            }
        }
        Ok(())
    }

    /// Nobody is gone because the configuration says so.
    ///
    /// # Errors
    /// The drive that the pool has.
    pub(crate) fn check_gone(
        &self,
        found: &[(Option<Superblock>, bool)],
        io: &DeviceIo,
    ) -> Result<(), StartError> {
        // more entries than members are another mistake, with words of its own
        let members = found.iter().filter_map(|(s, _)| Some(s.as_ref()?.members.len())).max();
        let is_there = |id: &&DeviceId| {
            let index = usize::from(id.0);
            Some(index) < members && !io[**id].is_gone()
        };
        let found = io.config().gone.iter().find(is_there);
        found.map_or(Ok(()), |id| Err(StartError::NotGone { device: usize::from(id.0) }))
    }

    /// No record names a place on a drive that is gone.
    ///
    /// # Errors
    /// Words, if one does.
    pub(crate) fn look_at_gone(
        &self,
        map: &Map,
        objects: &mut Objects,
        io: &DeviceIo,
    ) -> Result<(), String> {
        for device in io.drives().iter().filter(|device| device.is_gone()) {
            let bytes = self.lies_on(device.id, map, objects, io);
            let is_nobodys = device.is_ssd() || objects.leave_out(io.home_places(device.id));
            if bytes > 0 || !is_nobodys {
                return Err(format!(
                    "the map names {bytes} bytes on device {}, which was removed",
                    device.id.0
                ));
            }
        }
        Ok(())
    }

    /// At the start, when it is known who is what and where everything lies.
    pub(crate) fn go_on_draining(
        &mut self,
        metadata: &MetadataHomes,
        map: &mut Map,
        objects: &Objects,
        io: &DeviceIo,
    ) {
        for device in io.drives().ids() {
            let standing = io[device].standing;
            if standing == Standing::Serves {
                continue;
            }
            if let Some(ssd) = io.ssds().iter().position(|&id| id == device) {
                map.close_ssd(ssd, true);
            }
            if standing == Standing::Drains && io.config().drains && !metadata.is_degraded() {
                let bytes = self.lies_on(device, map, objects, io);
                self.current = Some(Box::new(Drain::new(device, Stage::Moving, bytes, io.now())));
            }
        }
    }

    /// The drain goes on. Where it begins, is cancelled, or becomes a removal, others say so.
    fn set_drain_stage(&mut self, stage: Stage) {
        let drain = self.current.as_deref_mut().expect("asked while there is one");
        let follows = match (drain.stage, stage) {
            (Stage::Announcing { begun }, Stage::Announcing { begun: then }) => !begun && then,
            (Stage::Announcing { begun }, Stage::Moving) => begun,
            (Stage::Voiding { begun }, Stage::Voiding { begun: then }) => !begun && then,
            (Stage::Removing(before), Stage::Removing(after)) => {
                matches!(
                    (before, after),
                    (Step::Announced, Step::Quiet)
                        | (Step::Quiet, Step::Others)
                        | (Step::Others, Step::Own)
                )
            }
            _ => false,
        };
        assert!(follows, "a drain goes on step by step");
        drain.stage = stage;
    }

    /// A drive on which nothing lies is removed. Both copies of a round say the same: one that tells that it
    /// drains ends first.
    pub(crate) fn begin_removal(&mut self, io: &mut DeviceIo) {
        let drain = self.current.as_deref_mut().expect("asked by the caller");
        assert!(
            drain.moves() && drain.drained.is_some(),
            "a drive is removed when nothing lies on it"
        );
        if drain.stage == (Stage::Announcing { begun: true }) {
            drain.stage = Stage::Removing(Step::Announced);
        } else {
            drain.stage = Stage::Removing(Step::Quiet);
            self.make_gone(io);
        }
    }

    fn make_gone(&self, io: &mut DeviceIo) {
        let drain = self.current.as_deref().expect("asked while there is one");
        assert!(drain.stage == Stage::Removing(Step::Quiet), "it is gone before it is left alone");
        let d = &mut io[drain.device];
        assert!(d.standing == Standing::Drains, "a drive drains before it is gone");
        d.standing = Standing::Gone(Numbered::of(&d.layout));
        // it is no metadata home from now on: what is under way with it ends
    }

    /// Is a round of superblocks under way that is a drain's?
    pub(crate) fn round_is_drains(&self, io: &DeviceIo) -> bool {
        let running = io.is_serving();
        running
            && self.current.as_deref().is_some_and(|drain| {
                matches!(
                    drain.stage,
                    Stage::Announcing { begun: true }
                        | Stage::Voiding { .. }
                        | Stage::Removing(Step::Announced | Step::Others | Step::Own)
                )
            })
    }

    /// Does the round go to the drive that leaves, and to nobody else?
    pub(crate) fn round_is_for(&self, device: DeviceId) -> Option<bool> {
        let drain = self.current.as_deref()?;
        let is_own = drain.stage == Stage::Removing(Step::Own);
        is_own.then_some(drain.device == device)
    }

    fn end_drain(&mut self, why: Ending, map: &Map, objects: &Objects, io: &DeviceIo) {
        let drain = self.current.take().expect("asked while there is one");
        let view = self.view_drain(&drain, map, objects, io);
        let ended = Some((io.now(), why));
        self.ended = Some(super::DrainView { ended, stage: "ended", ..view });
    }

    /// Is nothing of it under way that a clean stop would cut?
    pub(crate) fn drain_is_quiet(&self) -> bool {
        self.current.as_deref().is_none_or(|drain| drain.stage == Stage::Moving)
    }

    /// What a drive is from now on, to everybody who asks.
    pub(crate) fn set_standing(
        &mut self,
        device: DeviceId,
        standing: Standing,
        map: &mut Map,
        objects: &mut Objects,
        tiers: &mut Tiers,
        io: &mut DeviceIo,
    ) {
        assert!(!io[device].is_gone(), "a drive that is gone stays so");
        io[device].standing = standing;
        if let Some(ssd) = io.ssds().iter().position(|&id| id == device) {
            map.close_ssd(ssd, standing != Standing::Serves);
            objects.fit_objects(io);
            tiers.share_anew();
        } else if standing == Standing::Serves {
            self.vacate_no_more(objects);
        } else {
            self.evacuate(device, objects, io);
        }
    }

    /// At the start, when it is known which blocks nobody has.
    pub(crate) fn go_on_evacuating(&self, objects: &mut Objects, io: &DeviceIo) {
        objects.fit_objects(io);
        let Some(device) = self.current.as_deref().map(|drain| drain.device) else {
            return;
        };
        if !io[device].is_ssd() {
            self.evacuate(device, objects, io);
        }
    }

    fn leave_if_quiet(
        &mut self,
        device: DeviceId,
        metadata: &mut MetadataHomes,
        io: &mut DeviceIo,
    ) {
        let d = &mut io[device];
        if d.queue.in_flight() > 0 || d.has_waiting() {
            return;
        }
        assert!(d.is_gone(), "the pool does not count on a drive that leaves");
        assert!(d.tail.items.is_empty() && d.flushing.is_none(), "nothing of its log is volatile");
        (d.dirty, d.service) = (false, Service::Out(IoError::Dead(device)));
        self.set_drain_stage(Stage::Removing(Step::Others));
        metadata.ask_for_superblocks(false, io);
    }

    /// When a drain wants to be asked again, although nothing happens.
    pub(crate) fn drain_due(&self, commit: &Commit, moves: &Moves, io: &DeviceIo) -> Instant {
        let serves = (io.phase() == Phase::Running) && !commit.is_broken();
        let drain = self.current.as_deref().filter(|drain| serves && drain.moves());
        let drain = drain.filter(|drain| drain.drained.is_none() && moves.is_idle());
        drain.map_or(Instant::NEVER, |drain| drain.looks_at.max(drain.rests_until))
    }

    /// What of a drain is possible now, beside moves.
    pub(crate) fn run_drain(
        &mut self,
        map: &mut Map,
        objects: &mut Objects,
        commit: &Commit,
        tiers: &mut Tiers,
        metadata: &mut MetadataHomes,
        io: &mut DeviceIo,
    ) {
        let Some(drain) = self.current.as_deref() else { return };
        let (device, stage) = (drain.device, drain.stage);
        let no_round = !metadata.writes_superblocks();
        match stage {
            Stage::Announcing { begun: false } if no_round => {
                self.set_drain_stage(Stage::Announcing { begun: true });
                metadata.ask_for_superblocks(false, io);
            }
            Stage::Voiding { begun: false } if no_round => {
                self.set_drain_stage(Stage::Voiding { begun: true });
                metadata.ask_for_superblocks(false, io);
            }
            Stage::Removing(Step::Quiet) if no_round => self.leave_if_quiet(device, metadata, io),
            _ => {}
        }
        let d = &io[device];
        let failed = d.is_faulted() && !d.is_gone();
        let Some(drain) = self.current.as_deref() else { return };
        if !drain.moves() {
            return;
        }
        if !failed && io.others_like(device) == 0 {
            // the others have died meanwhile: it is needed again
            self.cancel_drain(map, objects, tiers, io).expect("it moves");
            return;
        }
        let is_over = self.is_drained(device, map, objects, commit, metadata, io);
        let now = io.now();
        if failed && !is_over {
            if metadata.writes_superblocks() {
                return; // a round belongs to the drain until it is over
            }
            // what lies there is lost, as if it had never been drained
            self.vacate_no_more(objects);
            self.end_drain(Ending::Failed, map, objects, io);
            return;
        }
        let drain = self.current.as_deref_mut().expect("asked above");
        if is_over != drain.drained.is_some() {
            drain.drained = is_over.then_some(now);
        }
    }
}

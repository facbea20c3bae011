//! How does a drive take a place that is empty?
//!
//! Requirement: pool life. A drive that was removed leaves its number behind, and its part of the
//! numberings of slots and homes, on which nothing lies. So nothing has to be copied to a hard drive; an
//! SSD is a home of the metadata, which comes from another SSD:
//!
//! ```text
//! marks ─▶ superblocks name it ─▶ the other SSD's metadata is copied, and what is written there meanwhile
//! goes to both ─▶ flushed ─▶ its superblock: THE MOMENT ─▶ the other members' ─▶ SEATED: it is used
//! ```
//! It may be a member from that moment on, since it gets all metadata that others get: first as the double
//! of the other SSD, then, when all know of it, as a home of its own. Nobody waits while that changes: what
//! is sent to it before the last double has ended waits for that (`land`).

use super::copy::Plan;
use super::{DriveCopy, Ending, Flight, ReplaceError, ReplacementView, Stage, Step};
use crate::bcw::controller::Controller;
use crate::device::{Device, Service};
use crate::format::layout::{Layout, SUPERBLOCK_BYTES};
use crate::format::superblock::Standing;
use crate::io::DeviceIo;
use crate::log::Log;
use crate::metadata::MetadataHomes;
use crate::policy::Policy;
use crate::port::Command;
use crate::replacement::Replacement;
use crate::replicas::Replicas;
use crate::store::Store;
use crate::volumes::Volumes;
use tandem_block::{BLOCK_BYTES, DeviceId, IoError};

/// What a drive needs that shall take an empty place.
struct Joining {
    /// Where its metadata comes from; itself, if it gets none.
    source: DeviceId,
    plan: Plan,
    layout: Layout,
}

impl DriveCopy {
    /// Is everything on a drive that joins, except what is written to both at present?
    pub(super) fn is_copied(&self) -> bool {
        let is_double = |flight: &Flight| matches!(flight, Flight::Double(_));
        self.pieces.claimed().is_none()
            && self.early.is_empty()
            && self.flights.iter().all(|(_, flight)| is_double(flight))
    }
}

impl Replacement {
    /// Could a drive of so many bytes take this empty place?
    pub(super) fn can_join(
        &self,
        bay: DeviceId,
        capacity_bytes: u64,
        metadata: &MetadataHomes,
        io: &DeviceIo,
    ) -> Result<(), ReplaceError> {
        let place = &io[bay];
        if place.is_ssd() && io.config().qos.promises() {
            return Err(ReplaceError::Promised);
        }
        self.joining(bay, metadata, io)?;
        let wanted = self.join_bytes(bay, metadata, io);
        if capacity_bytes < wanted {
            return Err(ReplaceError::TooSmall { found: capacity_bytes, wanted });
        }
        Ok(())
    }

    /// Of a place that is empty: how many bytes a drive needs for it, and how many are copied to it.
    pub(crate) fn empty_place(
        &self,
        bay: DeviceId,
        metadata: &MetadataHomes,
        io: &DeviceIo,
    ) -> Option<(u64, u64)> {
        let place = io.drives().get(bay).filter(|place| place.is_gone())?;
        let joining = self.joining(place.id, metadata, io).ok()?;
        Some((self.join_bytes(bay, metadata, io), joining.plan.total_bytes()))
    }

    /// Bytes that a drive needs for this empty place.
    fn join_bytes(&self, bay: DeviceId, metadata: &MetadataHomes, io: &DeviceIo) -> u64 {
        let place = &io[bay];
        let layout =
            self.joining(bay, metadata, io).map(|joining| joining.layout).unwrap_or_default();
        let homes_end = layout.home_offset + layout.home_blocks * BLOCK_BYTES;
        let slots_end = layout.slot_offset + layout.slot_count * BLOCK_BYTES;
        place.config.capacity_bytes.max(homes_end.max(slots_end) + SUPERBLOCK_BYTES)
    }

    fn joining(
        &self,
        bay: DeviceId,
        metadata: &MetadataHomes,
        io: &DeviceIo,
    ) -> Result<Joining, ReplaceError> {
        let place = &io[bay];
        let Standing::Gone(numbered) = place.standing else {
            return Err(ReplaceError::NotNow("has a drive there"));
        };
        let homes = metadata.metadata_homes(io);
        let like = homes.first().map(|id| io[*id].layout);
        let like = like.ok_or(ReplaceError::NotNow("has lost its metadata"))?;
        if !place.is_ssd() {
            // metadata lies where it does on all others, and none is kept there
            let home_offset = like.root_offset + 2 * like.root_bytes;
            let layout = Layout {
                area_offset: 0,
                area_pages: 0,
                table_offset: 0,
                table_bytes: 0,
                home_offset,
                slot_offset: home_offset + numbered.home_blocks * BLOCK_BYTES,
                home_first: numbered.home_first,
                home_blocks: numbered.home_blocks,
                slot_count: numbered.slot_count,
                ..like
            };
            let plan = Plan::of_metadata(SUPERBLOCK_BYTES, place.config.capacity_bytes);
            return Ok(Joining { source: bay, plan, layout });
        }
        let is_single = |id: &DeviceId| !io[*id].is_pair;
        let source = homes.into_iter().find(is_single).ok_or(ReplaceError::NotNow(
            "keeps its metadata on mirrored pairs alone, from which it is not copied yet",
        ))?;
        let of_source = &io[source];
        let layout = Layout { slot_count: numbered.slot_count, ..of_source.layout };
        let plan = Plan::of_metadata(layout.slot_offset, of_source.config.capacity_bytes);
        Ok(Joining { source, plan, layout })
    }

    /// What is copied to a drive that joins, and from where.
    pub(super) fn plan_join(
        &self,
        h: &mut DriveCopy,
        metadata: &MetadataHomes,
        io: &mut DeviceIo,
    ) -> Result<(), ReplaceError> {
        let Joining { source, plan, layout } = self.joining(h.bay, metadata, io)?;
        assert!(
            source != h.bay || plan.total_bytes() == 0,
            "nothing is copied to a drive that gets no metadata"
        );
        (h.joins, h.device, h.plan) = (true, source, plan);
        // a copy of metadata is made anew in every life
        (h.copied_bytes, h.marked_bytes) = (0, 0);
        io[h.bay].layout = layout;
        Ok(())
    }

    /// What the superblocks say of a drive.
    pub(crate) fn standing_of(&self, device: &Device) -> Standing {
        let takes_it = |h: &&DriveCopy| {
            let is_told = matches!(h.stage, Stage::Switching(Step::Own(_) | Step::Others));
            h.joins && h.bay == device.id && is_told
        };
        match self.current.as_deref().filter(takes_it) {
            Some(_) => Standing::Serves,
            None => device.standing,
        }
    }

    /// The last command that went to it in another way has ended: it is where it belongs.
    pub(super) fn land(&mut self, metadata: &mut MetadataHomes, io: &mut DeviceIo) {
        let h = self.current.as_deref().expect("asked while there is one");
        assert!(h.joins && h.stage == Stage::Landing, "who has taken an empty place lands there");
        if !h.flights.is_empty() {
            return;
        }
        h.assert_nothing_kept();
        let h = self.current.take().expect("asked above");
        assert!(h.pieces.claimed().is_none(), "nothing is copied any more");
        self.withhold(io);
        io.note_successor(None);
        io.send(Command::Succeed { device: h.bay });
        let ended = Some((io.now(), Ending::Finished));
        self.ended = Some(ReplacementView { ended, stage: "ended", ..h.view() });
        io.send_all(h.held.into_iter().map(Command::Submit));
        if h.is_lost {
            // it missed something that the others have: as any that fails
            metadata.fault(h.bay, IoError::Device(h.bay), io);
        }
    }
}

impl Replicas {
    /// Every member knows of the drive that joins: it is used from now on.
    pub(super) fn take_bay(
        &mut self,
        store: &mut Store,
        volumes: &mut Volumes,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        let h = self.replacement.current.as_deref_mut().expect("asked while there is one");
        assert!(
            h.joins && h.stage == Stage::Switching(Step::Others),
            "a place is taken when every member knows of it"
        );
        h.stage = Stage::Landing;
        let (bay, drive_bytes) = (h.bay, h.drive_bytes);
        self.replacement.withhold(io);
        let d = &mut io[bay];
        assert!(d.is_gone(), "only a place that is empty is taken");
        assert!(d.queue.in_flight() == 0 && !d.has_waiting(), "nobody asks a place that is empty");
        assert!(d.tail.items.is_empty() && d.flushing.is_none(), "it was left in order");
        (d.service, d.dirty, d.flush_wanted) = (Service::Full, false, false);
        (d.standing, d.drive_bytes) = (Standing::Serves, drive_bytes);
        let (layout, is_ssd) = (d.layout, d.is_ssd());
        io.note_gone(bay, false);
        let region = store.map.bay_region(bay, layout.slot_offset);
        if is_ssd {
            let ssd = io.ssds().iter().position(|&id| id == bay).expect("an SSD");
            store.map.close_ssd(ssd, false);
            volumes.objects.fit_objects(io);
            policy.tiers.share_anew();
        } else {
            let segment_slots = io.config().log_segment_bytes / BLOCK_BYTES;
            let bcw = store.controller_of(bay, policy, io);
            // who was alone is not any more
            io.drives_mut()
                .iter_mut()
                .filter_map(|d| d.bcw.as_mut())
                .for_each(Controller::join_others);
            let d = &mut io[bay];
            (d.log, d.bcw) = (Some(Log::new(region, segment_slots)), bcw);
            let places = io.home_places(bay);
            volumes.objects.come_back(places);
        }
    }
}

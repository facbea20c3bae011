//! What is a place that no drive was in yet?
//!
//! Requirement: pool life. A pool is laid out for all drives that it shall ever have: slots and homes are
//! numbered through all of them, and the areas for the map are sized for all. A place that is empty at birth
//! is laid out like the others, for a drive of the size that the configuration gives; then it is what a
//! drive leaves that was removed, so whatever holds for that holds for it, and it is filled in the same way
//! (`join`).

use crate::config::{EngineConfig, Role};
use crate::config_error::ConfigError;
use crate::format::layout::{self, Layout};
use crate::format::superblock::Numbered;
use crate::io::DeviceIo;
use crate::migration::Migration;
use crate::store::Store;
use crate::volumes::Volumes;
use tandem_block::DeviceId;

impl EngineConfig {
    /// Lays out a fresh pool with all its places; of those that are empty it says what is numbered.
    ///
    /// # Errors
    /// If a drive is too small, the set too large, or nothing could ever come to an empty place.
    pub fn lay_out_places(&mut self) -> Result<Vec<Layout>, ConfigError> {
        for index in 0..self.devices.len() {
            if let Some(why) = self.why_never_filled(index) {
                return Err(ConfigError::EmptyPlace { device: index, why });
            }
        }
        // an SSD that comes is one more home of the metadata; until then there is the second one
        let ssds = self.present().filter(|(_, device)| device.role == Role::Ssd).count();
        self.has_metadata_replica = ssds == 1 && self.with_role(Role::Ssd).count() > 1;
        let mut all_there = self.clone();
        all_there.gone.clear();
        let mut layouts = layout::plan(&all_there)?;
        for id in &self.gone {
            let layout = &mut layouts[usize::from(id.0)];
            *layout = Numbered::of(layout).layout();
        }
        Ok(layouts)
    }

    /// Before the drives have said how they are laid out: one that has room for their areas is not too small.
    pub(crate) fn with_least_areas(&self) -> EngineConfig {
        let mut least = self.clone();
        least.areas.map_pages = Some(0);
        least
    }

    fn why_never_filled(&self, index: usize) -> Option<&'static str> {
        let is_gone = |index: usize| self.gone.contains(&DeviceId(index as u8));
        if !is_gone(index) {
            return None;
        }
        let is_pair = |index: usize| self.pairs.iter().any(|p| usize::from(p.device.0) == index);
        if is_pair(index) {
            return Some("a mirrored pair is there from the format on, or never");
        }
        let role = self.devices[index].role;
        let is_like = |other: &usize| self.devices[*other].role == role && !is_gone(*other);
        if !(0..index).any(|other| is_like(&other)) {
            return Some(
                "the first drive of its role has to be there when the pool is formatted; list the place \
                 behind it",
            );
        }
        if (index + 1..self.devices.len()).any(|other| is_like(&other)) {
            return Some(
                "list it behind all drives of its role: the room of those that are there is in one piece then, \
                 as volumes need it",
            );
        }
        let mut ssds = (0..self.devices.len()).filter(|other| is_like(other));
        if role == Role::Ssd && ssds.all(is_pair) {
            return Some(
                "an SSD that comes gets its metadata from another one, and all others are mirrored \
                 pairs, from which it is not copied yet",
            );
        }
        None
    }
}

impl Migration {
    /// Nothing goes to the places of a fresh pool that are empty.
    pub(crate) fn leave_places_empty(
        &mut self,
        store: &mut Store,
        volumes: &mut Volumes,
        io: &DeviceIo,
    ) {
        if io.config().format {
            self.evacuation.go_on_draining(&store.metadata, &mut store.map, &volumes.objects, io);
            self.evacuation
                .look_at_gone(&store.map, &mut volumes.objects, io)
                .expect("nothing lies in a fresh pool");
            volumes.objects.fit_objects(io);
        }
    }
}

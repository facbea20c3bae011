//! What is there to see of an engine from outside?

use crate::device::Device;
use crate::engine::Engine;
use crate::map::Map;
use crate::map::objects::Objects;
use crate::mirror::Mirror;
use crate::qos::delivery::Client;
use crate::stats::EngineStats;
use tandem_block::Instant;

impl Engine {
    /// May the world hand in another request?
    pub fn can_accept(&self) -> bool {
        self.tasks.len() < self.config.requests_max as usize
    }

    /// Counters so far.
    pub fn stats(&self) -> &EngineStats {
        &self.stats
    }

    /// The map, to look at.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// Objects by id.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// The drives, to look at.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// What every stream was given until `now`, in the order of the configuration; the last is
    /// everything else. `None` where nobody is told apart.
    pub fn clients(&self, now: Instant) -> Option<Vec<Client>> {
        self.clients.as_ref().map(|clients| clients.list_at(now))
    }

    /// Drives of the world: the devices, and the second twins of pairs.
    pub fn drive_count(&self) -> usize {
        self.config.drive_count()
    }

    /// What is under way, in words: for a person who looks at an engine that does not move on.
    pub fn debug_state(&self) -> String {
        let devices: Vec<String> = self
            .devices
            .iter()
            .map(|d| {
                format!(
                    "device {} in_flight {} queue {} tail {:?} flushing {:?} wanted {} faulted {} homes {} bcw {:?} awaits {}",
                    d.id.0,
                    d.in_flight,
                    d.queue_length,
                    d.tail.items.iter().take(4).collect::<Vec<_>>(),
                    d.flushing,
                    d.flush_wanted,
                    d.faulted,
                    d.home_writes,
                    d.bcw.as_ref().map(|bcw| bcw.state()),
                    self.map.awaits_hdd(d.id),
                )
            })
            .collect();
        let pairs: Vec<String> = self.mirrors.iter().map(Mirror::debug_state).collect();
        format!(
            "phase {:?} tasks {} ios {} pending {} ready {} ssd {} starved {} free {}/{} population {:?}\n{}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{}",
            std::mem::discriminant(&self.phase),
            self.tasks.len(),
            self.ios.len(),
            self.map.pending_blocks(),
            self.map.has_ready(),
            self.map.awaits_ssd(),
            self.starved,
            self.map.ssd_free(),
            self.map.ssd_slots(),
            self.map.population(),
            devices.join("\n"),
            self.commit,
            self.moves,
            self.checkpoint,
            self.follower,
            self.stats,
            pairs.join("\n"),
        )
    }

    /// Is nothing under way: no request, no device command?
    pub fn is_idle(&self) -> bool {
        self.tasks.is_empty() && self.ios.is_empty()
    }
}

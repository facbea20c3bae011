//! Drives for the tests of owners: no event loop, and nothing under way.

use super::DeviceIo;
use crate::config::{DeviceConfig, EngineConfig, Role, WriteCache};
use crate::device::Device;
use crate::format::layout;
use crate::port::Command;
use crate::profile::SsdProfile;
use tandem_block::{DeviceId, GIB, Instant};

/// Drives of 1 GiB with volatile caches: the SSDs first.
pub(crate) fn drives(ssds: usize, hdds: usize) -> DeviceIo {
    let role = |index| if index < ssds { Role::Ssd } else { Role::Hdd };
    let device = |index| DeviceConfig {
        role: role(index),
        capacity_bytes: GIB,
        write_cache: WriteCache::Volatile,
        depth: 32,
        uuid: index as u128,
        hdd_profile: None,
        ssd_profile: SsdProfile::default(),
    };
    let config = EngineConfig::with_drives((0..ssds + hdds).map(device).collect(), Vec::new());
    let layouts = layout::plan(&config).expect("these drives can be laid out");
    let devices = config.devices.iter().cloned().zip(layouts).enumerate();
    let devices =
        devices.map(|(id, (device, layout))| Device::new(DeviceId(id as u8), device, layout));
    let devices: Vec<Device> = devices.collect();
    let mut io = DeviceIo::new(config, devices);
    io.stats_mut().devices = vec![Default::default(); ssds + hdds];
    io.stats_mut().queue_length_max = vec![0; ssds + hdds];
    io
}

impl DeviceIo {
    /// An event at `now`; returns what the event loop was told since the event before.
    pub(crate) fn next_event(&mut self, now: Instant) -> Vec<Command> {
        let told = std::mem::take(&mut self.out);
        self.begin_event(now, &mut Vec::new());
        told
    }
}

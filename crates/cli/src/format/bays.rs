//! What do the bays cost that a new pool keeps empty?

use crate::report::table::bytes as shown;
use serde::Serialize;
use tandem_block::{BLOCK_BYTES, DeviceId};
use tandem_engine::{Engine, EngineConfig, metadata_memory_default_bytes};

/// What a pool would have more without them.
#[derive(Debug, Serialize)]
pub(super) struct Cost {
    /// How many there are.
    bays: usize,
    /// Room for data on the drives that are there, which their metadata takes.
    drives_bytes: u64,
    /// RAM that the metadata may take more when they are filled, unless the configuration says how much.
    memory_bytes: u64,
}

impl Cost {
    /// In words.
    pub(super) fn describe(&self) -> String {
        let (drives, memory) = (shown(self.drives_bytes), shown(self.memory_bytes));
        let (count, them) = match self.bays {
            1 => ("1 bay is empty".to_owned(), "it"),
            many => (format!("{many} bays are empty"), "them"),
        };
        format!(
            "\n{count} until `tandem add` puts a drive there. Metadata for {them} takes {drives} of the \
             drives above,\nand up to {memory} of RAM once data lies there.\n"
        )
    }
}

/// Of this new pool; `None` if all its bays have drives.
pub(super) fn cost(config: &EngineConfig) -> Option<Cost> {
    let bays = config.gone.len();
    if bays == 0 {
        return None;
    }
    let there: Vec<usize> = config.present().map(|(index, _)| index).collect();
    let mut without = config.clone();
    without.devices = there.iter().map(|&index| config.devices[index].clone()).collect();
    (without.gone, without.volumes, without.qos) = (Vec::new(), Vec::new(), Default::default());
    for pair in &mut without.pairs {
        let bay = there.iter().position(|&index| index == usize::from(pair.device.0))?;
        pair.device = DeviceId(bay as u8);
    }
    let memory_bytes = metadata_memory_default_bytes(&config.devices)
        - metadata_memory_default_bytes(&without.devices);
    let (all, without) = (Engine::new(config.clone()).ok()?, Engine::new(without).ok()?);
    let room = |engine: &Engine| {
        let there = engine.devices().iter().filter(|device| !device.is_gone());
        let blocks = there.map(|device| device.layout.home_blocks + device.layout.slot_count);
        blocks.sum::<u64>() * BLOCK_BYTES
    };
    Some(Cost { bays, drives_bytes: room(&without).saturating_sub(room(&all)), memory_bytes })
}

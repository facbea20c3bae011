//! How is an engine told of one SSD and nothing else, each block in its own place?
//!
//! Source: design decision 12: papers that measured one drive wrote in place; out-of-place writes would
//! take away the garbage collection that they saw. No contents, no promise.

use tandem_block::{BLOCK_BYTES, Drive, ObjectId};
use tandem_drives::spec::DriveSpec;
use tandem_engine::{
    DeviceConfig, EngineConfig, Placement, Role, SteerConfig, VolumeConfig, WriteCache,
};

/// The one volume, which is the whole drive.
pub const VOLUME: ObjectId = ObjectId(1);

/// The configuration for this drive of this spec.
pub fn bare_ssd(spec: &DriveSpec, drive: &dyn Drive) -> EngineConfig {
    let capacity_bytes = drive.capacity_bytes() / BLOCK_BYTES * BLOCK_BYTES;
    let device = DeviceConfig {
        role: Role::Ssd,
        capacity_bytes,
        write_cache: WriteCache::Volatile,
        depth: spec.queue_depth(),
        uuid: 1,
        hdd_profile: None,
        ssd_profile: Default::default(),
    };
    let volume = VolumeConfig {
        object: VOLUME,
        name: "whole".into(),
        size_bytes: capacity_bytes,
        steer: SteerConfig::default(),
        tier: "none".into(),
        file_tiers: Vec::new(),
        durability: Default::default(),
    };
    EngineConfig {
        placement: Placement::Fixed,
        contents: false,
        ..EngineConfig::with_drives(vec![device], vec![volume])
    }
}

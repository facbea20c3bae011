//! How much memory may the metadata take, and how much of it is left for pages of checksums?
//!
//! Where blocks lie is always in memory, and goes with what has been written. What it leaves of the bound is the cache
//! of pages of checksums.

use crate::config::{DeviceConfig, EngineConfig, Role};
use crate::config_error::ConfigError;
use crate::format::page::Checksums;
use crate::map::Map;
use crate::map::checksums::BlockChecksums;
use crate::metadata_replica::MetadataReplica;
use tandem_block::{BLOCK_BYTES, GIB, MIB, TIB};

/// The bound for each TiB of SSD, and of hard drive (issue of the product: 2 GiB and 32 MiB).
const OF_SSD_TIB_BYTES: u64 = 2 * GIB;
const OF_HDD_TIB_BYTES: u64 = 32 * MIB;
/// … and for each pool beside that.
const OF_POOL_BYTES: u64 = 64 * MIB;
/// What a slot of an SSD takes, by calculation: five bytes and an eighth of room, and three bits.
const OF_SLOT_BYTES: u64 = 6;
/// What the allocator loses: up to a seventh of what it hands out (measured).
const OF_ALLOCATOR_SHARE: usize = 6;
/// What the program takes beside its metadata (measured).
const OF_PROGRAM_BYTES: usize = 8 << 20;
/// Pages in memory at least, and what one takes with its place in the cache.
const PAGES_MIN: usize = 256;
const PAGE_BYTES: usize = size_of::<Checksums>() + 64;

/// Bytes of all drives of a role.
fn bytes_of(devices: &[DeviceConfig], role: Role) -> u64 {
    devices.iter().filter(|device| device.role == role).map(|device| device.capacity_bytes).sum()
}

fn share(bytes: u64, of_tib_bytes: u64) -> u64 {
    (u128::from(bytes) * u128::from(of_tib_bytes) / u128::from(TIB)) as u64
}

/// The bound where nobody has said one.
pub fn metadata_memory_default_bytes(devices: &[DeviceConfig]) -> u64 {
    let (ssds, hdds) = (bytes_of(devices, Role::Ssd), bytes_of(devices, Role::Hdd));
    OF_POOL_BYTES + share(ssds, OF_SSD_TIB_BYTES) + share(hdds, OF_HDD_TIB_BYTES)
}

/// The least bound that a pool can be given: all slots of its SSDs, and a few pages.
pub fn metadata_memory_least_bytes(devices: &[DeviceConfig]) -> u64 {
    let slots = bytes_of(devices, Role::Ssd) / BLOCK_BYTES;
    let hdds = bytes_of(devices, Role::Hdd);
    OF_POOL_BYTES / 4 + slots * OF_SLOT_BYTES + share(hdds, OF_HDD_TIB_BYTES / 4)
}

/// Drives that are there: a bay that is empty needs no memory.
fn present(config: &EngineConfig) -> Vec<DeviceConfig> {
    config.present().map(|(_, device)| device.clone()).collect()
}

/// Is what the metadata may take enough?
///
/// # Errors
/// It is less than these drives need at least.
pub(crate) fn check(config: &EngineConfig) -> Result<(), ConfigError> {
    let devices = present(config);
    let least = metadata_memory_least_bytes(&devices);
    match config.metadata_memory_bytes {
        Some(given) if given < least => Err(ConfigError::Memory {
            given_mib: given / MIB,
            least_mib: least.div_ceil(MIB),
            usual_mib: metadata_memory_default_bytes(&devices) / MIB,
        }),
        _ => Ok(()),
    }
}

/// What the metadata takes in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataMemory {
    /// The bound. Where blocks lie may take more, if blocks of hard drives and of SSDs lie in a worse mix than any
    /// that was measured.
    pub bound_bytes: u64,
    /// Where blocks lie, and what waits for a checkpoint.
    pub map_bytes: u64,
    /// Pages of checksums.
    pub cached_bytes: u64,
}

/// The bound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryBound {
    bytes: u64,
    /// Pages at most, beside that.
    pages_max: usize,
}

impl MemoryBound {
    /// What the configuration says.
    pub(crate) fn of(config: &EngineConfig) -> Self {
        let usual = || metadata_memory_default_bytes(&present(config));
        MemoryBound {
            bytes: config.metadata_memory_bytes.unwrap_or_else(usual),
            pages_max: config.checksum_pages_max,
        }
    }

    /// Of so many pages, and nothing else.
    #[cfg(test)]
    pub(crate) fn pages(pages_max: usize) -> Self {
        MemoryBound { bytes: 0, pages_max }
    }

    /// Pages of checksums at most, whatever else there is.
    pub(crate) fn pages_max(&self) -> usize {
        self.pages_max
    }

    /// Tells the cache how many pages there is room for, beside everything else.
    pub(crate) fn fit(&self, map: &Map, checksums: &mut BlockChecksums, replica: &MetadataReplica) {
        self.fit_beside(used_bytes(map, checksums, replica), checksums);
    }

    fn fit_beside(&self, used_bytes: usize, checksums: &mut BlockChecksums) {
        let taken = used_bytes + used_bytes / OF_ALLOCATOR_SHARE + OF_PROGRAM_BYTES;
        let left = (self.bytes as usize).saturating_sub(taken) / PAGE_BYTES;
        checksums.set_pages_max(left.max(PAGES_MIN).min(self.pages_max));
    }

    /// What the metadata takes now.
    pub(crate) fn view(&self, used_bytes: usize, checksums: &BlockChecksums) -> MetadataMemory {
        MetadataMemory {
            bound_bytes: self.bytes,
            map_bytes: used_bytes as u64,
            cached_bytes: (checksums.page_count() * PAGE_BYTES) as u64,
        }
    }
}

/// What the metadata takes beside the cache, by calculation: where blocks lie, what waits for commits and for a
/// checkpoint, and the pointers of both tables.
pub(crate) fn used_bytes(
    map: &Map,
    checksums: &BlockChecksums,
    replica: &MetadataReplica,
) -> usize {
    map.memory_bytes()
        + checksums.waiting_bytes()
        + checksums.table().memory_bytes()
        + replica.memory_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::WriteCache;
    use crate::profile::SsdProfile;

    fn devices(ssd_tib: u64, hdd_tib: u64) -> Vec<DeviceConfig> {
        let drive = |role, tib| DeviceConfig {
            role,
            capacity_bytes: tib * TIB,
            write_cache: WriteCache::Volatile,
            depth: 32,
            uuid: 1,
            hdd_profile: None,
            ssd_profile: SsdProfile::default(),
        };
        vec![drive(Role::Ssd, ssd_tib), drive(Role::Hdd, hdd_tib)]
    }

    #[test]
    fn the_bound_goes_with_the_drives() {
        for (ssd_tib, hdd_tib) in [(1, 8), (4, 64), (16, 720)] {
            let devices = devices(ssd_tib, hdd_tib);
            let (usual, least) =
                (metadata_memory_default_bytes(&devices), metadata_memory_least_bytes(&devices));
            assert_eq!(usual, 64 * MIB + ssd_tib * 2 * GIB + hdd_tib * 32 * MIB);
            assert!(least * 4 <= usual * 3 && least * 2 >= usual, "{ssd_tib}: {least} of {usual}");
        }
    }

    #[test]
    fn a_bound_that_does_not_do_is_refused_with_one_that_does() {
        let mut config = EngineConfig::with_drives(devices(1, 8), Vec::new());
        let least = metadata_memory_least_bytes(&config.devices).div_ceil(MIB);
        for (given, is_refused) in [(None, false), (Some(least), false), (Some(least - 1), true)] {
            config.metadata_memory_bytes = given.map(|mib| mib * MIB);
            let checked = check(&config);
            assert_eq!(checked.is_err(), is_refused, "{given:?}: {checked:?}");
            if let Err(error) = checked {
                let said = error.to_string();
                assert!(said.contains(&format!("metadata = \"{least}MiB\"")), "{said}");
            }
        }
    }

    /// What the map takes leaves less for pages, down to a few.
    #[test]
    fn pages_get_what_the_map_leaves() {
        let full = Map::filled(100_000, 0, 1_000_000).memory_bytes();
        assert!(full > 400_000);
        let pages = |bytes: usize| bytes / PAGE_BYTES;
        let (bytes, all) = (11 * MIB, pages(3 << 20));
        for (bytes, pages_max, used_bytes, wanted) in [
            (bytes, usize::MAX, 0, all),
            (bytes, usize::MAX, full, pages((3 << 20) - full - full / 6)),
            (bytes, usize::MAX, 3 << 20, PAGES_MIN),
            (0, usize::MAX, full, PAGES_MIN),
            (bytes, 3, full, 3),
        ] {
            let (bound, mut checksums) =
                (MemoryBound { bytes, pages_max }, BlockChecksums::new(7, true));
            bound.fit_beside(used_bytes, &mut checksums);
            assert_eq!(checksums.pages_max(), wanted, "{bytes} and {pages_max}");
            let memory = bound.view(used_bytes, &checksums);
            assert_eq!((memory.bound_bytes, memory.cached_bytes), (bytes, 0));
        }
    }
}

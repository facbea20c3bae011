//! What if a pool grows beyond the drives that it was formatted with?
//!
//! Some of its places are empty from birth. In the middle of the workload the administrator brings a drive
//! for one of them, and again if that came to nothing. Power cuts come at any moment, and at times her
//! configuration is behind: it calls the place empty although the drive is a member already.

use crate::pool::SwarmConfig;
use crate::succession::{Plan, Turn};
use tandem_block::{DeviceId, KIB, MIB, Rng};

impl SwarmConfig {
    /// A pool with empty places, one of which is filled. Volume and files fill the drives that there are,
    /// so that what comes is used.
    pub fn grown(seed: u64, policy: &str, requests: u64) -> Self {
        let (way, pool) = (seed % 3, seed / 3);
        let mut config = match pool % 4 {
            0 => SwarmConfig::filed(pool, policy, requests),
            1 => SwarmConfig::crowded(pool, policy, requests),
            2 => SwarmConfig::filed(pool, policy, requests),
            _ => SwarmConfig::tiered(pool, policy, requests),
        };
        let mut rng = Rng::new(seed ^ 0x6120);
        // the metadata replica is there while one SSD is, and stays; or two are, without one;
        // or there are places of both kinds; or one kind of drives alone
        let (drives, spares) = match way {
            0 => [((2, 1), vec![1]), ((3, 1), vec![2]), ((2, 2), vec![1, 3])][(pool % 3) as usize]
                .clone(),
            1 => [((1, 2), vec![2]), ((2, 2), vec![3, 1]), ((1, 3), vec![3])][(pool % 3) as usize]
                .clone(),
            _ if policy == "ssd-first" && pool % 4 != 3 => {
                [((2, 0), vec![1]), ((0, 2), vec![1])][(pool % 2) as usize].clone()
            }
            _ => ((2, 3), vec![[1, 3][(pool % 2) as usize], 4]),
        };
        config.drives = drives;
        config.spares = spares.into_iter().map(DeviceId).collect();
        config.shape.length_bytes_max = config.shape.length_bytes_max.min(128 * KIB);
        let left = [256 * KIB, MIB][(pool / 2 % 2) as usize];
        let most = config.space_bytes().saturating_sub(left) / (4 * KIB) * (4 * KIB);
        if config.objects || config.shape.volume_bytes > most {
            config.shape.volume_bytes = most;
        }
        config.shape.footprint_bytes = config.shape.footprint_bytes.min(most);
        let turns = [None, Some(Turn::SuccessorDies), None, Some(Turn::Cancel)];
        let then = turns[(pool % 4) as usize].map(|turn| (rng.below(60), turn));
        let more_bytes = [0, 256 * KIB][(pool / 2 % 2) as usize];
        let (device, at) = (config.spares[0], 20 + rng.below(80));
        config.replace = Some(Plan { device, at, more_bytes, then });
        config
    }
}

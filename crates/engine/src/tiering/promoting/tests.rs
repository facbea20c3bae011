//! What becomes of a promotion when the user's read that it rides on fails?

use super::*;
use crate::format::pointer::area_pages;
use crate::io::DeviceIo;
use crate::io::fixture::drives;
use crate::map::checksums::BlockChecksums;
use crate::map::{Map, SlotRegion};
use crate::owner::Ended;
use crate::requests::task::Task;
use crate::requests::{Next, Requests};
use crate::store::Store;
use crate::tier::TierConfig;
use crate::tier::log_age::LogAge;
use crate::tier::settings::NEVER;
use crate::tier::space::{Space, SpaceConfig};
use crate::tiering::demoting::Demoting;
use crate::tiering::{Rate, Tiering, Tiers};
use std::collections::BTreeMap;
use tandem_block::{
    BLOCK_BYTES, DeviceId, Instant, IoError, MIB, ObjectId, Op, Request, RequestId,
};

const SSD: DeviceId = DeviceId(0);
const BLOCKS: u64 = 1024;

/// An SSD, a hard drive, and a tier with room for a few extents of four blocks.
fn tiers() -> (Tiers, Store, DeviceIo) {
    let mut store = Store::new(MIB, crate::store::memory::MemoryBound::pages(8), true);
    let region = SlotRegion::new(SSD, false, 18, 0);
    store.map = Map::new(vec![region], BLOCKS as usize, 2);
    store.checksums = BlockChecksums::on_the_drives(BLOCKS, area_pages(1, 0));
    let tier = TierConfig::named("cache-read-only").with("extent", 16 << 10).with("size", MIB);
    let config = SpaceConfig { tier, interval: None, reads: 1 };
    let space = Space::new(&config, 18, BLOCKS).expect("it fits");
    let (arrivals, demoting, rate) = (Arrivals::default(), Demoting::default(), Rate::new(MIB));
    let log_age = LogAge::new(NEVER, 1_000_000);
    let mut tiers = Tiers::new(BTreeMap::new(), Some(config));
    tiers.share = Some(Box::new(Tiering { space, arrivals, demoting, rate, log_age }));
    (tiers, store, drives(1, 1))
}

/// The page of checksums that this read waits for cannot be read.
fn page_fails(
    id: TaskId,
    tiers: &mut Tiers,
    store: &mut Store,
    requests: &mut Requests,
    io: &mut DeviceIo,
) {
    requests[id].outstanding += 1;
    let known = (&store.metadata, &store.metadata_replica);
    store.pages.load(0, Some(id), &store.checksums, known, io);
    let status = Err(IoError::Device(SSD));
    let ended = Ended { device: SSD, status, checksums: &[], bytes: &[] };
    store.checksum_page_read(0, ended, requests, tiers, io);
}

/// Seen by reading: the promotion stayed for ever, and rode on whoever had the number of the task next.
#[test]
fn a_read_that_lacks_its_checksums_falls_off_the_extent() {
    let (mut tiers, mut store, mut io) = tiers();
    let mut requests = Requests::default();
    let range = (2 * BLOCK_BYTES, BLOCK_BYTES);
    let request = Request::new(RequestId(1), ObjectId(1), Op::Read, range, Instant::ZERO);
    let mut task = Task::new(request, 0, 4);
    (task.rides, task.noted, task.lead_blocks) = (true, true, 2);
    let id = requests.insert(task);
    tiers.note_riding(id, Extent(0), (0, 4), &mut store.map);
    page_fails(id, &mut tiers, &mut store, &mut requests, &mut io);
    assert!(tiers.tiers_are_idle(), "nothing comes any more");
    assert_eq!(requests.next(), Some(Next::Read(id)), "it reads the blocks of its user alone");
    let task = &requests[id];
    assert_eq!((task.first, task.end, task.status), (2, 3, Ok(())));
    assert!(!task.rides && !task.is_answered);
    // they cannot be read either
    page_fails(id, &mut tiers, &mut store, &mut requests, &mut io);
    assert_eq!(requests.next(), Some(Next::Over(id, PayloadId::NONE)));
    assert_eq!(requests[id].status, Err(IoError::Device(SSD)));
}

//! Does what the drives hold agree with what the engine believes of them?
//!
//! The engine's own audit compares its tables with each other; a simulator sees contents as well. Each
//! place that the map names holds the block that it is said to hold, and a home that is said to hold
//! the same version as another place does. Blocks on which a drive had a fault are left out, and so are
//! pairs, of which either drive may be ahead.

use crate::contents::{SimSector, block_checksum};
use crate::simulation::{Hit, HitKind, Simulation};
use tandem_block::{BLOCK_BYTES, DeviceId, SECTORS_PER_BLOCK};
use tandem_engine::audit::Rule;
use tandem_engine::map::entry::HOME;
use tandem_engine::map::{NONE, Slot};

/// How often a run is audited, and which rules are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audits {
    /// After every so many events; 0: never.
    pub every: u64,
    /// Rules of the engine that nobody asks for.
    pub without: Vec<Rule>,
    /// Contents of drives are compared, too.
    pub contents: bool,
    /// After faults that are over, requests must succeed again.
    pub flow: bool,
    /// A drive that is out of service is read all the same.
    pub reads: bool,
}

impl Default for Audits {
    fn default() -> Self {
        Audits { every: 16, without: Vec::new(), contents: true, flow: true, reads: true }
    }
}

impl Audits {
    /// All but the rules of these names, which have commas between them; `contents`, `flow` and
    /// `reads` are three of them, and `all` leaves everything out.
    ///
    /// # Errors
    /// The first name that is none.
    pub fn without(names: &str) -> Result<Audits, String> {
        let mut audits = Audits::default();
        for name in names.split(',').filter(|name| !name.is_empty()) {
            match Rule::named(name) {
                Some(rule) => audits.without.push(rule),
                None if name == "contents" => audits.contents = false,
                None if name == "flow" => audits.flow = false,
                None if name == "reads" => audits.reads = false,
                None if name == "all" => audits.every = 0,
                None => return Err(name.to_owned()),
            }
        }
        Ok(audits)
    }

    /// What is left out, as `without` takes it; `all` if nobody looks.
    pub fn left_out(&self) -> String {
        if self.every == 0 {
            return "all".to_owned();
        }
        let rules = self.without.iter().map(|rule| format!("{rule:?}"));
        let contents = (!self.contents).then(|| "contents".to_owned());
        let flow = (!self.flow).then(|| "flow".to_owned());
        let reads = (!self.reads).then(|| "reads".to_owned());
        rules.chain(contents).chain(flow).chain(reads).collect::<Vec<_>>().join(",")
    }
}

/// Items of a list that are told of.
const LISTED_MAX: usize = 8;
/// Findings in words, a few of them.
const TOLD_MAX: usize = 6;
/// Waiters that are told of.
const WAITERS_MAX: usize = 20;

type Sectors = [SimSector; SECTORS_PER_BLOCK as usize];

impl Simulation {
    /// What is wrong just now, in words; empty if nothing is.
    pub fn audit(&self, audits: &Audits) -> Vec<String> {
        let findings = self.engine.audit();
        let wanted = findings.into_iter().filter(|f| !audits.without.contains(&f.rule));
        let mut told: Vec<String> = wanted.map(|finding| finding.to_string()).collect();
        if audits.contents && self.has_contents && self.engine.is_serving_now() {
            self.audit_contents(&mut told);
        }
        let is_sound = self.hits().is_empty() && self.engine.stats().faulted_drives == 0;
        let left = self.engine.moves_left();
        if audits.contents && is_sound && left > 0 {
            told.push(format!("moves left {left} blocks as damaged, and no drive had a fault"));
        }
        told.truncate(TOLD_MAX);
        told
    }

    /// Who waits and for what, and what is under way: for a person who looks at a run that hangs.
    pub fn waiting_state(&self) -> String {
        let waiters = self.engine.waiters().into_iter().take(WAITERS_MAX);
        let waiters: Vec<String> = waiters.map(|waiter| waiter.to_string()).collect();
        let state = self.engine.debug_state();
        let state: Vec<String> = state.lines().map(short_lists).collect();
        format!("{}\n{}", waiters.join("\n"), state.join("\n"))
    }

    fn audit_contents(&self, told: &mut Vec<String>) {
        let map = self.engine.map();
        let slots = map.slots();
        for block in map.leaves().in_slots() {
            let entry = map.entry(block);
            let whole = [entry.ssd, entry.log].into_iter().filter(|slot| *slot != NONE);
            let whole = whole.map(|slot| (slot, self.engine.checksum_known(block, slot)));
            let parts = map.fragments(block).iter().map(|part| part.slot);
            let parts = parts.map(|slot| (slot, Some(map.fragment_checksum(slot))));
            for (slot, known) in whole.chain(parts) {
                let region = slots.region(slot);
                let Some(known) = known.filter(|_| self.is_plain(region.device)) else { continue };
                let Some(found) = self.block_at((region.device, region.address(slot))) else {
                    continue;
                };
                if block_checksum(&found) != known {
                    told.push(format!(
                        "slot {slot} of block {block} holds {:x?}, and not what was written there",
                        tokens(&found)
                    ));
                }
            }
        }
        for block in 0..map.leaves().block_count() as u64 {
            if map.state(block) & HOME != 0 {
                self.audit_home(block, told);
            }
        }
    }

    fn audit_home(&self, block: u64, told: &mut Vec<String>) {
        let map = self.engine.map();
        let Some(home) = self.block_at(self.engine.home_of(block)) else { return };
        let entry = map.entry(block);
        for slot in [entry.ssd, entry.log].into_iter().filter(|slot| *slot != NONE) {
            let Some(copy) = self.block_in(slot) else { continue };
            if copy != home {
                told.push(format!(
                    "block {block} is at home as {:x?}, and in slot {slot} as {:x?}",
                    tokens(&home),
                    tokens(&copy)
                ));
            }
        }
        let known = self.engine.checksum_known(block, NONE);
        if entry.ssd == NONE
            && entry.log == NONE
            && known.is_some_and(|k| k != block_checksum(&home))
        {
            told.push(format!(
                "the home of block {block} holds {:x?}, and its checksum is of something else",
                tokens(&home)
            ));
        }
    }

    /// Is this one drive, whose contents are what its commands left?
    fn is_plain(&self, device: DeviceId) -> bool {
        !self.engine.devices()[usize::from(device.0)].is_pair
    }

    fn block_in(&self, slot: Slot) -> Option<Sectors> {
        let region = self.engine.map().slots().region(slot);
        self.block_at((region.device, region.address(slot)))
    }

    /// What lies there; `None` if the drive had a fault there, or is a pair.
    fn block_at(&self, (device, address): (DeviceId, u64)) -> Option<Sectors> {
        let hits = self.hits();
        let is_hit = hits.iter().any(|hit| {
            hit.device == device
                && !matches!(hit.what, HitKind::ReadError | HitKind::FlushError)
                && hit.range.0 < address + BLOCK_BYTES
                && address < hit.range.1
        });
        // what a flush that lied did not settle may be gone, wherever it lay
        let lied = |hit: &Hit| hit.device == device && hit.what == HitKind::FlushIgnored;
        if is_hit || hits.iter().any(lied) || !self.is_plain(device) {
            return None;
        }
        let mut sectors: Sectors = std::array::from_fn(|_| SimSector::Token(0));
        self.stations[usize::from(device.0)].media.read(address, &mut sectors);
        Some(sectors)
    }
}

fn tokens(sectors: &Sectors) -> Vec<u64> {
    sectors.iter().map(SimSector::token).collect()
}

/// The same text with the first items of each long list alone, since nobody reads a thousand bytes of a page.
fn short_lists(line: &str) -> String {
    let mut told = String::with_capacity(line.len().min(4096));
    let mut rest = line;
    while let Some(begin) = rest.find('[') {
        let (before, list) = rest.split_at(begin);
        told.push_str(before);
        let inner = &list[1..];
        let end = inner.find([']', '[', '{', '(']).unwrap_or(inner.len());
        let items = inner[..end].split(", ").count();
        if items > LISTED_MAX && inner[end..].starts_with(']') {
            let first: Vec<&str> = inner[..end].split(", ").take(LISTED_MAX).collect();
            told.push_str(&format!("[{}, and {} more", first.join(", "), items - LISTED_MAX));
        } else {
            told.push('[');
            told.push_str(&inner[..end]);
        }
        rest = &inner[end..];
    }
    told.push_str(rest);
    told
}

#[test]
fn long_lists_are_told_in_short() {
    let bytes = vec![7; 1000];
    assert_eq!(
        short_lists(&format!("a {bytes:?}, b [1, 2], c {{ d: [] }}")),
        "a [7, 7, 7, 7, 7, 7, 7, 7, and 992 more], b [1, 2], c { d: [] }"
    );
}

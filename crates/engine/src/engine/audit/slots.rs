//! In which state is each slot, and is it in one alone?
//!
//! ```text
//! free ─▶ being written ─▶ current ─▶ displaced ─▶ composed ─▶ freed ─▶ waits ─▶ (trimmed) ─▶ free
//!            (a command)    (the map)  (a record     (in the     (nothing names it; reads from
//!                                       names it)     batch)      before may still use it)
//! ```
//! Of a log only the slots in use have a state: its segments are written from one end to the other.

use super::{Findings, Rule, Under};
use crate::audit::Audit;
use crate::map::{Logical, NONE, Run, Slot, SlotRegion};
use crate::owner::{LogIo, MetadataIo, MigrationIo, Owner, RequestIo};

/// What a slot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nobody said anything of it; of a log: not in use.
    Unknown,
    /// It can be allocated.
    Free,
    /// A command that was issued, or waits, writes it.
    Written,
    /// The map names it.
    Current,
    /// A record names it, the map does not.
    Displaced,
    /// The record that does not name it any more is being written.
    Composed,
    /// Nothing names it.
    Freed,
    /// … and it waits for reads from before.
    Waits,
    /// It is being trimmed.
    Trimmed,
}

impl State {
    /// Does it hold what was written there last, and goes on doing so?
    pub(crate) fn holds(self) -> bool {
        matches!(
            self,
            State::Current | State::Displaced | State::Composed | State::Freed | State::Waits
        )
    }
}

/// A slot's state and, if the map or a record names it, the block.
type Known = (State, Option<Logical>);

/// All slots, by the drives. A run is audited after every few events, so this is found without a search.
pub(super) struct States {
    drives: Vec<(Slot, Vec<Known>)>,
}

impl States {
    pub(crate) fn get(&self, slot: Slot) -> State {
        self.at(slot).map_or(State::Unknown, |known| known.0)
    }

    fn at(&self, slot: Slot) -> Option<&Known> {
        let drive = self.drives.iter().rfind(|(first, _)| *first <= slot);
        drive.and_then(|(first, states)| states.get((slot - first) as usize))
    }

    /// Is the slot another block's, as far as the map or a record says?
    pub(crate) fn is_of_another(&self, slot: Slot, block: Logical) -> bool {
        let known = self.at(slot).and_then(|known| known.1);
        known.is_some_and(|known| known != block)
    }

    fn known(&mut self, slot: Slot) -> Option<&mut Known> {
        let drive = self.drives.iter_mut().rfind(|(first, _)| *first <= slot);
        drive.and_then(|(first, states)| states.get_mut((slot - *first) as usize))
    }

    /// The map names the slot, or a record: for this block.
    fn claim_for(&mut self, slot: Slot, block: Logical, state: State, findings: &mut Findings) {
        self.claim(slot, state, findings);
        if let Some((_, known)) = self.known(slot) {
            *known = Some(block);
        }
    }

    fn claim(&mut self, slot: Slot, state: State, findings: &mut Findings) {
        let Some((known, _)) = self.known(slot) else {
            findings.add(Rule::SlotStates, || format!("slot {slot} does not exist: {state:?}"));
            return;
        };
        if *known == State::Unknown {
            *known = state;
        } else {
            findings.add(Rule::SlotStates, || format!("slot {slot} is {known:?} and {state:?}"));
        }
    }

    fn claim_run(&mut self, run: Run, state: State, findings: &mut Findings) {
        for slot in run.slot..run.slot.saturating_add(run.count) {
            self.claim(slot, state, findings);
        }
    }
}

impl Audit<'_> {
    /// Slots that a command writes, or will write when its turn comes.
    fn written_by(&self, under: Under<'_>) -> Vec<Run> {
        match under.owner {
            Owner::Request(RequestIo::Write { run, .. } | RequestIo::Edge { run, .. }) => {
                vec![*run]
            }
            Owner::Log(LogIo::Copy(copy)) => vec![copy.run],
            Owner::Late(late) => vec![late.run],
            Owner::Migration(MigrationIo::Write { parts, .. }) => {
                self.migration.moves.written(*parts)
            }
            Owner::Migration(MigrationIo::Extent { number, run }) => {
                self.policy.tiers.promoting_run(*number, *run).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    pub(super) fn audit_slots(&self, findings: &mut Findings) -> States {
        let slots = self.store.map.slots();
        let unknown = |region: &SlotRegion| {
            (region.first, vec![(State::Unknown, None); region.count as usize])
        };
        let mut states = States { drives: slots.regions().iter().map(unknown).collect() };
        self.claim_free(&mut states);
        for (block, slot) in self.store.map.displaced_slots() {
            states.claim_for(slot, block, State::Displaced, findings);
            if !slots.is_recorded(slot) {
                let what =
                    || format!("slot {slot} is kept for block {block} and no record names it");
                findings.add(Rule::SlotStates, what);
            }
        }
        for slot in self.store.commit.composed_slots() {
            states.claim(slot, State::Composed, findings);
        }
        for &slot in self.store.map.freed_slots() {
            states.claim(slot, State::Freed, findings);
        }
        for run in self.store.deferred_free.runs() {
            states.claim_run(run, State::Waits, findings);
        }
        for under in self.commands() {
            if let Owner::Metadata(MetadataIo::Trim(run)) = under.owner {
                states.claim_run(*run, State::Trimmed, findings);
            }
            for run in self.written_by(under) {
                states.claim_run(run, State::Written, findings);
            }
        }
        self.claim_current(&mut states, findings);
        self.audit_all_claimed(&states, findings);
        self.audit_recorded(&states, findings);
        states
    }

    /// What a record names is kept until another record does not.
    fn audit_recorded(&self, states: &States, findings: &mut Findings) {
        for slot in self.store.map.recorded_slots() {
            let state = states.get(slot);
            if !matches!(state, State::Current | State::Displaced) {
                let what = || format!("a record names slot {slot}: it is {state:?}");
                findings.add(Rule::SlotStates, what);
            }
        }
    }

    fn claim_free(&self, states: &mut States) {
        let regions = self.store.map.slots().regions().iter().filter(|region| !region.is_log);
        for (region, allocator) in regions.zip(self.store.map.allocators()) {
            for slot in region.first..region.first + region.count {
                if allocator.is_free(slot) {
                    states.known(slot).expect("an SSD has its slots").0 = State::Free;
                }
            }
        }
    }

    fn claim_current(&self, states: &mut States, findings: &mut Findings) {
        let map = &self.store.map;
        for block in map.leaves().in_slots() {
            let entry = map.entry(block);
            let whole = [entry.ssd, entry.log].into_iter().filter(|slot| *slot != NONE);
            let parts = map.fragments(block).iter().map(|part| part.slot);
            for slot in whole.chain(parts) {
                states.claim_for(slot, block, State::Current, findings);
            }
        }
        for slot in map.slots().all() {
            let (is_place, state) = (map.slots().is_place(slot), states.get(slot));
            if is_place != (state == State::Current) {
                let what = || format!("slot {slot} is a place: {is_place}, and it is {state:?}");
                findings.add(Rule::SlotStates, what);
            }
            let is_log = is_place && map.slots().is_log(slot);
            if is_log && states.is_of_another(slot, map.slots().log_owner(slot)) {
                let what = || format!("slot {slot} of a log is another block's than is kept");
                findings.add(Rule::SlotStates, what);
            }
        }
    }

    /// No slot of an SSD may get lost, and a log's segments count what lives in them.
    fn audit_all_claimed(&self, states: &States, findings: &mut Findings) {
        for region in self.store.map.slots().regions() {
            let range = region.first..region.first + region.count;
            if !region.is_log {
                for slot in range.filter(|slot| states.get(*slot) == State::Unknown) {
                    findings
                        .add(Rule::SlotStates, || format!("slot {slot} is lost: nobody has it"));
                }
                continue;
            }
            let Some(log) = &self.io[region.device].log else { continue };
            for (run, live, is_free) in log.segments_in_use() {
                let used = run.slot..run.slot + run.count;
                let used = used.filter(|slot| states.get(*slot) != State::Unknown).count();
                let device = region.device.0;
                findings.equal(
                    Rule::LogLife,
                    &format!("living slots from {} on, in the log of device {device}", run.slot),
                    live,
                    used as u64,
                );
                if is_free && used > 0 {
                    let what = || format!("a free segment at slot {} holds {used} slots", run.slot);
                    findings.add(Rule::LogLife, what);
                }
            }
        }
    }
}

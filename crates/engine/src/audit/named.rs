//! Does every place that a command names still hold what the command is about?

use super::slots::States;
use super::{Findings, Rule, Under};
use crate::device::{Purpose, ReadPart};
use crate::engine::Engine;
use crate::map::{Logical, NONE, Slot};

impl Engine {
    pub(super) fn audit_named(&self, states: &States, findings: &mut Findings) {
        let mut reads = 0;
        for under in self.commands() {
            match under.purpose {
                Purpose::Read(part) | Purpose::VerifyCopy(part) => {
                    reads += 1;
                    self.audit_part(part, under, states, findings);
                }
                Purpose::MergeBase { logical, slot, task } => {
                    let what = format!("a base for the write of task {task}");
                    let named = (*logical, *slot);
                    self.audit_slot(Rule::ReadSlots, &what, named, states, findings);
                }
                Purpose::MoveRead(at) => {
                    for named in self.moves.read(*at, under.blocks()) {
                        self.audit_slot(Rule::MoveSlots, "a move", named, states, findings);
                    }
                }
                Purpose::MoveWrite(tag) => self.audit_homes_written(*tag, findings),
                _ => {}
            }
        }
        let open = self.reads_done.iter().filter(|done| !**done).count() as u64;
        findings.equal(Rule::Queues, "reads of places under way", open, reads);
    }

    fn audit_part(
        &self,
        part: &ReadPart,
        under: Under<'_>,
        states: &States,
        findings: &mut Findings,
    ) {
        let number = part.read_number;
        let index = number.checked_sub(self.reads_base);
        let is_open = index.and_then(|index| self.reads_done.get(index as usize)) == Some(&false);
        if !is_open {
            let what =
                || format!("read {number} of device {} is not noted as open", under.device.0);
            findings.add(Rule::Queues, what);
        }
        if part.slot == NONE {
            return;
        }
        let what = if under.waits { "a waiting read" } else { "a read" };
        for i in 0..part.count {
            let named = (part.logical + i, part.slot + i);
            self.audit_slot(Rule::ReadSlots, what, named, states, findings);
        }
    }

    fn audit_slot(
        &self,
        rule: Rule,
        what: &str,
        (block, slot): (Logical, Slot),
        states: &States,
        findings: &mut Findings,
    ) {
        let (state, owner) = (states.get(slot), self.map.slots().owner(slot));
        if !state.holds() || owner != block {
            findings.add(rule, || {
                format!(
                    "{what} names slot {slot} for block {block}: it is {state:?}, of block {owner}"
                )
            });
        }
    }

    /// Homes that are written now: a crash may leave either version there.
    fn audit_homes_written(&self, tag: u32, findings: &mut Findings) {
        for block in self.moves.homes_written(tag) {
            if self.map.logical().recorded_home(block) {
                let what = || format!("the home of block {block} is written and a record names it");
                findings.add(Rule::HomeInUse, what);
            }
        }
    }
}

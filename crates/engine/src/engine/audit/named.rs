//! Does every place that a command names still hold what the command is about?

use super::slots::States;
use super::{Findings, Rule, Under};
use crate::audit::Audit;
use crate::device::Job;
use crate::io::pins::Pin;
use crate::map::{Logical, NONE, Slot};
use crate::owner::{MigrationIo, Owner, Parts, ReadPart, RequestIo};

impl Audit<'_> {
    pub(super) fn audit_named(&self, states: &States, findings: &mut Findings) {
        for under in self.commands() {
            match under.owner {
                Owner::Request(RequestIo::Read(part) | RequestIo::Verify(part)) => {
                    self.audit_part(part, under, states, findings);
                }
                Owner::Request(RequestIo::Base { logical, slot, task, .. }) => {
                    let what = format!("a base for the write of task {task}");
                    let named = (*logical, *slot);
                    self.audit_slot(Rule::ReadSlots, &what, named, states, findings);
                }
                Owner::Migration(MigrationIo::Read(at)) => {
                    for named in self.migration.moves.read(*at, under.blocks()) {
                        self.audit_slot(Rule::MoveSlots, "a move", named, states, findings);
                    }
                }
                Owner::Migration(MigrationIo::Home { number, parts, .. }) => {
                    self.audit_homes_written((*number, *parts), findings)
                }
                _ => {}
            }
        }
        self.audit_pins(findings);
    }

    /// Each command that moves data holds one pin, and no pin is left behind.
    fn audit_pins(&self, findings: &mut Findings) {
        for d in self.io.drives() {
            let in_flight = self.io.flights().iter().filter(|(_, io)| io.device == d.id);
            let in_flight = in_flight.filter(|(_, io)| io.pin != Pin::NONE).count();
            let waiting = self.waiting_jobs().filter(|(device, _, job)| {
                *device == d.id && matches!(job, Job::Io(op, _) if op.names_data())
            });
            let held = (in_flight + waiting.count()) as u64;
            let what = format!("pins of device {}", d.id.0);
            findings.equal(Rule::Queues, &what, d.queue.pins().len() as u64, held);
        }
    }

    fn audit_part(
        &self,
        part: &ReadPart,
        under: Under<'_>,
        states: &States,
        findings: &mut Findings,
    ) {
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
        let (state, is_of_another) = (states.get(slot), states.is_of_another(slot, block));
        if !state.holds() || is_of_another {
            let whose = if is_of_another { ", and another block's" } else { "" };
            let what =
                || format!("{what} names slot {slot} for block {block}: it is {state:?}{whose}");
            findings.add(rule, what);
        }
    }

    /// Homes that are written now: a crash may leave either version there.
    fn audit_homes_written(&self, written: (u32, Parts), findings: &mut Findings) {
        for block in self.migration.moves.home_writes.homes_of(written.0, written.1) {
            if self.store.map.leaves().recorded_home(block) {
                let what = || format!("the home of block {block} is written and a record names it");
                findings.add(Rule::HomeInUse, what);
            }
        }
    }
}

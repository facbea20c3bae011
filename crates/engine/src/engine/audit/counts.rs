//! Do the counts that decisions are made from equal what they count?

use super::{Findings, Rule};
use crate::audit::Audit;
use crate::owner::{LogIo, MetadataIo, Owner};
use tandem_block::BLOCK_BYTES;

impl Audit<'_> {
    pub(super) fn audit_counts(&self, findings: &mut Findings) {
        self.audit_free_space(findings);
        let (counted, found) = (self.store.map.population(), self.store.map.population_found());
        if counted != found {
            let what = || format!("{counted:?} are counted, {found:?} were found");
            findings.add(Rule::Population, what);
        }
        let (counted, found) = self.store.map.pending_counts();
        findings.equal(Rule::Journal, "blocks that wait for a batch", counted, found);
        self.audit_queues(findings);
        let of_moves = self.migration.moves.active.as_ref().map_or(0, |m| m.sums.pinned());
        let of_requests: usize =
            self.requests.iter().map(|(_, task)| task.pinned_pages.len()).sum();
        findings.equal(
            Rule::Queues,
            "pages of checksums that stay in RAM",
            self.store.checksums.pins(),
            (of_moves + of_requests) as u64,
        );
        self.audit_tails(findings);
        self.audit_homes(&counted_homes(self), findings);
        self.audit_journal(findings);
    }

    /// What writes are told is free must be there to be allocated.
    fn audit_free_space(&self, findings: &mut Findings) {
        let open = self.io.ssds().iter().zip(self.store.map.allocators());
        let open = open.filter(|(id, _)| self.io[**id].takes_new());
        let (mut free, mut all) = (0, 0);
        for (_, allocator) in open {
            free += allocator.free_count();
            all += allocator.slot_count();
        }
        findings.equal(
            Rule::FreeSpace,
            "free slots of SSDs in service",
            self.store.map.ssd_free(),
            free,
        );
        findings.equal(
            Rule::FreeSpace,
            "slots of SSDs in service",
            self.store.map.ssd_slots(),
            all,
        );
        for (id, allocator) in self.io.ssds().iter().zip(self.store.map.allocators()) {
            let what = format!("free slots of device {}", id.0);
            let free = allocator.free_count();
            findings.equal(Rule::FreeSpace, &what, free, allocator.free_found());
        }
        for (device, log) in self.io.drives().iter().filter_map(|d| Some((d.id, d.log.as_ref()?))) {
            let what = format!("used percent of the log of device {}", device.0);
            findings.equal(Rule::FreeSpace, &what, log.used_percent(), log.used_percent_found());
        }
    }

    fn audit_queues(&self, findings: &mut Findings) {
        for d in self.io.drives() {
            let ios = || self.io.flights().iter().filter(|(_, io)| io.device == d.id);
            let jobs = || self.waiting_jobs().filter(|(device, ..)| *device == d.id);
            let of = |what: &str| format!("{what} of device {}", d.id.0);
            let in_flight = ios().count() as u64;
            findings.equal(
                Rule::Queues,
                &of("commands in flight"),
                u64::from(d.queue.in_flight()),
                in_flight,
            );
            let background = ios().filter(|(_, io)| io.background).count() as u64;
            let counted = u64::from(d.queue.background_in_flight());
            findings.equal(Rule::Queues, &of("background commands"), counted, background);
            let waiting = jobs().count() as u64;
            let counted = u64::from(d.queue.length());
            findings.equal(Rule::Queues, &of("queue length"), counted, in_flight + waiting);
            let bytes: u64 = jobs().map(|(.., job)| job.bytes()).sum();
            let counted = d.queue.waiting_bytes();
            findings.equal(Rule::Queues, &of("waiting bytes"), counted, bytes);
            let flushes =
                ios().filter(|(_, io)| io.owner == Owner::Log(LogIo::Flush)).count() as u64;
            let counted = u64::from(d.flushing.is_some());
            findings.equal(Rule::Queues, &of("flushes under way"), counted, flushes);
            let taken = self.replicas.replacement.takes(d.id);
            let counted = u64::from(self.io.withholds(d.id));
            findings.equal(Rule::Queues, &of("commands set aside"), counted, u64::from(taken));
        }
    }

    fn audit_tails(&self, findings: &mut Findings) {
        for d in self.io.drives() {
            let bytes = |copied_too: bool| -> u64 {
                let items = d.tail.items.iter().filter(|item| copied_too || !item.copied);
                items.map(|item| item.run.count * BLOCK_BYTES).sum()
            };
            let of = |what: &str| format!("{what} of the tail of device {}", d.id.0);
            findings.equal(Rule::Tails, &of("bytes"), d.tail.bytes, bytes(true));
            findings.equal(Rule::Tails, &of("exposed"), d.tail.exposed_bytes, bytes(false));
        }
        let copies = |io: &Owner| matches!(io, Owner::Log(LogIo::Copy(_)));
        let under_way = self.io.flights().iter().filter(|(_, io)| copies(&io.owner)).count() as u64;
        let counted = self.migration.tail_copies.under_way() as u64;
        findings.equal(Rule::Tails, "copies of tails under way", counted, under_way);
    }

    fn audit_homes(&self, homed: &Homed, findings: &mut Findings) {
        let counted = self.migration.moves.homed_ssd_count();
        findings.equal(Rule::Homes, "homed blocks of SSDs", counted, homed.from_ssd);
        let counted = self.migration.moves.homed_set_count();
        findings.equal(Rule::Homes, "homed blocks", counted, homed.blocks);
        for d in self.io.drives() {
            let mark = self.migration.moves.homes_durable_mark(d.id);
            if mark > d.home_writes {
                let device = d.id.0;
                let what = || format!("device {device} durable {mark} of {} homes", d.home_writes);
                findings.add(Rule::Homes, what);
            }
        }
    }

    fn audit_journal(&self, findings: &mut Findings) {
        let count =
            |owner: &Owner| self.commands().filter(|under| under.owner == owner).count() as u64;
        let of_commit = count(&Owner::Metadata(MetadataIo::CommitFlush))
            + count(&Owner::Metadata(MetadataIo::Unit));
        let counted = self.store.commit.commands_counted();
        findings.equal(Rule::Journal, "commands of the commit", counted, of_commit);
        let counted = self.store.checkpoint.commands_counted();
        findings.equal(
            Rule::Journal,
            "commands of the checkpoint",
            counted,
            count(&Owner::Metadata(MetadataIo::Checkpoint)),
        );
        let counted = self.store.metadata_replica.commands_counted();
        findings.equal(
            Rule::Journal,
            "commands of the metadata replica",
            counted,
            count(&Owner::Metadata(MetadataIo::Replica)),
        );
        let (composed, durable) = (self.store.commit.composed(), self.store.commit.durable());
        if durable > composed {
            let what = || format!("{durable} batches are durable, and {composed} were composed");
            findings.add(Rule::Journal, what);
        }
        let (used, ring) = (self.store.journal.used_bytes(), self.store.journal.ring_bytes());
        if used > ring {
            let what = || format!("the journal holds {used} bytes, its ring has {ring}");
            findings.add(Rule::Journal, what);
        }
    }
}

/// Homes that were written and wait for a flush, counted one by one.
struct Homed {
    blocks: u64,
    from_ssd: u64,
}

fn counted_homes(engine: &Audit<'_>) -> Homed {
    let mut homed = Homed { blocks: 0, from_ssd: 0 };
    for slot in engine.migration.moves.homed_slots() {
        homed.blocks += 1;
        homed.from_ssd += u64::from(!engine.store.map.slots().is_log(slot));
    }
    homed
}

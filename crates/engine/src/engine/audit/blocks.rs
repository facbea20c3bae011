//! Whose is each logical block, and do the counts of holders say the same?

use super::{Findings, Rule};
use crate::audit::Audit;
use crate::map::objects::BlockRange;

impl Audit<'_> {
    pub(super) fn audit_blocks(&self, findings: &mut Findings) {
        let (all, free, in_use) = self.space_blocks();
        // while a hard drive is left some blocks are kept for its homes, and not for as many as it has any more
        let is_demoting = self.migration.evacuation.is_under_way();
        let taken = if is_demoting { 0 } else { self.migration.moves.taken_blocks() };
        let found = free + in_use + taken;
        if !is_demoting || found > all {
            findings.equal(Rule::Blocks, "blocks free or in use", all, found);
        }
        let on_the_way =
            self.volumes.object_changes.retired_ranges().chain(self.volumes.sharing.lingering());
        let owned = self.volumes.objects.owned().map(|(range, _)| range);
        for range in owned.chain(on_the_way) {
            if let Some(free) = self.volumes.objects.first_free_of(range) {
                let what = || format!("block {free} is free and somebody has it, or had it");
                findings.add(Rule::Blocks, what);
            }
        }
        for range in self.volumes.objects.free_ranges() {
            let mut blocks = range.first..range.first + range.count;
            if let Some(block) = blocks.find(|block| self.store.map.state(*block) != 0) {
                let what = || format!("block {block} is free and something lies in it");
                findings.add(Rule::Blocks, what);
            }
        }
        self.audit_shares(findings);
    }

    /// Holders are the pieces of objects as records see them, and links, which are nobody else's.
    fn audit_shares(&self, findings: &mut Findings) {
        let mut pieces: Vec<BlockRange> =
            self.volumes.objects.owned().map(|(range, _)| range).collect();
        pieces.sort_unstable_by_key(|range| range.first);
        let (counted, found) = self.volumes.objects.holders(&pieces);
        if counted != found {
            let what = || format!("holders are counted as {counted:?}, pieces give {found:?}");
            findings.add(Rule::Shares, what);
        }
    }
}

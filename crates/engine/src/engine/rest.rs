//! Does a hard drive rest, and if not, what keeps it awake?
//!
//! Source: a hard drive spins down when no command has come for long. An operator asks why one never does.

use crate::activity::Activity;
use crate::device::{Class, Device};
use crate::metadata_replica::MetadataReplicaStatus;
use crate::migration::moves::Moves;
use crate::owner::MoveKind;
use crate::replacement::ReplacementView;
use tandem_block::Instant;

/// What a hard drive has to do, now or as soon as it is quiet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awake {
    /// Users' requests wait for it, or it serves some.
    Requests,
    /// It is being drained, or what lies on another drive goes here.
    Drain,
    /// A drive takes another one's place.
    Replacement,
    /// What only SSDs have is written home.
    WriteBack,
    /// A log is cleaned.
    LogCleaning,
    /// Blocks are merged with the parts that were written over them.
    Merging,
    /// What is read often is brought to an SSD.
    Promotion,
    /// What is cold leaves an SSD.
    Demotion,
    /// It has another command for the background.
    Background,
    /// It is flushed, or what was written home waits for a flush.
    Flush,
    /// What users wrote is in its buffer: a flush follows in the quiet.
    Buffer,
    /// Changes of the map wait to be written to the metadata replica.
    MetadataReplica,
    /// Its last command ended less than a second ago: the next one may follow.
    Recent,
}

impl Awake {
    /// As `status` says it.
    pub fn as_str(self) -> &'static str {
        match self {
            Awake::Requests => "requests",
            Awake::Drain => "drain",
            Awake::Replacement => "replacement",
            Awake::WriteBack => "write-back",
            Awake::LogCleaning => "cleaning of a log",
            Awake::Merging => "merges",
            Awake::Promotion => "promotion",
            Awake::Demotion => "demotion",
            Awake::Background => "background work",
            Awake::Flush => "flush",
            Awake::Buffer => "writes in its buffer",
            Awake::MetadataReplica => "metadata replica",
            Awake::Recent => "a command in the last second",
        }
    }
}

/// How a hard drive rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    /// When its last command ended.
    pub since: Instant,
    /// Nothing: no command came for a second, and nothing waits for this drive now.
    pub awake_for: Option<Awake>,
}

/// Does this hard drive rest? `None`: it is no hard drive, or takes no commands. `now`: what is going on.
pub(super) fn rest(
    device: &Device,
    now: &Activity,
    moves: &Moves,
    (replica, replaced): (Option<MetadataReplicaStatus>, Option<ReplacementView>),
    is_recent: bool,
) -> Option<Rest> {
    if device.is_ssd() || device.is_faulted() || device.is_gone() {
        return None;
    }
    let queue = &device.queue;
    let serves = queue.in_flight() > queue.background_in_flight();
    let requests = serves || queue.waits(Class::Read) || queue.waits(Class::Write);
    let is_copied = replaced.is_some_and(|one| one.device == device.id && one.ended.is_none());
    let homes_wait = device.home_writes > moves.homes_durable_mark(device.id);
    let lags = replica.is_some_and(|one| one.device == device.id && one.units_behind > 0);
    let writes_back = now.write_back || moves.home_writes.has_kind(MoveKind::WriteBack);
    // (is it so, what it is), the first one counts
    let reasons = [
        (requests, Awake::Requests),
        (is_copied, Awake::Replacement),
        (device.flushing.is_some() || device.flush_wanted, Awake::Flush),
        (device.queue.length() > 0, background(now, writes_back)),
        (homes_wait, Awake::Flush),
        (!device.tail.items.is_empty(), Awake::Buffer),
        (lags, Awake::MetadataReplica),
        (is_recent, Awake::Recent),
    ];
    Some(Rest { since: device.last_end, awake_for: first(&reasons) })
}

/// What the pool does in the background.
fn background(now: &Activity, writes_back: bool) -> Awake {
    let kinds = [
        (now.drain, Awake::Drain),
        (now.replacement, Awake::Replacement),
        (writes_back, Awake::WriteBack),
        (now.log_gc, Awake::LogCleaning),
        (now.merge, Awake::Merging),
        (now.promotion || now.promoting, Awake::Promotion),
        (now.demoting, Awake::Demotion),
    ];
    first(&kinds).unwrap_or(Awake::Background)
}

fn first(reasons: &[(bool, Awake)]) -> Option<Awake> {
    reasons.iter().find_map(|&(is_so, what)| is_so.then_some(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_pool_does_first_is_told() {
        let idle = Activity::default();
        assert_eq!(background(&idle, false), Awake::Background);
        assert_eq!(background(&idle, true), Awake::WriteBack);
        let busy = Activity { drain: true, log_gc: true, ..idle };
        assert_eq!(background(&busy, true), Awake::Drain);
        assert_eq!(first(&[(false, Awake::Flush), (true, Awake::Buffer)]), Some(Awake::Buffer));
        assert_eq!(first(&[(false, Awake::Flush)]), None);
    }
}

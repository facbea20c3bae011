//! What if an SSD takes far too long for a write? A log takes it as well, and whoever is done first answers.
//!
//! Source: requests that are late are sent once more ("The Tail at Scale", 2013). Here the second one goes to another kind
//!         of drive, so a stall of the SSD does not meet both.
//! Differs: nothing is cancelled. The write that comes second still ends. In a log it leaves nothing. On an SSD it takes
//!         the blocks over from the log if they are still there, so reads find them where they would have been.

use crate::bcw::controller::Action;
use crate::io::DeviceIo;
use crate::log::read_back::ReadBack;
use crate::map::{Logical, Map, Run};
use crate::migration::read_back::Promotions;
use crate::owner::{Late, Owner, RequestIo};
use crate::policy::Policy;
use crate::policy::steering::Asked;
use crate::port::IoId;
use crate::requests::Requests;
use crate::requests::dispatch::log_percent;
use crate::requests::late::{give_back, in_log, release_log};
use crate::requests::ordering::TaskId;
use crate::steer::Reason;
use crate::store::Store;
use crate::tier::Intention;
use tandem_block::{
    BLOCK_BYTES, DeviceId, DurabilityClass, Duration, Instant, IoError, RequestKind,
};

/// Younger writes are nobody's business: less than any drive takes for a stall.
const AGE_MIN: Duration = Duration::from_us(50);

/// A write that two drives have, neither of which has answered.
#[derive(Clone, Copy, Debug)]
struct Race {
    task: TaskId,
    ssd: IoId,
    log: IoId,
    hdd: DeviceId,
}

/// Writes that two drives have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hedges {
    races: Vec<Race>,
}

impl Hedges {
    fn has(&self, task: TaskId) -> bool {
        self.races.iter().any(|race| race.task == task)
    }

    /// One of two writes has ended, on this drive. Returns the other one, and the hard drive of the two.
    fn end(&mut self, task: TaskId, device: DeviceId) -> Option<(IoId, DeviceId)> {
        let at = self.races.iter().position(|race| race.task == task)?;
        let race = self.races.swap_remove(at);
        Some((if device == race.hdd { race.ssd } else { race.log }, race.hdd))
    }
}

/// May a log take it as well?
fn may_be_hedged(
    id: TaskId,
    logical: Logical,
    run: Run,
    hdd: DeviceId,
    all: &Requests,
    io: &DeviceIo,
) -> bool {
    let Some(task) = all.get(id) else { return false };
    let is_kept = match task.request.class {
        DurabilityClass::VolatileOk => true,
        DurabilityClass::Protected => !io[hdd].is_volatile(),
        // its user waits for an SSD in any case
        DurabilityClass::Journaled | DurabilityClass::Strict => false,
    };
    let is_in_one_piece = task.first == logical && run.count == task.blocks();
    is_kept
        && is_in_one_piece
        && task.outstanding == 1
        && !task.request.fua
        && !task.target.is_log()
        && task.request.kind == RequestKind::User
        && !all.hedges.has(id)
}

/// From when on the write of this flight is overdue. `None`: its policy does not say, or no log may take it.
fn overdue_at(
    policy: &Policy,
    (ssd, hdd): (DeviceId, DeviceId),
    owner: &Owner,
    issued: Instant,
    requests: &Requests,
    io: &DeviceIo,
) -> Option<(Instant, TaskId)> {
    let Owner::Request(RequestIo::Write { task, logical, run }) = *owner else { return None };
    if !may_be_hedged(task, logical, run, hdd, requests, io) {
        return None;
    }
    let policies = &policy.tiers.policies;
    if policies.awaits_both(task, requests) {
        return None;
    }
    let steer = policies.get(&requests[task].volume)?.steer;
    let overdue_ns = policy.steering.overdue_ns(steer, ssd, io)?;
    Some((issued + Duration::from_ns(overdue_ns), task))
}

/// When the next write of an SSD is overdue that is not yet.
pub(crate) fn hedges_due(policy: &Policy, requests: &Requests, io: &DeviceIo) -> Instant {
    let Some(&hdd) = io.hdds().first().filter(|_| policy.steering.hedges() && !io.is_fixed())
    else {
        return Instant::NEVER;
    };
    let mut due = Instant::NEVER;
    for &ssd in io.ssds() {
        let flights = io.flights().oldest_first(&io[ssd].queue);
        let mut overdue = flights.filter_map(|(_, flight)| {
            overdue_at(policy, (ssd, hdd), &flight.owner, flight.issued, requests, io)
        });
        if let Some((at, _)) = overdue.find(|(at, _)| *at > io.now()) {
            due = due.min(at);
        }
    }
    due
}

/// The oldest write that is overdue on any SSD, and its command there.
fn overdue_write(
    policy: &Policy,
    hdd: DeviceId,
    requests: &Requests,
    io: &DeviceIo,
) -> Option<(IoId, TaskId)> {
    let now = io.now();
    let of_ssd = |&ssd: &DeviceId| {
        let flights = io.flights().oldest_first(&io[ssd].queue);
        let mut old = flights.take_while(|(_, flight)| now.since(flight.issued) >= AGE_MIN);
        old.find_map(|(id, flight)| {
            let (at, task) =
                overdue_at(policy, (ssd, hdd), &flight.owner, flight.issued, requests, io)?;
            (at <= now).then_some((id, task, flight.issued))
        })
    };
    let overdue = io.ssds().iter().filter_map(of_ssd);
    overdue.min_by_key(|(_, _, issued)| *issued).map(|(id, task, _)| (id, task))
}

/// Sends the oldest write that an SSD is overdue with to the log of this drive, too, if that takes it fast. False:
/// there is none.
pub(crate) fn hedge(
    policy: &mut Policy,
    hdd: DeviceId,
    store: &Store,
    requests: &mut Requests,
    read_back: &mut ReadBack,
    promotions: &mut Promotions,
    io: &mut DeviceIo,
) -> bool {
    if !policy.steering.hedges() || io.is_fixed() || io[hdd].log.is_none() {
        return false;
    }
    let Some((ssd_io, id)) = overdue_write(policy, hdd, requests, io) else { return false };
    let task = &requests[id];
    let bytes = task.blocks() * BLOCK_BYTES;
    let asked = Asked {
        request: &task.request.clone(),
        object: task.request.object,
        logical: task.first,
        bytes,
        mirrored: false,
        intention: Intention::Ssd,
        detours: false,
        steer: None,
        log_percent: log_percent(policy.tiers.kept_blocks_max(&store.map, io), store, io),
        detours_have_room: false,
    };
    let is_fast = policy.steering.log_takes_fast(&asked, hdd, io);
    let now = io.now();
    let Some(bcw) = io[hdd].bcw.as_mut().filter(|_| is_fast) else { return false };
    bcw.commit(now, bytes);
    if bcw.next(now, Some(bytes)) != Action::Write {
        bcw.uncommit(bytes);
        return false;
    }
    let Some(log) = issue_hedge(requests, (hdd, id), &store.map, read_back, promotions, io) else {
        let bcw = io[hdd].bcw.as_mut().expect("asked above");
        bcw.uncommit(bytes);
        return false;
    };
    let bcw = io[hdd].bcw.as_mut().expect("asked above");
    bcw.issued(bytes, false);
    if let Some(of_volume) = policy.tiers.policies.get(&requests[id].volume) {
        policy.steering.note_hedge(of_volume.steer);
    }
    requests.hedges.races.push(Race { task: id, ssd: ssd_io, log, hdd });
    io.stats_mut().late.hedged += 1;
    true
}

/// Writes what an SSD has already to a log, in one piece. `None`: the log has no such piece.
fn issue_hedge(
    requests: &mut Requests,
    (hdd, id): (DeviceId, TaskId),
    map: &Map,
    read_back: &mut ReadBack,
    promotions: &mut Promotions,
    io: &mut DeviceIo,
) -> Option<IoId> {
    let (first, blocks) = (requests[id].first, requests[id].blocks());
    let log = io[hdd].log.as_ref().expect("asked by the caller");
    if log.free_slots_of_users(true) < blocks {
        return None;
    }
    let run = read_back.append_to_log(hdd, blocks, true, io, promotions)?;
    if run.count < blocks {
        release_log(hdd, run, io);
        return None;
    }
    Some(requests.issue_write_run(hdd, id, first, run, io, map))
}

/// One of two writes has failed: the other one goes on alone. True: there is another one.
pub(super) fn goes_on_elsewhere(
    requests: &mut Requests,
    device: DeviceId,
    (id, run): (TaskId, Run),
    error: IoError,
    store: &mut Store,
    io: &mut DeviceIo,
) -> bool {
    let Some((_, hdd)) = requests.hedges.end(id, device) else { return false };
    give_back(device, run, Some(error), store, io);
    if device != hdd {
        requests.count_redirected(id, hdd, Reason::Hedged, io);
    }
    let task = &mut requests[id];
    assert!(task.outstanding == 2, "two writes were under way");
    task.outstanding -= 1;
    true
}

/// A write is done, and its blocks are named. If another drive has it still, nobody waits for that any more.
pub(super) fn outrun(
    requests: &mut Requests,
    device: DeviceId,
    (id, run): (TaskId, Run),
    map: &Map,
    io: &mut DeviceIo,
) {
    let Some((rival, hdd)) = requests.hedges.end(id, device) else { return };
    let payload = requests.retain_buffer(id, io);
    let is_log = device == hdd;
    let place = is_log.then(|| in_log(run.slot, map, io));
    if is_log {
        requests.count_redirected(id, hdd, Reason::Hedged, io);
        io.stats_mut().late.hedged_sooner += 1;
    }
    io.hand_over(rival, |owner| {
        let Owner::Request(RequestIo::Write { logical, run, .. }) = *owner else {
            unreachable!("two writes of one request: {owner:?}")
        };
        Owner::Late(Box::new(Late { logical, run, payload, in_log: place }))
    });
    let task = &mut requests[id];
    assert!(task.outstanding == 2, "two writes were under way");
    task.outstanding -= 1;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::Key as _;
    use crate::io::fixture::drives;
    use crate::requests::task::Task;
    use tandem_block::{ObjectId, Op, Request, RequestId};

    const SSD: DeviceId = DeviceId(0);
    const HDD: DeviceId = DeviceId(1);

    #[test]
    fn the_one_that_ends_first_names_the_other_one_and_once() {
        let task = TaskId::new(3);
        for (first, rival) in [(SSD, IoId(8)), (HDD, IoId(5))] {
            let mut hedges = Hedges::default();
            hedges.races.push(Race { task, ssd: IoId(5), log: IoId(8), hdd: HDD });
            assert!(hedges.has(task) && !hedges.has(TaskId::new(4)));
            assert_eq!(hedges.end(TaskId::new(4), first), None, "it has one drive alone");
            assert_eq!(hedges.end(task, first), Some((rival, HDD)));
            assert_eq!(hedges.end(task, first), None, "the race is over");
        }
    }

    type Change = fn(&mut Task);

    /// Which writes an SSD has may go to a log as well, whose drive may lose its buffer?
    #[test]
    fn what_must_be_on_an_ssd_or_is_not_alone_there_is_not_hedged() {
        let cases: [(&str, bool, Change); 7] = [
            ("a write in one piece", true, |_| {}),
            ("a part of a block", true, |task| task.masks = (15, 255)),
            ("FUA", false, |task| task.request.fua = true),
            ("a journaled class", false, |task| task.request.class = DurabilityClass::Journaled),
            ("a buffer that is lost", false, |task| {
                task.request.class = DurabilityClass::Protected;
            }),
            ("in two pieces", false, |task| task.outstanding = 2),
            ("the engine's own", false, |task| task.request.kind = RequestKind::Background),
        ];
        for (what, is_hedged, change) in cases {
            let (io, mut requests) = (drives(1, 1), Requests::default());
            let bytes = 4 * BLOCK_BYTES;
            let request =
                Request::new(RequestId(1), ObjectId(1), Op::Write, (0, bytes), Instant::default());
            let id = requests.insert(Task::new(request, 0, 4));
            requests[id].outstanding = 1;
            change(&mut requests[id]);
            let run = Run { slot: 10, count: 4 };
            assert_eq!(may_be_hedged(id, 0, run, HDD, &requests, &io), is_hedged, "{what}");
            let piece = Run { slot: 10, count: 2 };
            assert!(!may_be_hedged(id, 0, piece, HDD, &requests, &io), "{what}: a piece of it");
        }
    }
}

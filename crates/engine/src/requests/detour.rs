//! Which writes went to a log only because their SSD was busy, and follow to it when it has time?
//!
//! Source: a policy of our own. A log write spares its user the queue of a busy SSD, but who reads the blocks later would
//!         have to go to the hard drive. So what may be read soon follows to the SSD from RAM, as it would have come there
//!         at once. SSDs are written as much as without, and only the burst is gone.

use super::Requests;
use super::late::{find, further, in_log};
use super::ordering::TaskId;
use crate::io::DeviceIo;
use crate::map::{Logical, Map, Run};
use crate::owner::{InLog, Late, Owner};
use crate::port::IoOp;
use crate::steer::Reason;
use crate::store::room::Room;
use std::collections::VecDeque;
use tandem_block::{BLOCK_BYTES, DeviceId, Duration, Instant, MIB, PayloadId};

/// Bytes that wait in RAM at most.
const BYTES_MAX: u64 = 64 * MIB;
/// What waits longer stays in the log (guess: by then hardly anybody reads it).
const WAIT_MAX: Duration = Duration::from_s(30);

/// A log write that an SSD is to take over.
#[derive(Clone, Copy, Debug)]
struct Detour {
    logical: Logical,
    blocks: u64,
    place: InLog,
    payload: PayloadId,
    offset_bytes: u64,
    since: Instant,
}

/// Log writes that SSDs are to take over, the oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Detours {
    waiting: VecDeque<Detour>,
    bytes: u64,
}

impl Detours {
    /// Is there room for a write of so many bytes?
    pub(crate) fn takes(&self, bytes: u64) -> bool {
        self.bytes + bytes <= BYTES_MAX
    }

    fn add(&mut self, detour: Detour) {
        self.bytes += detour.blocks * BLOCK_BYTES;
        self.waiting.push_back(detour);
    }

    fn next(&mut self) -> Option<Detour> {
        let detour = self.waiting.pop_front()?;
        self.bytes -= detour.blocks * BLOCK_BYTES;
        Some(detour)
    }
}

/// The position among the SSDs of one that has nothing to do, and room for so much.
fn idle_ssd(
    blocks: u64,
    requests: &Requests,
    map: &Map,
    io: &DeviceIo,
) -> Option<(usize, DeviceId)> {
    let ssds = io.ssds().iter().copied().enumerate();
    ssds.into_iter().find(|&(ssd, id)| {
        let free = map.allocators()[ssd].free_count();
        let has_room = free >= blocks + requests.reserved_slots(ssd, map);
        io[id].takes_new() && io[id].queue.length() == 0 && has_room
    })
}

/// Is there anything that logs have and that is to follow to SSDs?
#[inline]
pub(crate) fn detours_wait(requests: &Requests) -> bool {
    !requests.detours.waiting.is_empty()
}

/// A log has what was to make a detour.
pub(super) fn note_detour(
    requests: &mut Requests,
    id: TaskId,
    (logical, run): (Logical, Run),
    map: &Map,
    io: &mut DeviceIo,
) {
    if requests[id].reason != Reason::Detour || requests[id].request.fua {
        return;
    }
    let offset_bytes = requests[id].buffer_offset(logical);
    let (payload, since) = (requests.retain_buffer(id, io), io.now());
    let place = in_log(run.slot, map, io);
    let detour = Detour { logical, blocks: run.count, place, payload, offset_bytes, since };
    requests.detours.add(detour);
    io.stats_mut().late.detours += 1;
}

/// Sends to SSDs that have nothing to do what went to logs because they were busy.
pub(crate) fn run_detours(
    requests: &mut Requests,
    kept_blocks: u64,
    map: &mut Map,
    io: &mut DeviceIo,
) {
    while let Some(detour) = requests.detours.waiting.front().copied() {
        let lies_there =
            |i: u64| find(further(detour.place, i), detour.logical + i, map, io).is_some();
        let is_alive = (0..detour.blocks).any(lies_there);
        let is_old = io.now().since(detour.since) > WAIT_MAX || io.is_stopping();
        let is_short = Room::of(map, kept_blocks).is_scarce();
        if is_alive && !is_old && !is_short {
            let Some((ssd, id)) = idle_ssd(detour.blocks, requests, map, io) else { return };
            send(&detour, (ssd, id), map, io);
        } else {
            io.stats_mut().late.detours_left += u64::from(is_alive);
        }
        requests.detours.next();
        io.let_buffer_go(detour.payload);
    }
}

fn send(detour: &Detour, (ssd, id): (usize, DeviceId), map: &mut Map, io: &mut DeviceIo) {
    let mut done = 0;
    while done < detour.blocks {
        let run = map.allocate_on(ssd, detour.blocks - done).expect("counted by the caller");
        let op = IoOp::Write {
            offset_bytes: map.slots().region(run.slot).address(run.slot),
            length_bytes: run.count * BLOCK_BYTES,
            from: detour.payload,
            from_offset_bytes: detour.offset_bytes + done * BLOCK_BYTES,
            fua: false,
        };
        io.hold_buffer(detour.payload);
        let late = Late {
            logical: detour.logical + done,
            run,
            payload: detour.payload,
            in_log: Some(further(detour.place, done)),
        };
        io.submit(id, op, Owner::Late(Box::new(late)));
        done += run.count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::fixture::drives;
    use crate::log::Log;
    use crate::map::SlotRegion;
    use crate::port::Command;
    use crate::requests::task::Task;
    use tandem_block::{ObjectId, Op, Request, RequestId};

    const HDD: DeviceId = DeviceId(1);

    /// A detour of one block that waits, its SSD idle.
    fn waiting() -> (DeviceIo, Requests, Map) {
        let (mut io, mut requests) = (drives(1, 1), Requests::default());
        let regions =
            vec![SlotRegion::new(DeviceId(0), false, 64, 0), SlotRegion::new(HDD, true, 40, 0)];
        let mut map = Map::new(regions, 100, 2);
        io[HDD].log = Some(Log::new(map.slots().regions()[1], 10));
        let request = Request::new(
            RequestId(1),
            ObjectId(1),
            Op::Write,
            (0, BLOCK_BYTES),
            Instant::default(),
        );
        let id = requests.insert(Task { reason: Reason::Detour, ..Task::new(request, 0, 1) });
        let run = io[HDD].log.as_mut().expect("as above").append(1, true).expect("it is empty");
        map.assign(0, run.slot, 1);
        note_detour(&mut requests, id, (0, run), &map, &mut io);
        assert!(detours_wait(&requests));
        (io, requests, map)
    }

    type Change = fn(&mut Requests, &mut Map, &mut DeviceIo);

    /// What is so, whether a write goes to the SSD, and whether it waits for that still.
    #[test]
    fn a_detour_ends_when_the_ssd_is_idle_or_nobody_needs_it() {
        let cases: [(&str, Change, bool, bool); 4] = [
            ("the SSD is idle", |_, _, _| {}, true, false),
            (
                "the SSD has something to do",
                |_, _, io| {
                    io.submit(DeviceId(0), IoOp::Flush, Owner::Probe);
                },
                false,
                true,
            ),
            ("the block was discarded", |_, map, _| map.clear(0), false, false),
            (
                "the SSD is nearly full",
                |_, map, _| {
                    map.allocate_on(0, 60).expect("it is empty");
                },
                false,
                false,
            ),
        ];
        for (what, change, goes, waits) in cases {
            let (mut io, mut requests, mut map) = waiting();
            change(&mut requests, &mut map, &mut io);
            io.next_event(Instant::default());
            run_detours(&mut requests, 0, &mut map, &mut io);
            let told = io.next_event(Instant::default());
            let writes = |command: &Command| matches!(command, Command::Submit(io) if matches!(io.op, IoOp::Write { .. }));
            assert_eq!(told.iter().any(writes), goes, "{what}");
            assert_eq!(detours_wait(&requests), waits, "{what}");
        }
    }

    #[test]
    fn what_waits_in_ram_is_bounded() {
        let (_, mut requests, _) = waiting();
        let detour = *requests.detours.waiting.front().expect("one waits");
        while requests.detours.takes(MIB) {
            requests.detours.add(Detour { blocks: MIB / BLOCK_BYTES, ..detour });
        }
        assert!(requests.detours.bytes <= BYTES_MAX && requests.detours.waiting.len() == 64);
        while requests.detours.next().is_some() {}
        assert_eq!(requests.detours.bytes, 0);
    }
}

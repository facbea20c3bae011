//! What does a policy see of the drives, and what does it learn of what happens?
//!
//! Source: design decision 5: the engine hands a policy a read-only view, carries out what it
//! returns, and counts the reason.

use crate::bcw::controller::{Control, State};
use crate::bcw::predictor::WriteState;
use crate::config::{EngineConfig, Role};
use crate::device::Device;
use crate::io::DeviceIo;
use crate::io::flights::Flight;
use crate::io::queue::{READS_IN_A_ROW_MAX, WRITES_IN_A_ROW_MAX};
use crate::ledger::Ledger;
use crate::map::Logical;
use crate::owner::Owner;
use crate::profile::latency_ns;
use crate::steer::rate::Rate;
use crate::steer::settings::SteerConfig;
use crate::steer::{Decision, Expected, HddView, Reason, Seen, SsdView, Steer, SteerView, Target};
use crate::stripes::Stripes;
use crate::tier::Intention;
use tandem_block::{BLOCK_BYTES, DeviceId, DurabilityClass, Duration, ObjectId, Op, Request};

/// Rates that policies see are taken over this long.
const RATE_WINDOW: Duration = Duration::from_s(1);

/// A steering policy, shared by the volumes that are configured alike.
#[derive(Clone, Debug)]
pub(crate) struct SharedSteer {
    pub(crate) config: SteerConfig,
    pub(crate) policy: Box<dyn Steer>,
}

/// Everything that steering keeps.
#[derive(Clone, Debug)]
pub(crate) struct Steering {
    pub(crate) shared: Vec<SharedSteer>,
    /// Is any policy asked where a write goes?
    is_asked: bool,
    /// Does any learn?
    learns: bool,
    /// Does any choose between an SSD and a hard drive for reads?
    balances: bool,
    /// Does any want to know what users' requests took?
    hears_answers: bool,
    /// May a log take what an SSD is overdue with, for any?
    hedges: bool,
    /// No policy minds that dirty blocks are written home in the quiet.
    pub(crate) homes_in_quiet: bool,
    /// Users' reads, and their reads and writes.
    reads: Rate,
    requests: Rate,
    /// Under fixed placement, if a policy wants it.
    pub(crate) stripes: Option<Stripes>,
    /// Kept for their memory.
    ssds: Vec<SsdView>,
    hdds: Vec<HddView>,
}

/// A write that asks where it goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) request: &'a Request,
    /// The volume or file that is written.
    pub(crate) object: ObjectId,
    /// The first block that it touches.
    pub(crate) logical: Logical,
    /// Bytes of the whole blocks that it touches.
    pub(crate) bytes: u64,
    /// An SSD and a hard drive both have all that it writes over, and its policy wants to know.
    pub(crate) mirrored: bool,
    /// Where its tier wants it.
    pub(crate) intention: Intention,
    /// An SSD may take it that belongs on a hard drive, while that is busy.
    pub(crate) detours: bool,
    /// The steering policy of its volume, if it has one.
    pub(crate) steer: Option<usize>,
    /// Share of a log in use from which it takes this no more, in percent; 0: a commit waits for flushes of hard drives.
    pub(crate) log_percent: u64,
    /// A log may take it that is to follow to an SSD.
    pub(crate) detours_have_room: bool,
}

impl Steering {
    pub(crate) fn new(shared: Vec<SharedSteer>, config: &EngineConfig) -> Self {
        let striped = shared.iter().any(|steer| steer.policy.stripes());
        let ssds = config.with_role(Role::Ssd).filter(|_| striped);
        let capacities: Vec<u64> =
            ssds.map(|id| config.devices[usize::from(id.0)].capacity_bytes).collect();
        Steering {
            is_asked: shared.iter().any(|steer| steer.policy.is_asked()),
            learns: shared.iter().any(|steer| steer.policy.learns()),
            balances: shared.iter().any(|steer| steer.policy.balances()),
            hears_answers: shared.iter().any(|steer| steer.policy.hears_answers()),
            hedges: shared.iter().any(|steer| steer.policy.hedges()),
            homes_in_quiet: shared.iter().all(|steer| steer.policy.writes_home_when_quiet()),
            reads: Rate::new(RATE_WINDOW),
            requests: Rate::new(RATE_WINDOW),
            stripes: Stripes::over(&capacities),
            ssds: Vec::new(),
            hdds: Vec::new(),
            shared,
        }
    }

    fn ask(
        &mut self,
        steer: usize,
        asked: &Asked<'_>,
        hdds: &[HddView],
        io: &DeviceIo,
    ) -> Decision {
        let mut ssds = std::mem::take(&mut self.ssds);
        self.view_ssds(&mut ssds, io);
        let fixed_ssd = io.is_fixed().then(|| self.fixed_place(asked.logical, io).0);
        let view = SteerView {
            now: io.now(),
            object: asked.object,
            logical: asked.logical,
            bytes: asked.bytes,
            request_bytes: asked.request.length_bytes,
            mirrored: asked.mirrored,
            detours_have_room: asked.detours_have_room,
            fixed_ssd,
            ssd_queue_length: fixed_ssd
                .map_or_else(|| io.shortest_ssd().1, |ssd| io[ssd].queue.length()),
            ssds: &ssds,
            hdds,
            reads_per_s: self.reads.per_s(),
            requests_per_s: self.requests.per_s(),
        };
        let decision = self.shared[steer].policy.decide(&view);
        assert!(
            match decision.target {
                Target::Log(chosen) => {
                    let takes = |hdd: &HddView| hdd.accepting || hdd.takes_slow;
                    hdds.iter().any(|hdd| hdd.device == chosen && takes(hdd))
                }
                Target::ThisSsd(chosen) => ssds.iter().any(|ssd| ssd.device == chosen),
                Target::Ssd => true,
            },
            "a policy chooses a drive that it was shown, and that takes the write"
        );
        ssds.clear();
        self.ssds = ssds;
        decision
    }

    fn view_ssds(&self, views: &mut Vec<SsdView>, io: &DeviceIo) {
        for &id in io.ssds() {
            let device = &io[id];
            if !device.takes_new() {
                continue;
            }
            views.push(ssd_view(device, io));
        }
    }

    /// May a log take what an SSD is overdue with, for any policy?
    #[inline]
    pub(crate) fn hedges(&self) -> bool {
        self.hedges
    }

    /// From which age on is a write overdue that this SSD has, in ns? `None`: never, for this policy.
    pub(crate) fn overdue_ns(&self, steer: usize, ssd: DeviceId, io: &DeviceIo) -> Option<u64> {
        let policy = &self.shared[steer].policy;
        if policy.hedges() { policy.overdue_ns(&ssd_view(&io[ssd], io)) } else { None }
    }

    /// A log takes a write of this policy's as well.
    pub(crate) fn note_hedge(&mut self, steer: usize) {
        self.shared[steer].policy.note_hedge();
    }

    /// Does the log of this drive take a write now, and fast?
    pub(crate) fn log_takes_fast(
        &mut self,
        asked: &Asked<'_>,
        hdd: DeviceId,
        io: &mut DeviceIo,
    ) -> bool {
        let mut views = std::mem::take(&mut self.hdds);
        self.view_hdds(asked, false, &mut views, io);
        let is_fast = |view: &HddView| view.accepting && view.predicted != WriteState::Slow;
        let takes = views.iter().any(|view| view.device == hdd && is_fast(view));
        views.clear();
        self.hdds = views;
        takes
    }

    /// A user's request came: rates are counted, and policies told.
    #[inline]
    pub(crate) fn note_arrival(&mut self, request: &Request, io: &DeviceIo) {
        if !self.is_asked {
            return;
        }
        let read = match request.op {
            Op::Read => true,
            Op::Write => false,
            Op::Flush if self.learns => {
                return self.tell(&Seen::Flush { object: request.object }, io);
            }
            Op::Flush | Op::Discard | Op::WriteZeroes => return,
        };
        let now = io.now();
        if read {
            self.reads.add(now);
        } else {
            self.reads.advance(now);
        }
        self.requests.add(now);
        if self.learns {
            let bytes = request.length_bytes;
            self.tell(&Seen::Arrival { read, bytes }, io);
        }
    }

    /// A command of an SSD ended without error: policies are told.
    #[inline]
    pub(crate) fn note_ssd_completion(&mut self, ended: &Flight<Owner>, io: &DeviceIo) {
        if !self.learns || !ended.place.listed {
            return;
        }
        self.tell(
            &Seen::Completion {
                device: ended.device,
                read: ended.place.read,
                is_users: !ended.background
                    && matches!(ended.owner, Owner::Request(_) | Owner::Late(_)),
                bytes: ended.bytes,
                latency_ns: io.now().since(ended.issued).ns,
                queue_length: ended.place.queue_length,
                in_flight_bytes: ended.place.in_flight_bytes,
                written_bytes: ended.place.written_bytes(),
            },
            io,
        );
    }

    /// Does any policy choose between an SSD and a hard drive for reads?
    #[inline]
    pub(crate) fn balances(&self) -> bool {
        self.balances
    }

    /// Does any policy want to know what users' requests took?
    #[inline]
    pub(crate) fn hears_answers(&self) -> bool {
        self.hears_answers
    }

    /// Does this policy want to know of writes what lies on an SSD and a hard drive?
    #[inline]
    pub(crate) fn knows_mirrors(&self, steer: Option<usize>) -> bool {
        self.balances && steer.is_some_and(|steer| self.shared[steer].policy.balances())
    }

    /// Policies that learn are told.
    pub(crate) fn tell(&mut self, seen: &Seen, io: &DeviceIo) {
        let now = io.now();
        for steer in self.shared.iter_mut().filter(|steer| steer.policy.learns()) {
            steer.policy.observe(now, seen);
        }
    }
}

fn ssd_view(device: &Device, io: &DeviceIo) -> SsdView {
    SsdView {
        device: device.id,
        queue_length: device.queue.length(),
        reads: device.reads(),
        waiting_bytes: device.queue.waiting_bytes(),
        in_flight_bytes: device.queue.in_flight_bytes(),
        written_bytes: device.queue.written_bytes(),
        oldest_ns: io.flights().oldest_ns(&device.queue, io.now()),
    }
}

/// What a log write of a drive takes by the model, in ns.
pub(crate) fn write_ns(device: &Device, state: WriteState, bytes: u64) -> u64 {
    let profile = device.bcw.as_ref().expect("it has a profile").profile();
    match state {
        WriteState::Fast => latency_ns(&profile.fast_latency, bytes),
        WriteState::Mid => latency_ns(&profile.mid_latency, bytes),
        WriteState::Slow => latency_ns(&profile.mid_latency, bytes) + profile.slow_latency_ns,
    }
}

/// What is before a write on a drive that is not idle, by the model, in ns: the log writes accepted, at
/// their mean size; reads a positioning each; a flush its cost. The oldest has run for `age_ns`.
fn wait_ns(device: &Device, age_ns: u64) -> u64 {
    let bcw = device.bcw.as_ref().expect("it has a profile");
    let bytes = device.queue.in_flight_bytes() + device.queue.waiting_bytes();
    let reads = device.reads().min(device.queue.length());
    let writes = u64::from(device.queue.length() - reads);
    let before = match bcw.control() {
        // so many, and again for each turn of the writes
        Control::OnDemand => {
            let turns = 1 + writes / u64::from(WRITES_IN_A_ROW_MAX);
            u64::from(reads).min(turns * u64::from(READS_IN_A_ROW_MAX))
        }
        _ => u64::from(reads),
    };
    let mut wait_ns = before * bcw.profile().position_ns;
    if let Some(mean) = bytes.checked_div(writes) {
        let state = match bcw.last_state() {
            // slow ones are counted below
            WriteState::Slow if bcw.control() == Control::OnDemand => WriteState::Mid,
            state => state,
        };
        wait_ns += writes * write_ns(device, state, mean);
    }
    wait_ns += bcw.slow_promised() * bcw.profile().slow_latency_ns;
    if bcw.state() == State::Syncing {
        wait_ns += bcw.flush_cost_ns();
    }
    wait_ns.saturating_sub(age_ns)
}

impl Steering {
    /// What the tier wants, and the policy's decision about a write.
    pub(crate) fn decide(
        &mut self,
        asked: &Asked<'_>,
        ledger: &Ledger,
        io: &mut DeviceIo,
    ) -> Decision {
        let Asked { request, bytes, intention, detours, .. } = *asked;
        assert!(
            bytes.is_multiple_of(BLOCK_BYTES) && bytes >= request.length_bytes,
            "a drive takes the whole blocks that a write touches"
        );
        if io.ssds().is_empty() {
            let target = Target::Log(io.hdds()[0]);
            return Decision { target, reason: Reason::NoSsd, expected: Expected::NOTHING };
        }
        if request.fua {
            return Decision::stay(Reason::Durability);
        }
        let policy = asked.steer.filter(|&steer| self.shared[steer].policy.is_asked());
        if policy.is_none() && intention != Intention::Hdd {
            return Decision::stay(Reason::Policy);
        }
        let mut hdds = std::mem::take(&mut self.hdds);
        let weighs = |steer: usize| self.shared[steer].policy.weighs_time();
        let weighs_time = io.hdds().len() > 1 || policy.is_some_and(weighs);
        self.view_hdds(asked, weighs_time, &mut hdds, io);
        let waits = intention == Intention::Hdd && !detours;
        let is_spare = |hdd: &&HddView| {
            let d = &io[hdd.device];
            waits || (d.reads() == 0 && d.flushing.is_none() && d.queue.background_in_flight() == 0)
        };
        let spare = hdds.iter().filter(is_spare).min_by_key(|hdd| hdd.expected_ns);
        let decision = match policy {
            _ if intention == Intention::Hdd && !hdds.is_empty() => {
                spare.map_or(Decision::stay(Reason::HddBusy), |hdd| Decision::go(hdd, Reason::Tier))
            }
            None => Decision::stay(Reason::Policy),
            Some(_) if hdds.is_empty() && request.class == DurabilityClass::Protected => {
                Decision::stay(Reason::Durability)
            }
            Some(steer) => {
                let decision = self.ask(steer, asked, &hdds, io);
                let steers = self.shared[steer].policy.control().is_some();
                if steers { ledger.within_budget(decision, &hdds, io) } else { decision }
            }
        };
        hdds.clear();
        self.hdds = hdds;
        decision
    }

    /// The hard drives that could take a log write of this size.
    fn view_hdds(
        &self,
        asked: &Asked<'_>,
        weighs_time: bool,
        views: &mut Vec<HddView>,
        io: &mut DeviceIo,
    ) {
        let (bytes, class) = (asked.bytes, asked.request.class);
        let tail_max = io.config().tail_bytes_max;
        let with_room = io.hdds_with_room();
        for at in 0..io.hdds().len() {
            let id = io.hdds()[at];
            let now = io.now();
            let age_ns = io.flights().oldest_ns(&io[id].queue, now);
            let device = &mut io[id];
            if class == DurabilityClass::Protected && device.is_volatile() {
                continue;
            }
            let takes_new = device.takes_new();
            let (Some(bcw), Some(log)) = (&mut device.bcw, &device.log) else { continue };
            let takes = takes_new
                && bytes <= bcw.write_bytes_max()
                && log.used_percent() < asked.log_percent
                && log.free_slots() >= bytes / BLOCK_BYTES
                && device.tail.bytes + bytes <= tail_max;
            if !takes {
                continue;
            }
            bcw.note_stand_in(with_room > u32::from(bcw.has_room()));
            let (accepting, mut predicted) = (bcw.accepting(now), bcw.predict(now, bytes));
            let promised = bcw.committed_bytes() + bytes;
            if bcw.control() != Control::Bare && log.breaks_within(promised / BLOCK_BYTES) {
                predicted = WriteState::Slow; // it would wait for the head
            }
            let takes_slow = bcw.takes_slow(now) && device.flushing.is_none();
            let idle = device.queue.length() == 0 && bcw.committed_bytes() == 0;
            let (mut wait, mut expected_ns) = (0, 0);
            if weighs_time {
                wait = if idle { 0 } else { wait_ns(device, age_ns) };
                expected_ns = wait + write_ns(device, predicted, bytes);
            }
            views.push(HddView {
                device: id,
                accepting,
                takes_slow,
                predicted,
                queue_length: device.queue.length(),
                idle,
                wait_ns: wait,
                expected_ns,
                reads_per_s: device.queue.reads_per_s(now),
            });
        }
    }
}

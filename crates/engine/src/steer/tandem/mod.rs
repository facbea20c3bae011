//! Where does this write go now? To a hard drive where that is sooner, or where it spares the SSD and users hardly
//! notice.
//!
//! Source:  frontier D0, a policy of our own. A redirected write is charged with all that it is expected to cost: its
//!          own time, slow writes that come unforeseen, reads of it that must go to the hard drive, and reads of others
//!          that it keeps waiting. Where that is less than the SSD's time the write goes. Where it is more, bytes of the
//!          SSD are bought with time. The operator says how much of it there is (`slowdown`), and the price per KiB
//!          follows from what is left.
//! Differs: from `ect`, which has a constant price and a constant cap. Nothing there pays for reads, or ends when users
//!          got slower.
//! Tests:   below, and of its parts in their files.

mod budget;
mod reads;
mod settings;
mod spared;

use self::budget::{Account, Lateness, Peak, Rights};
use self::reads::Reads;
use self::settings::{ALWAYS, OFF, READERS, READS, SETTINGS, SLOW, SPARED, STALLS, TAILS};
use self::spared::Spared;
use super::quantile::Quantile;
use super::settings::SteerConfig;
use super::ssd_curve::SsdCurve;
use super::{
    Answer, Decision, DriveProfiles, Expected, HddView, PolicyEntry, Reason, Seen, SsdView, Steer,
    SteerView,
};
use crate::bcw::controller::Control;
use crate::bcw::predictor::WriteState;
use crate::map::Logical;
use crate::port::ServedFrom;
use tandem_block::{DeviceId, Instant, KIB};

/// Registry line.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "tandem",
    summary: "to the side that costs users less time, and spares the SSD as far as they may be slowed down",
    source: "ours: expected cost of each side, within a budget of time",
    needs: (0, 1),
    settings: SETTINGS,
    build: |config, profiles| Box::new(Tandem::new(config, profiles)),
};

/// An SSD stalls when its oldest command is so much later than twice what is expected, in ns (as `ect`).
const STALL_SLACK_NS: u64 = 500_000;
/// A write is overdue, so that a log takes it as well, when it is so much later than twice what is expected, in ns
/// (guess).
const OVERDUE_SLACK_NS: u64 = 200_000;
/// How long a stall lasts until some were measured, in ns (as `ect`).
const STALL_NS: u64 = 10_000_000;
/// Of redirected writes one in so many may be later than the SSD's own p99.9: as many as on the SSD.
const LATE_WRITES: i64 = 1_000;
/// So many writes may be sent to a log as well at once (guess).
const HEDGED_MAX: i64 = 32;
/// Of all reads one in so many may be later than the SSD's own p99.9 because its data was redirected (guess: a fifth of
/// what is late by itself).
const LATE_READS: i64 = 5_000;
/// Before so many latencies of an SSD are known no write is later for the bytes' sake.
const KNOWN: u64 = 256;
/// The price is set anew after so many writes.
const PRICE_EVERY: u32 = 32;
/// Bounds of the price of 1 KiB, in ns.
const PRICE_NS: (u64, u64) = (16, 1_000_000);
/// The price rises where the account is fuller than this, and falls where it is emptier, in percent.
const FULL_PERCENT: u64 = 60;
const EMPTY_PERCENT: u64 = 25;
/// A write that must be a clear gain costs at most this part of the SSD's time.
const CLEAR_PART: u64 = 2;
/// One of so many writes that would gain goes to the SSD, so that it is known what that takes now.
const TRIED: u32 = 32;
/// Of the writes that a wrong alarm made later so many count.
const ALARM_MAX: u32 = 8;
/// What has fewer reads than this, of its reads and writes, counts as never read, in millionths.
const UNREAD_PPM: u64 = 600;
/// Weight of one sample of a share, as a power of two.
const SHARE_BITS: u32 = 6;
const SEEN_BITS: u32 = 4;
/// Share of the reads of redirected data that goes to a hard drive, until some were seen (guess: few, as what is read is
/// mostly read soon, from RAM. The account of reads knows better soon).
const FROM_LOG_PPM: u64 = PPM / 64;
const PPM: u64 = 1_000_000;

#[derive(Clone, Debug)]
struct Tandem {
    /// By device id.
    ssds: Vec<Option<KnownSsd>>,
    /// Writes that may be sent to a log as well.
    hedges: Rights,
    /// What a hard drive's arm takes to get to a place, and a slow write, in ns.
    position_ns: u64,
    slow_ns: u64,
    /// What a write costs readers that wait behind it, for each read in a second, in ns.
    behind_ns: u64,
    /// What users may lose.
    writes: Account,
    reads: Account,
    late_writes: Lateness,
    late_reads: Lateness,
    /// What they may take on average, in millionths of the SSD's time.
    slowdown_ppm: u64,
    detour: u64,
    without: u64,
    /// What bytes of the SSD are worth, in ns a KiB.
    price_ns: u64,
    decisions: u32,
    gains: u32,
    /// What SSDs have taken lately at most.
    write_peak: Peak,
    read_peak: Peak,
    /// Latencies of writes on SSDs, and of reads there.
    ssd_writes: Quantile,
    ssd_reads: Quantile,
    by_extent: Reads,
    /// What was last sent away from an SSD whose oldest command was overdue.
    alarm: Option<Alarm>,
    /// Share of the reads of redirected data that a hard drive served.
    from_log_ppm: u64,
    /// What these have taken lately, in ns.
    log_read_ns: u64,
    /// Share of FLUSHes and of writes with FUA among all writes.
    sync_ppm: u64,
    /// Share of the redirected writes that were slow although nobody foresaw it.
    slow_ppm: u64,
}

/// What is known of an SSD.
#[derive(Clone, Debug)]
struct KnownSsd {
    curve: SsdCurve,
    spared: Spared,
}

/// An SSD is taken to stall, and writes go elsewhere.
#[derive(Clone, Copy, Debug)]
struct Alarm {
    device: DeviceId,
    /// When the first of them went, and what it cost, in ns.
    at: Instant,
    cost_ns: u64,
    writes: u32,
}

/// What a redirected write costs users, in ns.
#[derive(Clone, Copy, Debug)]
struct Cost {
    total_ns: u64,
    /// Of that, reads to come.
    future_ns: u64,
}

/// What is expected of an SSD.
#[derive(Clone, Copy, Debug)]
struct SsdTime {
    device: DeviceId,
    total_ns: u64,
    stalled: bool,
    /// As much was in flight before.
    known: bool,
}

/// Moves a share towards what was seen: fast towards what costs users time, slowly back.
fn learn(share_ppm: &mut u64, seen: bool) {
    let bits = if seen { SEEN_BITS } else { SHARE_BITS };
    *share_ppm -= *share_ppm >> bits;
    *share_ppm += (PPM >> bits) * u64::from(seen);
}

/// Moves a share towards what was seen, both ways alike.
fn learn_slowly(share_ppm: &mut u64, seen: bool) {
    *share_ppm -= *share_ppm >> SHARE_BITS;
    *share_ppm += (PPM >> SHARE_BITS) * u64::from(seen);
}

/// So many millionths of a time, without a division of 128 bits, which would be half of a decision.
fn part_ns(ppm: u64, ns: u64) -> u64 {
    let whole = (ns / PPM).saturating_mul(ppm);
    whole.saturating_add((ns % PPM).saturating_mul(ppm) / PPM)
}

/// May a write to this drive be slow?
fn is_slow(hdd: &HddView) -> bool {
    !hdd.accepting || hdd.predicted == WriteState::Slow
}

impl Tandem {
    fn new(config: &SteerConfig, profiles: &DriveProfiles) -> Self {
        let mut ssds = Vec::new();
        for (device, profile) in &profiles.ssds {
            assert!(ssds.len() <= usize::from(device.0), "drives are listed by their ids");
            ssds.resize(usize::from(device.0), None);
            ssds.push(Some(KnownSsd {
                curve: SsdCurve::new(profile, STALL_NS).quick(),
                spared: Spared::new(profile.write_bytes_per_s),
            }));
        }
        let of_hdds = |value: fn(&crate::profile::HddProfile) -> u64| {
            profiles.hdds.iter().map(|(_, profile)| value(profile)).max().unwrap_or(0)
        };
        let position_ns = of_hdds(|profile| profile.position_ns);
        let away_us = position_ns / 1_000;
        let slowdown_ppm = config.get("slowdown");
        assert!(slowdown_ppm >= PPM, "nobody can ask for more than the SSD's speed");
        Tandem {
            ssds,
            hedges: Rights::new(config.get("hedge"), HEDGED_MAX),
            position_ns,
            behind_ns: away_us.saturating_mul(away_us) / 2_000,
            slow_ns: of_hdds(|profile| profile.slow_latency_ns),
            writes: Account::new(slowdown_ppm - PPM),
            reads: Account::new(slowdown_ppm - PPM),
            late_writes: Lateness::new(LATE_WRITES),
            late_reads: Lateness::new(LATE_READS),
            slowdown_ppm,
            detour: config.get("detour"),
            without: config.get("without"),
            price_ns: PRICE_NS.0,
            decisions: 0,
            gains: 0,
            write_peak: Peak::default(),
            read_peak: Peak::default(),
            ssd_writes: Quantile::new(999_000),
            ssd_reads: Quantile::new(999_000),
            by_extent: Reads::default(),
            alarm: None,
            from_log_ppm: FROM_LOG_PPM,
            log_read_ns: 0,
            sync_ppm: 0,
            slow_ppm: 0,
        }
    }

    fn known(&self, ssd: DeviceId) -> Option<&KnownSsd> {
        self.ssds.get(usize::from(ssd.0))?.as_ref()
    }

    fn known_mut(&mut self, ssd: DeviceId) -> Option<&mut KnownSsd> {
        self.ssds.get_mut(usize::from(ssd.0))?.as_mut()
    }

    fn expect(&self, ssd: &SsdView, bytes: u64) -> Option<SsdTime> {
        let curve = &self.known(ssd.device)?.curve;
        // what is read hardly keeps a write waiting, as the buffer takes it, and a unit of the journal waits for itself
        let backlog = ssd.written_bytes + ssd.waiting_bytes;
        let overdue = curve.is_overdue(ssd.oldest_ns, ssd.in_flight_bytes, STALL_SLACK_NS);
        // an SSD of which nobody has seen a stall reads for longer now and then
        let stalled = overdue && curve.has_stalled() && self.without != STALLS;
        let stall_ns = if stalled { curve.rest_of_stall_ns(ssd.oldest_ns) } else { 0 };
        let total_ns = curve.likely_ns(backlog + bytes) + stall_ns;
        let known = curve.knows(backlog + bytes);
        Some(SsdTime { device: ssd.device, total_ns, stalled, known })
    }

    /// What reads of a redirected write are expected to cost, in ns.
    fn future_ns(&self, logical: Logical) -> u64 {
        if self.without == READS {
            return 0;
        }
        // where readers have lost too much already, nothing is said in favour of a read
        let from_log_ppm = if self.readers_lost() { PPM } else { self.from_log_ppm };
        let probable_ppm = part_ns(from_log_ppm, self.by_extent.share_ppm(logical));
        part_ns(probable_ppm, self.position_ns.max(self.log_read_ns))
    }

    /// What a write to this hard drive costs users, in ns: its own time, that of reads to come, and that of reads that
    /// wait behind it.
    fn cost_ns(&self, hdd: &HddView, future_ns: u64) -> u64 {
        let slow_ns = match (hdd.accepting, hdd.predicted) {
            // the drive says so itself
            (true, WriteState::Slow) => 0,
            (true, WriteState::Fast | WriteState::Mid) => part_ns(self.slow_ppm, self.slow_ns),
            (false, WriteState::Slow) => 0,
            (false, WriteState::Fast | WriteState::Mid) => self.slow_ns,
        };
        // a read that comes while the arm is away waits for half of its way on average
        let reads_per_s = if self.without == READERS { 0 } else { hdd.reads_per_s };
        let behind_ns = reads_per_s.saturating_mul(self.behind_ns);
        // who waits for a FLUSH waits for the tail of the log, too
        let sync_ns = part_ns(self.sync_ppm, self.slow_ns / 2);
        let costs = [slow_ns, future_ns, behind_ns, sync_ns];
        costs.into_iter().fold(hdd.expected_ns, u64::saturating_add)
    }

    /// From which time on is a request late? From the SSD's own p99.9 on, as far as it may be slowed down. What is known
    /// of that is rounded up by an eighth.
    fn late_ns(&self, ssd: &Quantile) -> u64 {
        part_ns(self.slowdown_ppm, ssd.value() - ssd.value() / 8)
    }

    /// A command of an SSD ended. Of the writes that went elsewhere because it was overdue, were any later for that?
    fn check_alarm(&mut self, now: Instant, device: DeviceId) {
        let Some(alarm) = self.alarm.take_if(|alarm| alarm.device == device) else { return };
        if now.since(alarm.at).ns < alarm.cost_ns && alarm.cost_ns > self.write_peak.ns() {
            (0..alarm.writes).for_each(|_| self.late_writes.note(alarm.cost_ns));
        }
    }

    /// How much later a read would be if the SSD had got all writes, in ns.
    fn spared_readers_ns(&self) -> u64 {
        if self.without == SPARED {
            return 0;
        }
        let waits = self.ssds.iter().flatten().map(|ssd| ssd.spared.wait_ns());
        let wait_ns = waits.min().unwrap_or(0);
        // of the time of writes readers wait for a part
        let (reads, writes) = (self.reads.mean_ns(), self.writes.mean_ns().max(1));
        let part_ppm = (reads.min(writes)).saturating_mul(PPM) / writes;
        part_ns(part_ppm, wait_ns)
    }

    fn note_read(&mut self, answer: &Answer) {
        self.late_reads.earn();
        if answer.from == ServedFrom::Ram && !answer.from_read_back {
            // nothing was ever written there, which is a read of users' all the same
            self.ssd_reads.add(answer.latency_ns);
            self.read_peak.add(answer.latency_ns);
            return;
        }
        self.by_extent.note(answer.logical, true);
        match answer.from {
            ServedFrom::HddLog => {
                learn(&mut self.from_log_ppm, true);
                let wait_ns = self.spared_readers_ns();
                self.reads.settle(answer.latency_ns, self.reads.mean_ns() + wait_ns);
                if answer.latency_ns > self.read_peak.ns() + wait_ns {
                    self.late_reads.note(answer.latency_ns);
                }
                let read_ns = answer.latency_ns.saturating_sub(wait_ns);
                self.log_read_ns = self.log_read_ns - self.log_read_ns / 16 + read_ns / 16;
            }
            ServedFrom::Ssd | ServedFrom::SsdCopy => {
                self.ssd_reads.add(answer.latency_ns);
                self.read_peak.add(answer.latency_ns);
                self.reads.earn(answer.latency_ns);
                // it would have waited behind what went elsewhere
                self.reads.give_back(self.spared_readers_ns() / 2);
            }
            ServedFrom::HddHome => {
                self.ssd_reads.add(answer.latency_ns);
                self.reads.allow(answer.latency_ns);
            }
            ServedFrom::Ram => {
                self.ssd_reads.add(self.reads.mean_ns());
                learn(&mut self.from_log_ppm, false);
            }
        }
    }

    /// A write, or somebody who wants what was written to be durable at once.
    fn note_sync(&mut self, is_one: bool) {
        learn_slowly(&mut self.sync_ppm, is_one);
    }

    fn note_write(&mut self, answer: &Answer) {
        let Expected { ns: expected_ns, ssd_ns } = answer.expected;
        if answer.is_returned {
            let ssds = self.ssds.iter_mut().flatten().map(|ssd| &mut ssd.spared);
            if let Some(spared) = ssds.max_by_key(|spared| spared.wait_ns()) {
                spared.take_back(answer.bytes);
            }
        }
        if ssd_ns == 0 && !answer.is_of_hdd() {
            // with FUA, or of somebody else: it says nothing of what others take
            self.note_sync(true);
            self.writes.allow(answer.latency_ns);
            return;
        }
        let is_ssds = !answer.is_of_hdd() || answer.is_hedged;
        if is_ssds && !answer.is_returned {
            self.ssd_writes.add(answer.latency_ns);
            self.write_peak.add(answer.latency_ns);
            self.writes.earn(answer.latency_ns);
            self.late_writes.forget();
            return;
        }
        if ssd_ns == 0 {
            // somebody else sent it there
            return;
        }
        self.writes.give_back(expected_ns.saturating_sub(ssd_ns));
        self.writes.settle(answer.latency_ns, ssd_ns);
        let is_worse = answer.latency_ns > ssd_ns.saturating_mul(2);
        self.late_writes.earn();
        let allowed_ns = part_ns(self.slowdown_ppm, ssd_ns.max(self.write_peak.ns()));
        if answer.latency_ns > allowed_ns {
            self.late_writes.note(answer.latency_ns);
        }
        if !answer.is_returned {
            learn(&mut self.slow_ppm, is_worse && answer.latency_ns > self.slow_ns / 2);
        }
    }

    fn set_price(&mut self) {
        self.decisions += 1;
        if self.decisions < PRICE_EVERY {
            return;
        }
        self.decisions = 0;
        self.late_writes.count_from(self.late_ns(&self.ssd_writes));
        self.late_reads.count_from(self.late_ns(&self.ssd_reads));
        // what nobody sees any more is forgotten
        self.slow_ppm -= self.slow_ppm / 32;
        let full_percent = self.writes.full_percent();
        if full_percent > FULL_PERCENT {
            self.price_ns += (self.price_ns / 4).max(1);
        } else if full_percent < EMPTY_PERCENT {
            self.price_ns -= self.price_ns / 4;
        }
        self.price_ns = self.price_ns.clamp(PRICE_NS.0, PRICE_NS.1);
    }

    /// Were readers slowed down further than they may be?
    fn readers_lost(&self) -> bool {
        self.reads.is_spent() || self.are_late(&self.late_reads)
    }

    /// Was anybody?
    fn is_spent(&self) -> bool {
        self.writes.is_spent() || self.are_late(&self.late_writes) || self.readers_lost()
    }

    fn are_late(&self, requests: &Lateness) -> bool {
        self.without != TAILS && requests.is_spent()
    }

    /// Why this write goes to the hard drive that costs so much, or why it does not.
    fn weigh(&self, ssd: SsdTime, hdd: &HddView, cost: Cost, view: &SteerView<'_>) -> Reason {
        let cost_ns = cost.total_ns;
        if !(ssd.known || ssd.stalled) {
            return Reason::Learning;
        }
        // whatever writers gain: readers do not pay for it
        let keeps = self.readers_lost() && self.by_extent.share_ppm(view.logical) > UNREAD_PPM;
        let now_ns = cost_ns - cost.future_ns;
        let is_gain = now_ns.saturating_mul(CLEAR_PART) <= ssd.total_ns;
        let may_detour = self.detour != OFF && view.detours_have_room;
        let wants = keeps || cost_ns > ssd.total_ns || self.detour == ALWAYS;
        if wants && is_gain && may_detour {
            return Reason::Detour;
        }
        if self.detour == ALWAYS {
            return Reason::SsdSooner;
        }
        if keeps {
            return Reason::OverBudget;
        }
        if self.is_spent() && cost_ns.saturating_mul(CLEAR_PART) > ssd.total_ns {
            return Reason::OverBudget;
        }
        if cost_ns <= ssd.total_ns {
            return if ssd.stalled { Reason::Stalled } else { Reason::HddSooner };
        }
        if is_slow(hdd) {
            return Reason::Resting;
        }
        let loss_ns = cost_ns - ssd.total_ns;
        let price_ns = self.price_ns.saturating_mul(view.bytes) / KIB;
        if loss_ns > price_ns {
            return Reason::SsdSooner;
        }
        if loss_ns > self.writes.left_ns() {
            return Reason::OverBudget;
        }
        if self.ssd_writes.total() < KNOWN {
            return Reason::Learning;
        }
        if hdd.expected_ns > self.late_ns(&self.ssd_writes) {
            return Reason::OverCap;
        }
        Reason::Wear
    }
}

impl Steer for Tandem {
    fn decide(&mut self, view: &SteerView<'_>) -> Decision {
        self.by_extent.note(view.logical, false);
        self.set_price();
        let expected = view.ssds.iter().filter_map(|ssd| self.expect(ssd, view.bytes));
        let Some(ssd) = expected.min_by_key(|e| (e.total_ns, e.device)) else {
            return Decision::stay(Reason::SsdSooner);
        };
        for view_of in view.ssds {
            if let Some(known) = self.known_mut(view_of.device) {
                known.spared.idle_until(view.now, view_of.oldest_ns);
            }
        }
        self.hedges.earn();
        self.note_sync(false);
        let on_ssd = Expected { ns: ssd.total_ns, ssd_ns: ssd.total_ns };
        let stay = |reason| Decision::on(ssd.device, reason).expecting(on_ssd);
        if view.hdds.is_empty() {
            return stay(Reason::SsdSooner);
        }
        let takes_slow = self.without != SLOW;
        let ready = view.hdds.iter().filter(|hdd| hdd.accepting || hdd.takes_slow && takes_slow);
        let future_ns = self.future_ns(view.logical);
        let costs = ready.map(|hdd| (self.cost_ns(hdd, future_ns), hdd.device, hdd));
        let Some((cost_ns, _, hdd)) = costs.min_by_key(|(cost, device, _)| (*cost, *device)) else {
            // only an SSD that takes longer is reason enough to take a drive out of its rest
            let urgent = ssd.total_ns > self.slow_ns;
            return stay(if urgent { Reason::NotAccepting } else { Reason::Resting });
        };
        let cost = Cost { total_ns: cost_ns, future_ns };
        let reason = self.weigh(ssd, hdd, cost, view);
        if !reason.redirects() {
            return stay(reason);
        }
        if reason == Reason::HddSooner {
            self.gains = (self.gains + 1) % TRIED;
            if self.gains == 0 {
                return stay(Reason::Learning);
            }
        }
        if reason == Reason::Stalled {
            let (device, at) = (ssd.device, view.now);
            let first = Alarm { device, at, cost_ns, writes: 0 };
            let alarm = self.alarm.get_or_insert(first);
            alarm.writes = alarm.writes.saturating_add(1).min(ALARM_MAX);
        }
        let expected = Expected { ns: hdd.expected_ns, ssd_ns: ssd.total_ns };
        self.writes.reserve(expected.ns.saturating_sub(expected.ssd_ns));
        if reason != Reason::Detour
            && let Some(known) = self.known_mut(ssd.device)
        {
            known.spared.add(view.bytes);
        }
        Decision::go(hdd, reason).expecting(expected)
    }

    fn control(&self) -> Option<Control> {
        Some(Control::OnDemand)
    }

    fn learns(&self) -> bool {
        true
    }

    fn hears_answers(&self) -> bool {
        true
    }

    fn hedges(&self) -> bool {
        true
    }

    fn note_hedge(&mut self) {
        self.hedges.spend();
    }

    fn overdue_ns(&self, ssd: &SsdView) -> Option<u64> {
        if !self.hedges.has_one() {
            return None;
        }
        let curve = &self.known(ssd.device)?.curve;
        Some(curve.latency_ns(ssd.in_flight_bytes).saturating_mul(2) + OVERDUE_SLACK_NS)
    }

    fn observe(&mut self, now: Instant, seen: &Seen) {
        if let Seen::Completion { device, read, bytes, latency_ns, .. } = *seen
            && let Some(known) = self.known_mut(device)
        {
            known.spared.ended(now, latency_ns, if read { 0 } else { bytes });
        }
        if let Seen::Completion { device, latency_ns, .. } = *seen
            && latency_ns > STALL_SLACK_NS
        {
            self.check_alarm(now, device);
        }
        match *seen {
            Seen::Completion {
                device,
                read: false,
                is_users: true,
                latency_ns,
                written_bytes,
                ..
            } => {
                if let Some(known) = self.known_mut(device) {
                    known.curve.learn(written_bytes, latency_ns, STALL_SLACK_NS);
                }
            }
            Seen::Answer(answer) if answer.read => self.note_read(&answer),
            Seen::Answer(answer) => self.note_write(&answer),
            Seen::Flush { .. } => self.note_sync(true),
            Seen::Completion { .. } | Seen::Arrival { .. } => {}
        }
    }

    fn boxed_clone(&self) -> Box<dyn Steer> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::SsdProfile;
    use crate::steer::test_views::{hdd, hdd_profile, ssd, view};

    const HDD: DeviceId = DeviceId(1);

    /// 20 us for 4 KiB, then 300 MB/s. A way of the arm takes 8 ms, a slow write 12 ms.
    fn tandem(slowdown_ppm: u64) -> Tandem {
        let ssd = SsdProfile { flush_ns: 1_000_000, ..SsdProfile::default() };
        let hdd = hdd_profile();
        let profiles = DriveProfiles { ssds: vec![(DeviceId(0), ssd)], hdds: vec![(HDD, hdd)] };
        let mut config = SteerConfig::named("tandem");
        config.set("slowdown", slowdown_ppm).expect("within the bounds");
        let mut tandem = Tandem::new(&config, &profiles);
        let curve = &mut tandem.ssds[0].as_mut().expect("it has one").curve;
        for bytes in (12..=20).map(|bits| 1u64 << bits) {
            (0..8).for_each(|_| curve.learn(bytes, curve.latency_ns(bytes), STALL_SLACK_NS));
        }
        tandem
    }

    /// An SSD that so much is being written to.
    fn busy_ssd(bytes: u64) -> SsdView {
        SsdView { in_flight_bytes: bytes, written_bytes: bytes, ..ssd(0, 1) }
    }

    /// A write of 4 KiB on the SSD that met a stall.
    fn stall(latency_ns: u64) -> Seen {
        Seen::Completion {
            device: DeviceId(0),
            read: false,
            is_users: true,
            bytes: 4096,
            latency_ns,
            queue_length: 0,
            in_flight_bytes: 4096,
            written_bytes: 4096,
        }
    }

    fn write_answered(redirected: bool, latency_ns: u64, expected: Expected) -> Seen {
        let from = if redirected { ServedFrom::HddLog } else { ServedFrom::Ssd };
        Seen::Answer(Answer { from, bytes: 4096, latency_ns, expected, ..Answer::default() })
    }

    fn read_answered(logical: Logical, from: ServedFrom, latency_ns: u64) -> Seen {
        let answer = Answer { read: true, from, logical, bytes: 4096, ..Answer::default() };
        Seen::Answer(Answer { latency_ns, ..answer })
    }

    #[test]
    fn who_is_sooner_has_the_write() {
        // bytes before it on the SSD, age of its oldest command, what the hard drive takes, why
        for (in_flight_bytes, oldest_ns, expected_ns, want) in [
            (0, 0, 20_000, Reason::HddSooner),
            (0, 0, 60_000, Reason::SsdSooner),
            (1 << 20, 3_000_000, 3_000_000, Reason::HddSooner),
            (4096, 600_000, 2_000_000, Reason::Stalled),
            (4096, 500_000, 2_000_000, Reason::SsdSooner),
        ] {
            let (mut drive, mut other) = (hdd(1), busy_ssd(in_flight_bytes));
            (drive.expected_ns, other.oldest_ns) = (expected_ns, oldest_ns);
            let (ssds, hdds) = ([other], [drive]);
            let mut tandem = tandem(1_050_000);
            tandem.observe(Instant::ZERO, &stall(10_000_000));
            let decision = tandem.decide(&view(&ssds, &hdds));
            assert_eq!(decision.reason, want, "{in_flight_bytes} {oldest_ns} {expected_ns}");
            assert_eq!(decision.target.is_log(), want.redirects());
            assert!(decision.expected.ssd_ns >= 20_000, "what the SSD would take is told");
        }
    }

    /// Who was sent away from an SSD that was ready at once was late for nothing.
    #[test]
    fn a_wrong_alarm_counts_as_late() {
        let (mut drive, mut other) = (hdd(1), ssd(0, 1));
        (drive.expected_ns, other.oldest_ns) = (180_000, 600_000);
        let (ssds, hdds) = ([other], [drive]);
        let mut view = view(&ssds, &hdds);
        for (after_us, is_late) in [(100, true), (9_000, false)] {
            let mut tandem = tandem(1_050_000);
            assert_eq!(tandem.decide(&view).reason, Reason::SsdSooner, "it never stalled");
            tandem.observe(Instant::ZERO, &stall(10_000_000));
            for _ in 0..4 {
                view.now = Instant::from_ns(1_000_000_000);
                assert_eq!(tandem.decide(&view).reason, Reason::Stalled);
            }
            let ends = Instant::from_ns(1_000_000_000 + after_us * 1_000);
            tandem.observe(ends, &stall(600_000 + after_us * 1_000));
            assert_eq!(tandem.late_writes.is_spent(), is_late, "{after_us} us later");
        }
    }

    #[test]
    fn a_drive_that_is_not_ready_or_would_be_slow_is_left_alone() {
        for (accepting, predicted, oldest_ns, want) in [
            (false, WriteState::Fast, 0, Reason::Resting),
            (true, WriteState::Slow, 0, Reason::Resting),
            (false, WriteState::Fast, 20_000_000, Reason::NotAccepting),
        ] {
            let (mut drive, mut other) = (hdd(1), ssd(0, 1));
            (drive.accepting, drive.predicted) = (accepting, predicted);
            other.oldest_ns = oldest_ns;
            let (ssds, hdds) = ([other], [drive]);
            let mut tandem = tandem(1_050_000);
            tandem.observe(Instant::ZERO, &stall(10_000_000));
            assert_eq!(tandem.decide(&view(&ssds, &hdds)).reason, want);
        }
    }

    /// Where a write to the hard drive takes 15 us longer, so much of it is bought as the operator allows. One in a hundred
    /// takes 120 us on the SSD, so that nobody sees one of 35 us.
    #[test]
    fn bytes_are_bought_with_the_time_that_there_is() {
        let mut shares = Vec::new();
        for slowdown_ppm in [1_000_000, 1_050_000, 1_200_000, 3_000_000] {
            let mut tandem = tandem(slowdown_ppm);
            let (ssds, hdds) = ([ssd(0, 0)], [hdd(1)]);
            let (mut redirected, mut total_ns) = (0u64, 0u64);
            for number in 0..50_000 {
                let decision = tandem.decide(&view(&ssds, &hdds));
                let is_redirected = decision.target.is_log();
                let ssd_ns = if number % 100 == 0 { 120_000 } else { 20_000 };
                let took_ns = if is_redirected { 35_000 } else { ssd_ns };
                redirected += u64::from(is_redirected);
                total_ns += took_ns;
                let answered = write_answered(is_redirected, took_ns, decision.expected);
                tandem.observe(Instant::ZERO, &answered);
            }
            let allowed_ns = 50_000 * 21_000 / 1_000_000 * slowdown_ppm;
            assert!(total_ns <= allowed_ns + allowed_ns / 50, "{slowdown_ppm}: {total_ns} ns");
            shares.push(redirected * 100 / 50_000);
        }
        assert_eq!(shares[0], 0, "nothing may take longer");
        assert!((4..=9).contains(&shares[1]), "5 % of 20 us, at 15 us each: {shares:?}");
        assert!((20..=30).contains(&shares[2]), "{shares:?}");
        assert!(shares[3] >= 95, "there is time for all of them: {shares:?}");
    }

    /// A drive that would be slow is better than an SSD that takes even longer.
    #[test]
    fn a_slow_write_is_taken_only_where_the_ssd_is_slower_still() {
        for (accepting, predicted, expected_ns, queued_bytes, want) in [
            (true, WriteState::Slow, 12_055_000, 1 << 20, Reason::Resting),
            (true, WriteState::Slow, 12_055_000, 8 << 20, Reason::HddSooner),
            // the slow write is not in what is expected of it
            (false, WriteState::Fast, 35_000, 1 << 20, Reason::Resting),
            (false, WriteState::Fast, 35_000, 8 << 20, Reason::HddSooner),
        ] {
            let (mut drive, other) = (hdd(1), busy_ssd(queued_bytes));
            (drive.accepting, drive.takes_slow) = (accepting, true);
            (drive.predicted, drive.expected_ns) = (predicted, expected_ns);
            let (ssds, hdds) = ([other], [drive]);
            let decision = tandem(1_050_000).decide(&view(&ssds, &hdds));
            assert_eq!(decision.reason, want, "{accepting} {predicted:?} {queued_bytes}");
        }
    }

    #[test]
    fn what_is_read_often_stays() {
        let mut tandem = tandem(1_050_000);
        for _ in 0..100 {
            tandem.observe(Instant::ZERO, &read_answered(0, ServedFrom::Ssd, 80_000));
        }
        let (ssds, mut hdds) = ([ssd(0, 0)], [hdd(1)]);
        hdds[0].expected_ns = 10_000;
        let mut view = view(&ssds, &hdds);
        assert_eq!(tandem.decide(&view).reason, Reason::SsdSooner, "reads would go to the arm");
        view.logical = 1 << 30;
        (0..1_000).for_each(|_| tandem.by_extent.note(view.logical, false));
        assert_eq!(tandem.decide(&view).reason, Reason::HddSooner, "nobody reads it");
    }

    #[test]
    fn reads_that_the_hard_drive_serves_are_not_held_up() {
        let (ssds, mut hdds) = ([ssd(0, 0)], [hdd(1)]);
        for (reads_per_s, want) in [(0, Reason::HddSooner), (20, Reason::SsdSooner)] {
            (hdds[0].expected_ns, hdds[0].reads_per_s) = (10_000, reads_per_s);
            assert_eq!(tandem(1_050_000).decide(&view(&ssds, &hdds)).reason, want, "{reads_per_s}");
        }
    }

    /// Writes or reads that were late by far close the way, except for a clear gain, until they are made up for.
    #[test]
    fn users_that_were_slowed_down_are_not_slowed_down_further() {
        let expected = Expected { ns: 18_000, ssd_ns: 20_000 };
        let late_write = write_answered(true, 50_000_000, expected);
        let late_read = read_answered(0, ServedFrom::HddLog, 50_000_000);
        for late in [late_write, late_read] {
            let mut tandem = tandem(1_050_000);
            let (ssds, mut hdds) = ([ssd(0, 0)], [hdd(1)]);
            hdds[0].expected_ns = 18_000;
            let mut view = view(&ssds, &hdds);
            view.logical = 1 << 30;
            assert_eq!(tandem.decide(&view).reason, Reason::HddSooner);
            (0..4).for_each(|_| tandem.observe(Instant::ZERO, &late));
            (0..2_000).for_each(|_| tandem.by_extent.note(view.logical, false));
            tandem.slow_ppm = 0;
            assert_eq!(tandem.decide(&view).reason, Reason::OverBudget);
            let queued = [busy_ssd(1 << 20)];
            let busy = SteerView { ssds: &queued, ..view };
            assert_eq!(tandem.decide(&busy).reason, Reason::HddSooner, "a clear gain");
            let on_ssd = Expected { ns: 20_000, ssd_ns: 20_000 };
            for _ in 0..1_000_000 {
                tandem.observe(Instant::ZERO, &write_answered(false, 20_000, on_ssd));
                tandem.observe(Instant::ZERO, &read_answered(1, ServedFrom::Ssd, 20_000));
            }
            (0..2_000).for_each(|_| tandem.by_extent.note(view.logical, false));
            assert_eq!(tandem.decide(&view).reason, Reason::HddSooner, "it was made up for");
        }
    }

    /// Writes of the engine itself are no user's, and teach nothing.
    #[test]
    fn only_users_writes_are_learned_from() {
        for (is_users, want) in [(false, Reason::SsdSooner), (true, Reason::HddSooner)] {
            let mut tandem = tandem(1_000_000);
            for _ in 0..200 {
                let seen = Seen::Completion {
                    device: DeviceId(0),
                    read: false,
                    is_users,
                    bytes: 4096,
                    latency_ns: 200_000,
                    queue_length: 0,
                    in_flight_bytes: 4096,
                    written_bytes: 4096,
                };
                tandem.observe(Instant::ZERO, &seen);
            }
            let (ssds, hdds) = ([ssd(0, 0)], [hdd(1)]);
            assert_eq!(tandem.decide(&view(&ssds, &hdds)).reason, want);
        }
    }
}

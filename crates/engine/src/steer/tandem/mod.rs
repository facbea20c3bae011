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
//! Tests:   `tests.rs`, and of its parts in their files.

mod budget;
mod reads;
mod settings;
mod spared;
mod ssds;

use self::budget::{Account, Lateness, Peak, Rights};
use self::reads::Reads;
use self::settings::{ALWAYS, OFF, READERS, READS, SETTINGS, SLOW, SPARED, STALLS, TAILS};
use self::ssds::{STALL_SLACK_NS, SsdTime, Ssds};
use super::quantile::Quantile;
use super::settings::SteerConfig;
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
    ssds: Ssds,
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
        let without = config.get("without");
        let of_hdds = |value: fn(&crate::profile::HddProfile) -> u64| {
            profiles.hdds.iter().map(|(_, profile)| value(profile)).max().unwrap_or(0)
        };
        let position_ns = of_hdds(|profile| profile.position_ns);
        let away_us = position_ns / 1_000;
        let slowdown_ppm = config.get("slowdown");
        assert!(slowdown_ppm >= PPM, "nobody can ask for more than the SSD's speed");
        Tandem {
            ssds: Ssds::new(profiles, without != STALLS),
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
            without,
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
        let wait_ns = self.ssds.spared_ns();
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
            self.ssds.take_back(answer.bytes);
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
        let expected = view.ssds.iter().filter_map(|ssd| self.ssds.expect(ssd, view.bytes));
        let Some(ssd) = expected.min_by_key(|e| (e.total_ns, e.device)) else {
            return Decision::stay(Reason::SsdSooner);
        };
        view.ssds.iter().for_each(|ssd| self.ssds.look(view.now, ssd));
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
        if reason != Reason::Detour {
            self.ssds.spare(ssd.device, view.bytes);
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
        if self.hedges.has_one() { self.ssds.overdue_ns(ssd) } else { None }
    }

    fn observe(&mut self, now: Instant, seen: &Seen) {
        if let Seen::Completion { device, read, bytes, latency_ns, .. } = *seen {
            self.ssds.ended(now, device, latency_ns, if read { 0 } else { bytes });
            if latency_ns > STALL_SLACK_NS {
                self.check_alarm(now, device);
            }
        }
        match *seen {
            Seen::Completion {
                device,
                read: false,
                is_users: true,
                latency_ns,
                written_bytes,
                ..
            } => self.ssds.learn(device, written_bytes, latency_ns),
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
mod tests;

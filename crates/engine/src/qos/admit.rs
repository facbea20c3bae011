//! Does the promise fit?
//!
//! Source: [IANUS §4.2]: utilisations are added up, and the sum may not exceed the drive. Refused,
//! not warned of, with the figure that would fit (peers, threads 48 and 49). Over-committed, everyone
//! gets the proportion of what was asked for.

use super::cost::{CostError, CostTable, Kind};
use super::reserve::{Does, Promise, QosConfig, Rate, WHOLE_PPB};
use tandem_block::{DeviceId, Duration};

/// Why a promise is not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AdmitError {
    /// Nothing is known of the drive's costs.
    #[error(
        "stream {stream}: nothing can be promised on device {device}: it has no cost profile; \
         measure one with `tandem profile --costs`"
    )]
    NoProfile {
        /// Which stream.
        stream: String,
        /// Which device.
        device: u8,
    },
    /// The profile does not say.
    #[error("stream {stream}: {why}")]
    Profile {
        /// Which stream.
        stream: String,
        /// Why.
        why: CostError,
    },
    /// The worst window was empty.
    #[error(
        "stream {stream}: over windows of {window} the drive may do nothing at all at this \
         confidence{}",
        .fits.map_or(String::new(), |fits| format!("; windows of {fits} would do"))
    )]
    Nothing {
        /// Which stream.
        stream: String,
        /// Its window.
        window: Duration,
        /// The shortest profiled window that would do.
        fits: Option<Duration>,
    },
    /// The sum is above the drive.
    #[error(
        "stream {stream} needs {}% of the drive, and {}% are promised already: {}% more than there \
         is; {}{}",
        percent(*.needed_ppb), percent(*.taken_ppb),
        percent((*.needed_ppb + *.taken_ppb).saturating_sub(WHOLE_PPB)),
        .fits.map_or("nothing would fit".to_owned(), |rate| format!("{rate} would fit")),
        .window.map_or(String::new(), |window| format!(", or this rate over windows of {window}"))
    )]
    Sum {
        /// The first stream that does not fit.
        stream: String,
        /// What it needs.
        needed_ppb: u64,
        /// What those before it have.
        taken_ppb: u64,
        /// The rate that would fit at its window.
        fits: Option<Rate>,
        /// The shortest longer window at which its rate would fit.
        window: Option<Duration>,
    },
}

impl AdmitError {
    /// The stream that it is about.
    pub fn stream(&self) -> &str {
        match self {
            AdmitError::NoProfile { stream, .. }
            | AdmitError::Profile { stream, .. }
            | AdmitError::Nothing { stream, .. }
            | AdmitError::Sum { stream, .. } => stream,
        }
    }
}

/// Whose time is shared: a single drive does everything, a pair reads on one and writes on the other
/// ([IANUS §5.4]), so that each side is a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Everything.
    All,
    /// The reads of a pair.
    Reads,
    /// … and everything else.
    Writes,
}

impl Side {
    /// The sides of a device.
    pub fn of(is_pair: bool) -> &'static [Side] {
        if is_pair { &[Side::Reads, Side::Writes] } else { &[Side::All] }
    }

    /// What one of the promise's requests costs on this side, by these costs; `None`: none come here.
    pub(crate) fn cost_ns(
        self,
        promise: &Promise,
        cost_ns: &dyn Fn(Kind, u64) -> u64,
    ) -> Option<u64> {
        let does = match (self, promise.does) {
            (Side::Reads, Does::Write) | (Side::Writes, Does::Read) => return None,
            (Side::Reads, _) => Does::Read,
            (Side::Writes, _) => Does::Write,
            (Side::All, does) => does,
        };
        Some(Promise { does, ..*promise }.cost_by(cost_ns))
    }
}

/// Hundredths of a percent, rounded up.
fn percent(ppb: u64) -> String {
    let hundredths = ppb.div_ceil(WHOLE_PPB / 10_000);
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// The share that each stream needs of one side of a device, in billionths; 0 without a promise, and of
/// a side where it does nothing. Background work has its own beside them. More than a whole in all only
/// where over-committing is allowed.
///
/// # Errors
/// The first stream that cannot be promised what it asks for.
pub fn asked(config: &QosConfig, device: DeviceId, side: Side) -> Result<Vec<u64>, AdmitError> {
    let mut taken_ppb = config.background_ppb;
    let mut shares = Vec::with_capacity(config.streams.len());
    for stream in &config.streams {
        let Some(promise) = &stream.promise else {
            shares.push(0);
            continue;
        };
        let name = || stream.name.clone();
        let Some(table) = config.costs_of(device) else {
            return Err(AdmitError::NoProfile { stream: name(), device: device.0 });
        };
        let cost_ns = cost(promise, promise.window, (table, config.depth), side)
            .map_err(|why| AdmitError::Profile { stream: name(), why })?;
        let Some(cost_ns) = cost_ns else {
            shares.push(0);
            continue;
        };
        let Some(needed_ppb) = promise.share_ppb(cost_ns) else {
            let fits = longer(promise, (table, config.depth), side, |_| true);
            return Err(AdmitError::Nothing { stream: name(), window: promise.window, fits });
        };
        let left_ppb = WHOLE_PPB.saturating_sub(taken_ppb);
        if needed_ppb > left_ppb && !config.overcommit {
            let count = left_ppb / cost_ns;
            let fits = (count > 0).then(|| promise.rate.of_requests(count, promise.size_bytes));
            let window = longer(promise, (table, config.depth), side, |ppb| ppb <= left_ppb);
            return Err(AdmitError::Sum { stream: name(), needed_ppb, taken_ppb, fits, window });
        }
        taken_ppb = taken_ppb.saturating_add(needed_ppb);
        shares.push(needed_ppb);
    }
    assert!(shares.len() == config.streams.len(), "each stream was asked");
    Ok(shares)
}

/// What is given of what was asked for: all of it, or where that is more than there is each its
/// proportion, which is isolation alone.
pub(crate) fn scaled(asked_ppb: &[u64], background_ppb: u64) -> Vec<u64> {
    let sum: u128 = asked_ppb.iter().map(|ppb| u128::from(*ppb)).sum();
    let sum = (sum + u128::from(background_ppb)).max(u128::from(WHOLE_PPB));
    let scale = |ppb: &u64| {
        let part = u128::from(*ppb) * u128::from(WHOLE_PPB) / sum;
        u64::try_from(part).expect("at most a whole").max(u64::from(*ppb > 0))
    };
    asked_ppb.iter().map(scale).collect()
}

/// What one of the promise's requests costs over windows of this length, in ns; `None`: it has none on
/// this side.
fn cost(
    promise: &Promise,
    window: Duration,
    (table, depth): (&CostTable, u32),
    side: Side,
) -> Result<Option<u64>, CostError> {
    let curve = table.curve(window, promise.confidence_ppm, depth)?;
    Ok(side.cost_ns(promise, &|kind, bytes| curve.cost_ns(kind, bytes)))
}

/// The shortest profiled window above the promise's at which its share is as wanted.
fn longer(
    promise: &Promise,
    known: (&CostTable, u32),
    side: Side,
    wanted: impl Fn(u64) -> bool,
) -> Option<Duration> {
    let longer = known.0.windows().filter(|window| *window > promise.window);
    longer.into_iter().find(|window| {
        let cost = cost(promise, *window, known, side).ok().flatten();
        cost.and_then(|cost| promise.share_ppb(cost)).is_some_and(&wanted)
    })
}

#[cfg(test)]
mod tests {
    use super::super::cost::{CostRow, Kind, UNBOUNDED_NS};
    use super::super::reserve::{Does, Selector, StreamConfig};
    use super::*;
    use std::sync::Arc;
    use tandem_block::{KIB, StreamId};

    const LARGE: u64 = 256 * KIB;

    /// Drive B as the paper's numbers imply it: reads 1,050 a second of both kinds at any window, so
    /// that 525 are half of the drive; at 10 s writes of which 100 are the other half, at 1 s
    /// sequential writes of which 50 are 61 % and random ones of which 50 are 60 %.
    fn drive_b() -> CostTable {
        let row = |read, sequential, cost_ns: [u64; 2]| CostRow {
            kind: Kind { read, sequential },
            size_bytes: LARGE,
            depth: 31,
            mean_ns: cost_ns[1],
            cost_ns: cost_ns.to_vec(),
        };
        CostTable {
            windows_ns: vec![1_000_000_000, 10_000_000_000],
            confidences_ppm: vec![950_000],
            range_bytes: 0,
            rows: vec![
                row(true, false, [950_000, 950_000]),
                row(true, true, [950_000, 950_000]),
                row(false, false, [12_000_000, 4_950_000]),
                row(false, true, [12_200_000, 4_950_000]),
            ],
        }
    }

    fn stream(does: Does, sequential: bool, rate: u64, window_s: u64) -> StreamConfig {
        let window = Duration::from_s(window_s);
        let promise =
            Promise { does, sequential, window, ..Promise::of(Rate::Requests(rate), LARGE) };
        StreamConfig {
            name: format!("{does:?}-{sequential}"),
            of: Selector::Stream(StreamId(u32::from(sequential) + 2 * rate as u32)),
            promise: Some(promise),
            weight: None,
            limit: None,
        }
    }

    /// I9: 250 and 275 reads, 50 and 50 writes a second.
    fn four(window_s: u64) -> QosConfig {
        QosConfig {
            streams: vec![
                stream(Does::Read, false, 250, window_s),
                stream(Does::Read, true, 275, window_s),
                stream(Does::Write, false, 50, window_s),
                stream(Does::Write, true, 50, window_s),
            ],
            background_ppb: 0,
            costs: vec![Some(Arc::new(drive_b()))],
            ..QosConfig::default()
        }
    }

    #[test]
    fn i9_over_ten_seconds_the_four_streams_fill_the_drive() {
        let shares = asked(&four(10), DeviceId(0), Side::All).expect("99 to 100 %");
        let sum: u64 = shares.iter().sum();
        assert!((990_000_000..=WHOLE_PPB).contains(&sum), "{sum}");
    }

    #[test]
    fn i9_over_one_second_they_need_more_than_there_is() {
        let over = QosConfig { overcommit: true, ..four(1) };
        let over = asked(&over, DeviceId(0), Side::All).expect("over-committed");
        let needed: u64 = over.iter().sum();
        assert!(needed > 1_700_000_000, "over 170 %: {needed}");
        let error = asked(&four(1), DeviceId(0), Side::All).expect_err("too much");
        // 49.875 % reads leave 50.125 %: 41 random writes of 12 ms
        assert_eq!(
            error.to_string(),
            "stream Write-false needs 60.00% of the drive, and 49.88% are promised already: 9.88% \
             more than there is; 41 requests/s would fit, or this rate over windows of 10.0 s"
        );
        let scaled = scaled(&over, 0);
        let sum: u64 = scaled.iter().sum();
        assert!((WHOLE_PPB - 4..=WHOLE_PPB).contains(&sum), "{sum}");
        assert_eq!(scaled[2] * 1000 / scaled[0], 600_000_000 * 1000 / 237_500_000, "in proportion");
    }

    #[test]
    fn what_cannot_be_promised_is_refused_with_a_reason() {
        let mut config = four(10);
        config.costs.clear();
        let error = asked(&config, DeviceId(0), Side::All).expect_err("no profile");
        assert!(error.to_string().contains("tandem profile --costs"), "{error}");
        let mut config = four(10);
        config.streams[0].promise.as_mut().expect("one").window = Duration::from_ms(100);
        let error = asked(&config, DeviceId(0), Side::All).expect_err("too short");
        assert!(error.to_string().contains("shortest that was profiled, 1.0 s"), "{error}");
        let mut table = drive_b();
        table.rows[2].cost_ns[0] = UNBOUNDED_NS;
        let config = QosConfig { costs: vec![Some(Arc::new(table))], ..four(1) };
        let error =
            asked(&config, DeviceId(0), Side::All).expect_err("nothing in the worst second");
        assert!(error.to_string().contains("windows of 10.0 s would do"), "{error}");
        // without promises nothing is asked of the profile
        let mut config = four(1);
        config.costs.clear();
        config.streams.iter_mut().for_each(|stream| stream.promise = None);
        assert_eq!(asked(&config, DeviceId(0), Side::All), Ok(vec![0; 4]));
    }

    /// I20: on a pair each side is a whole drive; who both reads and writes needs its share of both.
    #[test]
    fn i20_a_pair_has_a_drive_for_reads_and_one_for_writes() {
        let mut config = four(10);
        for stream in &mut config.streams[..2] {
            stream.promise.as_mut().expect("one").rate = Rate::Requests(500);
        }
        assert!(asked(&config, DeviceId(0), Side::All).is_err(), "1,000 reads and 100 writes");
        let of = |config: &QosConfig, side| asked(config, DeviceId(0), side).expect("it fits");
        assert_eq!(of(&config, Side::Reads), [475_000_000, 475_000_000, 0, 0]);
        assert_eq!(of(&config, Side::Writes), [0, 0, 247_500_000, 247_500_000]);
        config.streams[3].promise.as_mut().expect("one").does = Does::Either;
        assert_eq!(of(&config, Side::Reads)[3], 47_500_000);
        assert_eq!(of(&config, Side::Writes)[3], 247_500_000);
        config.streams[3].promise.as_mut().expect("one").rate = Rate::Requests(200);
        let error = asked(&config, DeviceId(0), Side::Writes).expect_err("124 %");
        assert!(error.to_string().contains("152 requests/s would fit"), "{error}");
    }

    #[test]
    fn a_whole_drive_fits_and_no_more() {
        let mut config = four(10);
        config.streams.truncate(1);
        config.streams[0].promise.as_mut().expect("one").rate = Rate::Requests(1_052);
        assert!(asked(&config, DeviceId(0), Side::All).is_ok());
        config.streams[0].promise.as_mut().expect("one").rate = Rate::Requests(1_053);
        let error = asked(&config, DeviceId(0), Side::All).expect_err("more than there is");
        assert!(error.to_string().contains("1052 requests/s would fit"), "{error}");
        config.background_ppb = WHOLE_PPB / 20;
        let error = asked(&config, DeviceId(0), Side::All).expect_err("background has its share");
        assert!(error.to_string().contains("1000 requests/s would fit"), "{error}");
    }
}

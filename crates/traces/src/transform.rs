//! What can be done to a stream of arrivals before it is replayed? Speed it up, cut it, overlay it.
//!
//! Everything works on `Result`s, so that a reader's error passes through.

use std::collections::HashMap;
use tandem_block::{Arrival, Duration, Instant, ObjectId, Op};

/// How much faster than the trace: a ratio, so that times are computed in integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speedup {
    numerator: u64,
    denominator: u64,
}

/// The text is not a speed-up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a speed-up: a number above 0 and up to 1,000,000, such as 10, 2.5 or 1/3")]
pub struct BadSpeedup(String);

impl Speedup {
    /// As fast as the trace.
    pub const ONE: Speedup = Speedup { numerator: 1, denominator: 1 };
    const MOST: u64 = 1_000_000;

    /// Reads `10`, `2.5` (up to six decimals) or `1/3`.
    ///
    /// # Errors
    /// `BadSpeedup` if it is none of these, zero, or beyond a million (either way).
    pub fn parse(text: &str) -> Result<Speedup, BadSpeedup> {
        let (above, below) = text.split_once('/').unwrap_or((text, "1"));
        let millionths = |text: &str| {
            let value = crate::fields::decimal(text.trim().as_bytes(), 6, "").ok()?;
            (1..=Self::MOST * Self::MOST).contains(&value).then_some(value)
        };
        millionths(above)
            .zip(millionths(below))
            .filter(|&(above, below)| {
                let (above, below) = (u128::from(above), u128::from(below));
                let most = u128::from(Self::MOST);
                above <= below * most && below <= above * most
            })
            .map(|(numerator, denominator)| Speedup { numerator, denominator })
            .ok_or_else(|| BadSpeedup(text.to_owned()))
    }

    /// When a request of the trace arrives at this speed, rounded down to 1 ns.
    pub fn apply(self, at: Instant) -> Instant {
        let ns = u128::from(at.ns) * u128::from(self.denominator) / u128::from(self.numerator);
        Instant::from_ns(u64::try_from(ns).unwrap_or(u64::MAX - 1))
    }
}

/// The arrivals at another speed.
pub fn speedup<E>(
    arrivals: impl Iterator<Item = Result<Arrival, E>>,
    by: Speedup,
) -> impl Iterator<Item = Result<Arrival, E>> {
    arrivals.map(move |item| item.map(|arrival| Arrival { at: by.apply(arrival.at), ..arrival }))
}

/// The first so many requests, and the flushes among them (a flush is not a request).
pub fn limit<E>(
    arrivals: impl Iterator<Item = Result<Arrival, E>>,
    requests: u64,
) -> impl Iterator<Item = Result<Arrival, E>> {
    let mut arrivals = arrivals;
    let mut left = requests;
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        let item = arrivals.next()?;
        left -= u64::from(matches!(&item, Ok(arrival) if arrival.op != Op::Flush));
        Some(item)
    })
}

/// The arrivals without the first so many requests, and without the flushes among them. What is left begins when the
/// first one would have: a trace from a later point of it.
pub fn begin_at(
    arrivals: impl Iterator<Item = Arrival>,
    requests: u64,
) -> impl Iterator<Item = Arrival> {
    let mut left_out = requests;
    let mut began: Option<Instant> = None;
    let mut earlier: Option<Duration> = None;
    arrivals.filter_map(move |arrival| {
        let began = *began.get_or_insert(arrival.at);
        if left_out > 0 {
            left_out -= u64::from(arrival.op != Op::Flush);
            return None;
        }
        let earlier = *earlier.get_or_insert(arrival.at.since(began));
        Some(Arrival { at: Instant::from_ns(arrival.at.ns - earlier.ns), ..arrival })
    })
}

/// Several traces overlaid by time, each beginning at 0. Of requests at the same instant those of
/// the earlier source come first. Each source's objects stay apart: they are numbered anew in order
/// of first appearance. An error is passed on when it is met; the other sources go on.
pub fn merge<I, E>(sources: impl IntoIterator<Item = I>) -> Merge<I, E>
where
    I: Iterator<Item = Result<Arrival, E>>,
{
    let sources: Vec<I> = sources.into_iter().collect();
    let heads = sources.iter().map(|_| Head::Unread).collect();
    Merge { sources, heads, objects: HashMap::new() }
}

/// See `merge`.
#[derive(Debug)]
pub struct Merge<I, E> {
    sources: Vec<I>,
    heads: Vec<Head<E>>,
    objects: HashMap<(usize, u64), u64>,
}

#[derive(Debug)]
enum Head<E> {
    Unread,
    Held(Result<Arrival, E>),
    Ended,
}

impl<I, E> Iterator for Merge<I, E>
where
    I: Iterator<Item = Result<Arrival, E>>,
{
    type Item = Result<Arrival, E>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut best: Option<(Instant, usize)> = None;
        for (index, head) in self.heads.iter_mut().enumerate() {
            if let Head::Unread = head {
                *head = self.sources[index].next().map_or(Head::Ended, Head::Held);
            }
            let at = match head {
                Head::Held(Ok(arrival)) => arrival.at,
                Head::Held(Err(_)) => Instant::ZERO,
                Head::Unread | Head::Ended => continue,
            };
            if best.is_none_or(|(best_at, _)| at < best_at) {
                best = Some((at, index));
            }
        }
        let (_, index) = best?;
        let Head::Held(item) = std::mem::replace(&mut self.heads[index], Head::Unread) else {
            unreachable!("the best head is held")
        };
        let fresh = self.objects.len() as u64;
        Some(item.map(|arrival| {
            let object = *self.objects.entry((index, arrival.object.0)).or_insert(fresh);
            Arrival { object: ObjectId(object), ..arrival }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_block::{RequestType, StreamId};

    fn arrival(at_ns: u64, object: u64, op: Op) -> Result<Arrival, &'static str> {
        Ok(Arrival {
            at: Instant::from_ns(at_ns),
            object: ObjectId(object),
            op,
            offset_bytes: 0,
            length_bytes: if op == Op::Flush { 0 } else { 512 },
            fua: false,
            stream: StreamId(0),
            data_type: RequestType::Data,
        })
    }

    #[test]
    fn speedups_are_ratios() {
        for (text, want) in [
            ("1", 3_000),
            ("10", 300),
            ("2.5", 1_200),
            ("0.5", 6_000),
            ("1/3", 9_000),
            ("3/2", 2_000),
        ] {
            let by = Speedup::parse(text).unwrap();
            assert_eq!(by.apply(Instant::from_ns(3_000)).ns, want, "{text}");
        }
        for text in ["0", "", "-1", "x", "1/0", "10000001", "1/2/3", "0.0000001"] {
            assert!(Speedup::parse(text).is_err(), "{text}");
        }
        let slow = Speedup::parse("0.000001").unwrap();
        assert_eq!(slow.apply(Instant::from_ns(u64::MAX - 1)).ns, u64::MAX - 1);
        let fast: Vec<_> =
            speedup([arrival(8, 0, Op::Read)].into_iter(), Speedup::parse("4").unwrap()).collect();
        assert_eq!(fast, [arrival(2, 0, Op::Read)]);
    }

    #[test]
    fn a_limit_counts_requests_not_flushes() {
        let ops = [Op::Flush, Op::Write, Op::Flush, Op::Read, Op::Write];
        let taken = |requests| limit(ops.map(|op| arrival(0, 0, op)).into_iter(), requests).count();
        assert_eq!([0, 1, 2, 3, 9].map(taken), [0, 2, 4, 5, 5]);
    }

    #[test]
    fn a_trace_can_begin_later() {
        let ops =
            [(10, Op::Read), (20, Op::Flush), (35, Op::Write), (40, Op::Flush), (70, Op::Read)];
        let times = |left_out| -> Vec<u64> {
            let arrivals = ops.iter().filter_map(|&(at, op)| arrival(at, 0, op).ok());
            begin_at(arrivals, left_out).map(|arrival| arrival.at.ns).collect()
        };
        assert_eq!(times(0), [10, 20, 35, 40, 70]);
        assert_eq!(times(1), [10, 25, 30, 60], "the flush behind it stays");
        assert_eq!(times(2), [10, 40]);
        assert!(times(3).is_empty() && times(9).is_empty());
    }

    #[test]
    fn merged_traces_are_in_order_and_apart() {
        let first = vec![arrival(0, 0, Op::Read), arrival(5, 1, Op::Read), Err("torn")];
        let second =
            vec![arrival(0, 0, Op::Write), arrival(3, 0, Op::Write), arrival(5, 0, Op::Write)];
        let got: Vec<_> = merge([first.into_iter(), second.into_iter()]).collect();
        assert_eq!(
            got,
            [
                arrival(0, 0, Op::Read),
                arrival(0, 1, Op::Write),
                arrival(3, 1, Op::Write),
                arrival(5, 2, Op::Read),
                Err("torn"),
                arrival(5, 1, Op::Write),
            ]
        );
    }
}

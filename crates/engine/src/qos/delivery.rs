//! Was the promise kept?
//!
//! Source: [IANUS §4.2]: a rate is promised over a window. Windows follow one another; one is missed
//! if less was delivered than promised although the stream had a request outstanding all the time.
//! A stream that paused, or was idle between two requests, asked for no more than it got.

use super::reserve::{QosConfig, Rate, Selector, WHOLE_PPB, WINDOW};
use crate::map::FixedState;
use hashbrown::HashMap;
use tandem_block::{Duration, Instant, ObjectId, Request, StreamId};

/// Position of a stream: in the configuration, or behind its end for everything else.
pub(crate) type StreamIndex = u16;

/// No stream: flushes, batches and work of our own.
pub(crate) const NO_STREAM: StreamIndex = StreamIndex::MAX;

/// One window that is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Requests delivered.
    pub requests: u64,
    /// Bytes delivered.
    pub bytes: u64,
    /// Nothing was outstanding at some moment.
    pub was_idle: bool,
    /// Was the promise kept, or not called upon?
    pub met: bool,
}

/// What one stream was given, window by window.
#[derive(Clone, Debug)]
pub struct Delivery {
    promised: Option<Rate>,
    window: Duration,
    begun: Instant,
    current: Window,
    outstanding: u32,
    /// Requests and bytes in all.
    pub requests: u64,
    /// See `requests`.
    pub bytes: u64,
    /// Windows in which anything was asked for.
    pub windows: u64,
    /// … of those, in which the promise was kept.
    pub met: u64,
    /// The last of them.
    pub last: Option<Window>,
}

impl Delivery {
    fn new(promised: Option<Rate>, window: Duration) -> Delivery {
        Delivery {
            promised,
            window,
            begun: Instant::ZERO,
            current: Window { was_idle: true, ..Window::default() },
            outstanding: 0,
            requests: 0,
            bytes: 0,
            windows: 0,
            met: 0,
            last: None,
        }
    }

    /// What is promised.
    pub fn promised(&self) -> Option<Rate> {
        self.promised
    }

    /// Length of its windows.
    pub fn window(&self) -> Duration {
        self.window
    }

    #[inline]
    fn arrived(&mut self, now: Instant) {
        self.pass(now);
        self.outstanding += 1;
    }

    #[inline]
    fn answered(&mut self, now: Instant, bytes: u64) {
        self.pass(now);
        assert!(self.outstanding > 0, "what is answered had arrived");
        self.outstanding -= 1;
        self.current.was_idle |= self.outstanding == 0;
        self.current.requests += 1;
        self.current.bytes += bytes;
        self.requests += 1;
        self.bytes += bytes;
    }

    /// Closes the windows that are over.
    #[inline]
    pub(crate) fn pass(&mut self, now: Instant) {
        if now.since(self.begun).ns >= self.window.ns {
            self.close(now);
        }
    }

    #[cold]
    fn close(&mut self, now: Instant) {
        let over = now.since(self.begun).ns / self.window.ns;
        assert!(over > 0, "a window is closed when it is over");
        let next = Window { was_idle: self.outstanding == 0, ..Window::default() };
        let first = std::mem::replace(&mut self.current, next);
        self.count(first, 1);
        // nothing has happened in those that followed, or they would have been closed
        if over > 1 {
            self.count(next, over - 1);
        }
        self.begun += Duration::from_ns(over * self.window.ns);
    }

    fn count(&mut self, mut window: Window, times: u64) {
        if window.was_idle && window.requests == 0 {
            return; // nobody asked for anything
        }
        let owed = |per_second: u64| {
            u128::from(per_second) * u128::from(self.window.ns) / u128::from(WHOLE_PPB)
        };
        let kept = match self.promised {
            None => true,
            Some(Rate::Requests(rate)) => u128::from(window.requests) >= owed(rate),
            Some(Rate::Bytes(rate)) => u128::from(window.bytes) >= owed(rate),
        };
        window.met = kept || window.was_idle;
        self.windows += times;
        self.met += if window.met { times } else { 0 };
        self.last = Some(window);
    }
}

/// One stream: how it is recognised, and what it was given.
#[derive(Clone, Debug)]
pub struct Client {
    /// Its name.
    pub name: String,
    /// What it was given.
    pub delivery: Delivery,
    /// Where its last read and its last write ended.
    ends: [u64; 2],
}

/// Everybody who is told apart.
#[derive(Clone, Debug)]
pub(crate) struct Clients {
    by_volume: HashMap<ObjectId, StreamIndex, FixedState>,
    by_stream: HashMap<StreamId, StreamIndex, FixedState>,
    list: Vec<Client>,
}

impl Clients {
    /// The streams of a configuration, and everything else behind them.
    ///
    /// # Panics
    /// If there are more than 65,534; the configuration bounds them.
    pub(crate) fn new(config: &QosConfig) -> Clients {
        assert!(
            config.streams.len() < usize::from(StreamIndex::MAX),
            "each stream has a number of its own"
        );
        let mut clients =
            Clients { by_volume: HashMap::default(), by_stream: HashMap::default(), list: vec![] };
        for (index, stream) in config.streams.iter().enumerate() {
            match stream.of {
                Selector::Volume(object) => {
                    clients.by_volume.insert(object, index as StreamIndex);
                }
                Selector::Stream(id) => {
                    clients.by_stream.insert(id, index as StreamIndex);
                }
            }
            let window = stream.promise.map_or(WINDOW, |promise| promise.window);
            let promised = stream.promise.map(|promise| promise.rate);
            clients.add(stream.name.clone(), Delivery::new(promised, window));
        }
        clients.add("others".into(), Delivery::new(None, WINDOW));
        clients
    }

    fn add(&mut self, name: String, delivery: Delivery) {
        self.list.push(Client { name, delivery, ends: [u64::MAX; 2] });
    }

    /// In the order of the configuration; the last is everything else.
    #[cfg(test)]
    pub(crate) fn list(&self) -> &[Client] {
        &self.list
    }

    /// A copy in which every window is closed that is over.
    pub(crate) fn list_at(&self, now: Instant) -> Vec<Client> {
        let mut list = self.list.clone();
        list.iter_mut().for_each(|client| client.delivery.pass(now));
        list
    }

    /// Whose is it?
    #[inline]
    pub(crate) fn of(&self, request: &Request) -> StreamIndex {
        let others = self.list.len() as StreamIndex - 1;
        let known = if self.by_stream.is_empty() {
            None
        } else {
            self.by_stream.get(&request.stream).copied()
        };
        let index = known.or_else(|| self.by_volume.get(&request.object).copied());
        index.unwrap_or(others)
    }

    /// A request arrives: whose is it, and does it go on where the last one ended?
    #[inline]
    pub(crate) fn arrived(&mut self, now: Instant, request: &Request) -> (StreamIndex, bool) {
        let index = self.of(request);
        let client = &mut self.list[usize::from(index)];
        client.delivery.arrived(now);
        let end = &mut client.ends[usize::from(request.op.is_write())];
        let sequential = *end == request.offset_bytes;
        *end = request.offset_bytes + request.length_bytes;
        (index, sequential)
    }

    /// A request was answered.
    #[inline]
    pub(crate) fn answered(&mut self, now: Instant, index: StreamIndex, bytes: u64) {
        self.list[usize::from(index)].delivery.answered(now, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::super::reserve::{Promise, StreamConfig};
    use super::*;
    use tandem_block::{Op, RequestId};

    fn at(ms: u64) -> Instant {
        Instant::from_ns(ms * 1_000_000)
    }

    /// A promise of 10 requests a second over windows of a second.
    fn clients() -> Clients {
        let promise =
            Promise { window: Duration::from_s(1), ..Promise::of(Rate::Requests(10), 4096) };
        let stream = |name: &str, of| StreamConfig {
            name: name.into(),
            of,
            promise: Some(promise),
            weight: None,
            limit: None,
        };
        let streams = vec![
            stream("volume", Selector::Volume(ObjectId(7))),
            stream("client", Selector::Stream(StreamId(3))),
        ];
        Clients::new(&QosConfig { streams, ..QosConfig::default() })
    }

    fn request(object: u64, stream: u32, offset_bytes: u64) -> Request {
        let range = (offset_bytes, 4096);
        let mut request = Request::new(RequestId(0), ObjectId(object), Op::Read, range, at(0));
        request.stream = StreamId(stream);
        request
    }

    #[test]
    fn streams_are_recognised_and_so_is_what_goes_on() {
        let mut clients = clients();
        let mut arrived =
            |object, stream, offset| clients.arrived(at(0), &request(object, stream, offset));
        assert_eq!(arrived(7, 0, 0), (0, false));
        assert_eq!(arrived(7, 0, 4096), (0, true));
        assert_eq!(arrived(7, 3, 8192), (1, false), "a client of the volume is told apart from it");
        assert_eq!(arrived(7, 0, 8192), (0, true));
        assert_eq!(arrived(8, 0, 0), (2, false), "everything else");
    }

    #[test]
    fn a_window_is_missed_by_who_always_asked_and_got_less() {
        let mut clients = clients();
        let asks = |clients: &mut Clients, ms| clients.arrived(at(ms), &request(7, 0, 0));
        // two outstanding all the time, nine answered in the first second, ten in the second
        asks(&mut clients, 0);
        asks(&mut clients, 0);
        for i in 0..19 {
            let ms = if i < 9 { 100 + i * 100 } else { 1_000 + (i - 9) * 99 };
            asks(&mut clients, ms);
            clients.answered(at(ms), 0, 4096);
        }
        let told = |clients: &mut Clients, ms| {
            let one = &clients.list_at(at(ms))[0].delivery;
            clients.list[0].delivery.pass(at(ms));
            (one.windows, one.met)
        };
        // the first window began idle: nothing was outstanding before
        assert_eq!(told(&mut clients, 1_999), (1, 1));
        assert_eq!(told(&mut clients, 2_000), (2, 2));
        // and then three seconds without any answer
        assert_eq!(told(&mut clients, 5_000), (5, 2));
        assert_eq!(clients.list()[0].delivery.last.expect("a window").requests, 0);
        // all answered: it asks for nothing more, and windows of nothing do not count
        clients.answered(at(5_100), 0, 4096);
        clients.answered(at(5_200), 0, 4096);
        assert_eq!(told(&mut clients, 6_000), (6, 3));
        assert_eq!(told(&mut clients, 60_000), (6, 3));
        assert_eq!(clients.list()[0].delivery.requests, 21);
    }
}

//! What was each stream promised, and what was it given?

use serde::{Deserialize, Serialize};
use tandem_engine::qos::delivery::{Client, Delivery, Window};
use tandem_engine::qos::reserve::Rate;

/// A stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stream {
    pub name: String,
    pub promised: Option<Promised>,
    pub window_ns: u64,
    /// In its last window.
    pub delivered: Option<Delivered>,
    pub requests: u64,
    pub bytes: u64,
    pub windows: u64,
    pub windows_met: u64,
}

/// A rate that is promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Promised {
    /// Requests.
    Requests {
        /// So many.
        requests_per_s: u64,
    },
    /// Bytes.
    Bytes {
        /// So many.
        bytes_per_s: u64,
    },
}

/// What a stream was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Delivered {
    pub requests_per_s: u64,
    pub bytes_per_s: u64,
    /// It asked for less.
    pub was_idle: bool,
    pub met: bool,
}

impl Stream {
    /// All streams; nothing where nobody is told apart.
    pub fn all(clients: &[Client]) -> Vec<Stream> {
        clients.iter().map(Stream::of).collect()
    }

    fn of(client: &Client) -> Stream {
        let delivery = &client.delivery;
        Stream {
            name: client.name.clone(),
            promised: delivery.promised().map(|rate| match rate {
                Rate::Requests(requests_per_s) => Promised::Requests { requests_per_s },
                Rate::Bytes(bytes_per_s) => Promised::Bytes { bytes_per_s },
            }),
            window_ns: delivery.window().ns,
            delivered: delivery.last.map(|window| Delivered::of(&window, delivery)),
            requests: delivery.requests,
            bytes: delivery.bytes,
            windows: delivery.windows,
            windows_met: delivery.met,
        }
    }
}

impl Delivered {
    fn of(window: &Window, delivery: &Delivery) -> Delivered {
        let per_s = |count: u64| {
            let in_a_second = u128::from(count) * 1_000_000_000 / u128::from(delivery.window().ns);
            u64::try_from(in_a_second).unwrap_or(u64::MAX)
        };
        Delivered {
            requests_per_s: per_s(window.requests),
            bytes_per_s: per_s(window.bytes),
            was_idle: window.was_idle,
            met: window.met,
        }
    }
}

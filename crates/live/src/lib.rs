//! What is the real event loop?
//!
//! One thread and one io_uring that feed the engine real completions and a monotonic clock, and
//! carry out its commands on real drives, on RAM, and on modelled drives behind a timer. It knows no
//! protocol: front ends register themselves ([`front::Front`]), or knock from their own threads
//! ([`remote_queue::RemoteQueue`]).
//!
//! ```text
//!   front ──FrontRequest──▶ event loop ──Event──▶ engine
//!     ▲                        │  ▲                 │
//!     └──────────Done──────────┤  └────Command──────┘
//!                              │
//!                              ├── payload   bytes and their checksums
//!                              ├── device    block · ram · emulated
//!                              └── uring     the only way out
//! ```

pub mod budget;
pub mod clock;
pub mod control;
mod core;
pub mod device;
mod drives;
mod engine;
mod event_loop;
pub mod front;
pub mod listen;
pub mod memory;
pub mod outgoing;
pub mod payload;
pub mod probe;
pub mod remote_queue;
#[allow(unsafe_code, reason = "the kernel is given addresses, and memory aligned by hand")]
mod ring;
mod spin;
#[allow(missing_docs, reason = "fields that say what they are by the names in the document")]
pub mod status;
pub mod users;

pub use device::{Backing, DeviceConfig};
pub use engine::{Extent, LiveEngine};
pub use event_loop::{
    Change, Devices, EventLoop, EventLoopConfig, EventLoopError, Observer, Successions,
};
pub use ring::{buffer, uring};
pub use tandem_engine::{Command, Done, Engine, Event, Io, IoId, IoOp, ServedFrom, StartError};

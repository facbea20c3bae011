//! What is the real world?
//!
//! One thread and one io_uring that feed the engine real completions and a monotonic clock, and
//! carry out its commands on real drives, on RAM, and on modelled drives behind a timer. It knows no
//! protocol: front ends register themselves ([`front::Front`]), or knock from their own threads
//! ([`door::Door`]).
//!
//! ```text
//!   front ──Wish──▶ world ──Event──▶ mind (the engine)
//!     ▲                                │ Command
//!     └──Done── world ◀────────────────┘
//!                 ├── payload   bytes and their checksums
//!                 ├── device    block · ram · emulated
//!                 └── uring     the only way out
//! ```

pub mod budget;
pub mod clock;
pub mod control;
mod core;
pub mod device;
pub mod door;
mod drives;
pub mod front;
pub mod listen;
pub mod memory;
mod mind;
pub mod outgoing;
pub mod payload;
pub mod probe;
#[allow(unsafe_code, reason = "the kernel is given addresses, and memory aligned by hand")]
mod ring;
mod spin;
pub mod users;
mod world;

pub use device::{Backing, DeviceConfig};
pub use mind::{Extent, Mind, read_back, streams};
pub use ring::{buffer, uring};
pub use tandem_engine::{Command, Done, Engine, Event, Io, IoId, IoOp, ServedFrom, StartError};
pub use world::{Change, Devices, Observer, Successions, World, WorldConfig, WorldError};

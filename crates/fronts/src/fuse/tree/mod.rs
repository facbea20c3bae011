//! How is a whole file system served to the kernel?
//!
//! [`Session`] understands messages of the kernel, asks [`tandem_names::Tree`] what they change, and a
//! [`Pool`] to do it; it answers when that is done. It does no I/O itself and reads no clock, so a test
//! is the kernel and the pool at once.
//!
//! ```text
//!   message ─▶ call (what is asked) ─▶ session ─▶ names (what changes) ─▶ steps ─▶ the pool
//!   reply   ◀────────────────────────── session ◀──────────────────────── answered ◀─┘
//! ```
//!
//! Two rules of names are kept here: one change of a volume at a time, from its plan until it was
//! applied (`session`), and one at a time for a file whose size changes (`locks`).

pub mod call;
mod locks;
mod reply;
mod session;
mod short;
mod snapshot;
mod steps;

pub use session::{Agreed, Pool, Reply, Session, Work};
pub use short::Sent;

/// Fuzz entry: whatever the kernel says is understood (1), refused (0), or no message at all.
pub fn fuzz_message(bytes: &[u8]) -> Option<u64> {
    let (_, call) = call::parse(bytes)?;
    Some(u64::from(!matches!(call, call::Call::Refused(_))))
}

/// A message of each kind that is understood, to begin fuzzing with.
pub fn sound_messages() -> Vec<Vec<u8>> {
    let named = |head: usize| [vec![0; head], b"name\0".to_vec()].concat();
    let two = |head: usize| [vec![0; head], b"name\0other\0".to_vec()].concat();
    // opcodes of uapi/linux/fuse.h with their bodies
    let bodies = [
        (1, named(0)),
        (3, vec![0; 16]),
        (4, vec![0; 88]),
        (5, vec![]),
        (6, two(0)),
        (8, named(16)),
        (9, named(8)),
        (10, named(0)),
        (11, named(0)),
        (12, two(8)),
        (13, named(8)),
        (14, vec![0; 8]),
        (15, vec![0; 40]),
        (16, vec![0; 40]),
        (17, vec![]),
        (18, vec![0; 24]),
        (20, vec![0; 16]),
        (21, named(8)),
        (22, named(8)),
        (23, vec![0; 8]),
        (24, named(0)),
        (28, vec![0; 40]),
        (35, named(16)),
        (43, vec![0; 32]),
        (45, two(16)),
        (47, vec![0; 56]),
    ];
    let header = call::Header { unique: 1, node: 1, uid: 0, gid: 0 };
    bodies.iter().map(|(opcode, body)| message(*opcode, &header, body)).collect()
}

/// A message as the kernel writes it, for tests.
pub fn message(opcode: u32, header: &call::Header, body: &[u8]) -> Vec<u8> {
    let total = u32::try_from(super::wire::HEADER_BYTES + body.len()).expect("some MiB at most");
    let mut bytes = [total.to_ne_bytes(), opcode.to_ne_bytes()].concat();
    bytes.extend_from_slice(&header.unique.to_ne_bytes());
    bytes.extend_from_slice(&header.node.to_ne_bytes());
    for number in [header.uid, header.gid, 0, 0] {
        bytes.extend_from_slice(&number.to_ne_bytes());
    }
    bytes.extend_from_slice(body);
    bytes
}

#[cfg(test)]
mod tests;

//! Which hard drive of a set may leave its users for a while?
//!
//! Source:  [TOS abstract] (several hard drives per SSD are scheduled together; how is not said),
//!          frontier D7, requirements M12.
//! Differs: no roles are given out. What takes a drive from users (write-back, log GC, the flush that
//!          ends a sequence) waits while it is the last one that takes writes and another is due back:
//!          so the drives get, and stay, out of phase. Which one takes a write is the policy's choice,
//!          by the time that each is expected to take.
//!          A block is in the log of one drive and at home on another for as long as the record of its
//!          move takes; then it is read from the one that users' writes leave alone (`requests/read`).

use super::controller::State;
use tandem_block::DeviceId;

/// Where a drive stands for its users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It takes writes.
    Ready,
    /// It is busy with something that ends by itself.
    Away,
    /// It takes none for long: switched off, faulted, or unreliable.
    Out,
}

impl Standing {
    /// Of a drive in this state.
    pub(crate) const fn of(state: State) -> Standing {
        match state {
            State::Fast | State::Mid => Standing::Ready,
            State::Syncing | State::Slow | State::Suspended | State::Gc | State::Draining => {
                Standing::Away
            }
            State::Off | State::Unreliable | State::Faulted => Standing::Out,
        }
    }
}

/// Is `which` the last drive that takes writes, while another one is due back?
pub(crate) fn is_last(which: DeviceId, drives: impl Iterator<Item = (DeviceId, Standing)>) -> bool {
    let (mut is_ready, mut others_away) = (false, false);
    for (id, standing) in drives {
        match standing {
            Standing::Ready if id == which => is_ready = true,
            Standing::Ready => return false,
            Standing::Away if id != which => others_away = true,
            Standing::Away | Standing::Out => {}
        }
    }
    is_ready && others_away
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m12_the_last_drive_on_guard_stays_while_another_is_due_back() {
        use Standing::{Away, Out, Ready};
        for (drives, want) in [
            (vec![Ready], [false, false, false]),
            (vec![Ready, Ready], [false, false, false]),
            (vec![Ready, Away], [true, false, false]),
            (vec![Away, Away], [false, false, false]),
            (vec![Ready, Out], [false, false, false]),
            (vec![Ready, Out, Away], [true, false, false]),
            (vec![Away, Ready, Ready], [false, false, false]),
            (vec![Away, Away, Ready], [false, false, true]),
        ] {
            let drives: Vec<(DeviceId, Standing)> =
                drives.iter().enumerate().map(|(id, s)| (DeviceId(id as u8), *s)).collect();
            for (which, &want) in want.iter().enumerate() {
                let found = is_last(DeviceId(which as u8), drives.iter().copied());
                assert_eq!(found, want, "{which} of {drives:?}");
            }
        }
    }
}

//! Why can a pair not serve?

use crate::format::FormatError;
use tandem_block::{DeviceId, IoError};

/// Why a pair cannot serve.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PairError {
    /// A leg failed while it was read or written.
    #[error(transparent)]
    Device(#[from] IoError),
    /// No record on a leg.
    #[error("device {}: this drive is not half of a pair: format the pool, or name it as the replacement of a leg", .0.0)]
    NotFormatted(DeviceId),
    /// Neither record of a leg can be read.
    #[error("device {}: both records of the pair are damaged ({error}): name the drive as the replacement of a leg, and it is written anew", .device.0)]
    Damaged {
        /// Which drive.
        device: DeviceId,
        /// What is wrong with the first one.
        error: FormatError,
    },
    /// The legs belong to different pairs.
    #[error("devices {} and {} are halves of different pairs", .0.0, .1.0)]
    Strangers(DeviceId, DeviceId),
    /// The legs are listed in the other order.
    #[error("device {} is the other half of the pair: list the legs as they were", .0.0)]
    Swapped(DeviceId),
    /// The pair had another size.
    #[error("the pair of device {} had {was} bytes when it was formatted and would have {is} now: a leg was replaced by a smaller one", .device.0)]
    Resized {
        /// The pair.
        device: DeviceId,
        /// Then.
        was: u64,
        /// Now.
        is: u64,
    },
    /// The leg that is left lacks what the other one had.
    #[error("device {} is behind its other leg, which is missing: what was written last is only there. Bring the leg back, or accept the loss", .0.0)]
    Behind(DeviceId),
    /// A leg has served alone and lacks more of what the other one has than its record could list.
    #[error("device {}: it has served alone, and lacks too much of what device {} has to say what: name one of them as replaced, and what only that one has is lost", .0.0, .1.0)]
    Entangled(DeviceId, DeviceId),
    /// Both legs have served alone.
    #[error("devices {} and {} have both served alone since they were a pair: name one of them as replaced, and its data is dropped", .0.0, .1.0)]
    SplitBrain(DeviceId, DeviceId),
    /// The leg that is left lacks what only the other one and the journal have, and both are missing.
    #[error("device {}: its other leg is missing, and so is the journal that holds what was written last: bring one of them back, or accept the loss", .0.0)]
    Unjournaled(DeviceId),
    /// No journal on the drive that is named as one.
    #[error("device {}: this drive is not the journal of a pair: name it as new, and it is made one", .0.0)]
    NotJournal(DeviceId),
    /// The journal cannot be read.
    #[error("device {}: the journal of the pair is damaged ({error}): name it as new, and what only it holds is lost", .device.0)]
    JournalDamaged {
        /// Which drive.
        device: DeviceId,
        /// What is wrong.
        error: FormatError,
    },
    /// The journal belongs to another pair.
    #[error("device {} is the journal of another pair", .0.0)]
    JournalStranger(DeviceId),
    /// The journal's drive holds too little.
    #[error("device {}: a journal of {is} bytes is too small: at least {least} are needed", .device.0)]
    JournalTooSmall {
        /// Which drive.
        device: DeviceId,
        /// The bytes it has.
        is: u64,
        /// The bytes it must have.
        least: u64,
    },
}

//! What is true of a modelled drive, and which drives are known?
//!
//! Source: design decision 3 (a `…Spec` is the drive model, a `…Profile` is what the engine takes it for); models §4.
//! One TOML file per drive under `specs/`; every number stands beside its source, and a file
//! without one is refused.

mod hdd;
mod registry;
mod ssd;
mod value;

#[cfg(test)]
mod tests;

pub use hdd::{DrainLaw, HddSpec, Rotation, SmrSpec};
pub use registry::{DriveKind, KnownSpec, SPECS, load};
pub use ssd::{GcSpec, SlcOverflow, SlcSpec, SsdSpec, SuspendSpec};
pub use value::{Bytes, BytesPerSecond, LatencyTable, Nanos, Ppm, SOURCES, Sourced};

use serde::Deserialize;
use tandem_block::BLOCK_BYTES;

/// A drive that answers at once.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NullSpec {
    /// Usable bytes.
    pub capacity: Sourced<Bytes>,
}

/// The parameters of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelSpec {
    /// A hard drive.
    Hdd(HddSpec),
    /// An SSD.
    Ssd(SsdSpec),
    /// Answers at once.
    Null(NullSpec),
}

/// One drive: its name and what is true of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveSpec {
    /// The name it is asked for by.
    pub name: String,
    /// One line about it.
    pub about: String,
    /// Its parameters.
    pub model: ModelSpec,
}

/// Why a spec cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// The name is not known and does not look like a path.
    #[error(
        "no drive is called `{name}`; did you mean `{nearest}`? (`tandem drives` lists all; a path must end in .toml)"
    )]
    Unknown {
        /// What was asked for.
        name: String,
        /// The known name that is spelled most like it.
        nearest: &'static str,
    },
    /// The file cannot be read.
    #[error("cannot read the spec {path}: {why}")]
    Read {
        /// The file.
        path: String,
        /// What the operating system said.
        why: std::io::Error,
    },
    /// The text is not a spec. The message carries line, key and reason.
    #[error("{origin} is not a drive spec: {why}")]
    Parse {
        /// The file, or the built-in name.
        origin: String,
        /// Line and reason.
        why: Box<toml::de::Error>,
    },
    /// A value makes no sense.
    #[error("{origin}: `{key}` {why}")]
    Invalid {
        /// The file, or the built-in name.
        origin: String,
        /// The offending key.
        key: String,
        /// What it must be.
        why: String,
    },
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SpecFile {
    name: String,
    about: String,
    hdd: Option<HddSpec>,
    ssd: Option<SsdSpec>,
    null: Option<NullSpec>,
}

/// Commands in flight on an NVMe drive. Guess: more than any model's dies.
const NVME_DEPTH: u32 = 256;
/// Commands in flight on a SATA drive: the protocol's limit less one, as in [IANUS §3].
const SATA_DEPTH: u32 = 31;

impl DriveSpec {
    /// Commands that its link takes at once.
    pub fn queue_depth(&self) -> u32 {
        match &self.model {
            ModelSpec::Ssd(ssd) if !ssd.link_shared.get() => NVME_DEPTH,
            _ => SATA_DEPTH,
        }
    }

    /// Reads a spec from its text; `origin` names it in errors.
    ///
    /// # Errors
    /// If the text is not TOML, has unknown or missing keys, a number without a known source, or a
    /// value that makes no sense; the message names the key.
    pub fn parse(text: &str, origin: &str) -> Result<Self, SpecError> {
        let file: SpecFile = toml::from_str(text)
            .map_err(|why| SpecError::Parse { origin: origin.to_owned(), why: Box::new(why) })?;
        let invalid = |key: &str, why: &str| SpecError::Invalid {
            origin: origin.to_owned(),
            key: key.to_owned(),
            why: why.to_owned(),
        };
        let model = match (file.hdd, file.ssd, file.null) {
            (Some(hdd), None, None) => ModelSpec::Hdd(hdd),
            (None, Some(ssd), None) => ModelSpec::Ssd(ssd),
            (None, None, Some(null)) => ModelSpec::Null(null),
            _ => {
                return Err(invalid(
                    "hdd, ssd, null",
                    "are tables of which there must be exactly one",
                ));
            }
        };
        let spec = DriveSpec { name: file.name, about: file.about, model };
        if let Some((key, why)) = spec.fault() {
            return Err(invalid(key, why));
        }
        let unsourced = match &spec.model {
            ModelSpec::Hdd(hdd) => hdd.unsourced(),
            ModelSpec::Ssd(ssd) => ssd.unsourced(),
            ModelSpec::Null(null) => (!null.capacity.has_known_source()).then_some("capacity"),
        };
        if let Some(key) = unsourced {
            let why =
                format!("has a source that does not begin with one of {}", SOURCES.join(", "));
            return Err(invalid(key, &why));
        }
        Ok(spec)
    }

    fn fault(&self) -> Option<(&'static str, &'static str)> {
        match &self.model {
            ModelSpec::Hdd(hdd) => hdd.fault(),
            ModelSpec::Ssd(ssd) => ssd.fault(),
            ModelSpec::Null(null) => {
                (null.capacity.get().0 < 1 << 20).then_some(("capacity", "must be at least 1MiB"))
            }
        }
    }

    /// Usable bytes: the spec's capacity, rounded down to whole blocks of 4 KiB.
    pub fn capacity_bytes(&self) -> u64 {
        let bytes = match &self.model {
            ModelSpec::Hdd(hdd) => hdd.capacity.get().0,
            ModelSpec::Ssd(ssd) => ssd.capacity.get().0,
            ModelSpec::Null(null) => null.capacity.get().0,
        };
        bytes / BLOCK_BYTES * BLOCK_BYTES
    }

    /// Is it a hard drive, an SSD or null?
    pub fn kind(&self) -> DriveKind {
        match self.model {
            ModelSpec::Hdd(_) => DriveKind::Hdd,
            ModelSpec::Ssd(_) => DriveKind::Ssd,
            ModelSpec::Null(_) => DriveKind::Null,
        }
    }

    /// The same drive with another capacity.
    ///
    /// Of an SSD the number of lines changes, and the SLC cache in proportion; dies, line size,
    /// write buffer and the thresholds of garbage collection (absolute counts of lines) stay, so
    /// that single GC events cost the same. Of a hard drive the zones are stretched: the media
    /// rates at both ends, the seek times of the whole stroke and the write buffer stay.
    ///
    /// # Errors
    /// If the model cannot be that small or large.
    pub fn with_capacity_bytes(mut self, bytes: u64) -> Result<Self, SpecError> {
        let source = "derived: capacity set by the user";
        match &mut self.model {
            ModelSpec::Hdd(hdd) => hdd.capacity = Sourced::of(Bytes(bytes), source),
            ModelSpec::Null(null) => null.capacity = Sourced::of(Bytes(bytes), source),
            ModelSpec::Ssd(ssd) => {
                let before = u128::from(ssd.capacity.get().0);
                ssd.capacity = Sourced::of(Bytes(bytes), source);
                if let Some(slc) = &mut ssd.slc {
                    let scaled = u128::from(slc.size.get().0) * u128::from(bytes) / before;
                    let scaled = u64::try_from(scaled).unwrap_or(u64::MAX).min(bytes);
                    slc.size = Sourced::of(Bytes(scaled), "derived: scaled with the capacity");
                }
            }
        }
        match self.fault() {
            None => Ok(self),
            Some((key, why)) => Err(SpecError::Invalid {
                origin: self.name,
                key: key.to_owned(),
                why: format!("{why} ({bytes} bytes asked for)"),
            }),
        }
    }
}

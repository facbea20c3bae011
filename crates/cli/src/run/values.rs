//! What the words of a case mean: bytes, times, and what a stream of requests does.

use crate::toml_fault::Fault;
use tandem_block::{Duration, Quantity, SECTOR_BYTES};
use tandem_engine::qos::cost::Kind;
use tandem_traces::spell;
use toml::Spanned;

/// Nothing that is measured on a drive alone may take longer: sums of so many times stay far from overflow.
const MEASURED_MAX: Duration = Duration::from_s(1_000_000);

/// So many bytes.
pub(super) fn bytes(text: &Spanned<String>) -> Result<u64, Fault> {
    Quantity::Bytes.parse(text.get_ref()).map_err(|why| Fault::at(text, why))
}

/// So long.
pub(super) fn time(text: &Spanned<String>) -> Result<Duration, Fault> {
    let ns = Quantity::Time.parse(text.get_ref());
    ns.map(Duration::from_ns).map_err(|why| Fault::at(text, why))
}

/// What a stream does; nothing if that is one of `others`.
pub(super) fn does(word: &Spanned<String>, others: &[&'static str]) -> Result<Option<Kind>, Fault> {
    let known = [
        ("random-read", Kind { read: true, sequential: false }),
        ("sequential-read", Kind { read: true, sequential: true }),
        ("random-write", Kind { read: false, sequential: false }),
        ("sequential-write", Kind { read: false, sequential: true }),
    ];
    let does = word.get_ref().as_str();
    if others.contains(&does) {
        return Ok(None);
    }
    let found = known.iter().find(|(name, _)| *name == does);
    found.map(|(_, kind)| Some(*kind)).ok_or_else(|| {
        let names = known.iter().map(|(name, _)| *name).chain(others.iter().copied());
        let nearest = spell::nearest(does, names);
        Fault::at(word, format!("{does:?}; did you mean {nearest:?}?"))
    })
}

/// So many bytes of a drive: whole sectors.
pub(super) fn sectors(text: &Spanned<String>) -> Result<u64, Fault> {
    let bytes = bytes(text)?;
    if !bytes.is_multiple_of(SECTOR_BYTES) {
        return Err(Fault::at(text, "a drive has sectors of 512 bytes: a multiple of them"));
    }
    Ok(bytes)
}

/// So long, and no longer than what is measured may take.
pub(super) fn measured_time(text: &Spanned<String>) -> Result<Duration, Fault> {
    let time = time(text)?;
    if time > MEASURED_MAX {
        return Err(Fault::at(text, "nothing that is measured takes longer than 1000000s"));
    }
    Ok(time)
}

/// Bytes of a request.
pub(super) fn request_bytes(size: &Spanned<String>) -> Result<u64, Fault> {
    let size_bytes = bytes(size)?;
    if !size_bytes.is_multiple_of(512) || !(512..=32 << 20).contains(&size_bytes) {
        return Err(Fault::at(size, "a request has 512 bytes to 32MiB, in sectors"));
    }
    Ok(size_bytes)
}

//! How does LinnOS write down a request?
//!
//! Source: samples; the columns are those of its replayer.

use super::Format;
use super::five_columns::{Units, format};

pub(super) const FORMAT: Format = format(
    "linnos",
    "LinnOS replayer text",
    "time (ms, decimals), device, offset (bytes), length (bytes), 1 read or 0 write. A length of \
     zero is an error.",
    Units::LinnOs,
);

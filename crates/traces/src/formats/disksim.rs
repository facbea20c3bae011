//! How does DiskSim write down a request?
//!
//! Source: the DiskSim 4.0 manual's default ASCII trace format, and a sample.

use super::Format;
use super::five_columns::{Units, format};

pub(super) const FORMAT: Format = format(
    "disksim",
    "DiskSim ASCII",
    "time (ms, decimals), device, address (sectors of 512 bytes), length (sectors), flags \
     (hexadecimal; lowest bit set: read). A length of zero is an error.",
    Units::DiskSim,
);

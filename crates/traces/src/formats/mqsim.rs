//! How do MQSim and SSDsim write down a request?
//!
//! Source: the readme of SSDsim, whose format MQSim took over, and samples of both.

use super::Format;
use super::five_columns::{Units, format};

pub(super) const FORMAT: Format = format(
    "mqsim",
    "MQSim and SSDsim ASCII",
    "time (ns), device, address (sectors of 512 bytes), length (sectors), 1 read or 0 write. A \
     length of zero is an error.",
    Units::MqSim,
);

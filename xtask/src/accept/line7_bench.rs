//! Is it fast enough?
//!
//! Source: issue "the spine", "Speed and memory" and acceptance 7.

use super::Row;
use crate::bench;
use anyhow::Result;

pub(super) fn measure() -> Result<Vec<Row>> {
    let mut rows = bench::virtual_time::rows()?;
    for wanted in [
        "NBD over a Unix socket, RAM pool: at least 1.0x the better of nbdkit memory and null",
        "the FUSE file: at least 0.8x a bare fuser file",
        "ring and engine over a file: at least 0.9x fio's io_uring",
        "journal: at least 0.9x the commit rate of dd oflag=dsync, 20 updates a commit",
        "emulated drives in real time: p50 within 20 % of the model at 35 us",
        "map: 3 GiB of RAM per TiB of SSD, 0.5 GiB per TiB of HDD; 10 million entries in 5 s",
        "clean build: 60 s debug, 120 s release",
    ] {
        rows.push(Row::not_built(wanted));
    }
    Ok(rows)
}

//! Do real clients find a sound volume?
//!
//! Source: issue "the spine", acceptance 5.

use super::Row;
use anyhow::Result;

pub(super) fn measure() -> Result<Vec<Row>> {
    Ok(vec![
        Row::not_built(
            "fio verify=crc32c over NBD, 4 KiB to 1 MiB and odd sizes, depth 32, 4 connections, \
             5 GiB, file and emulated drives: no error",
        ),
        Row::not_built("nbdinfo, nbdcopy both ways, qemu-img convert and compare: identical"),
        Row::not_built("ext4 and XFS on the FUSE file through a loop device: fsck and check clean"),
    ])
}

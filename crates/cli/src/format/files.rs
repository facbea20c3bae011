//! How are the files of a new pool made, and taken back if the format fails?

use crate::config::PoolConfig;
use crate::pool::modes;
use anyhow::{Context as _, Result};
use std::path::PathBuf;
use tandem_live::Backing;
use tandem_live::device::OpenedFile;

/// Files that were made; removed again unless kept.
#[derive(Debug, Default)]
pub(super) struct Files {
    made: Vec<PathBuf>,
}

impl Files {
    /// The format went well.
    pub fn keep(mut self) {
        self.made.clear();
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        for path in &self.made {
            // what cannot be removed stays, empty and of no pool
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Makes the files that are not there, and gives the others their size.
pub(super) fn make(pool: &PoolConfig) -> Result<Files> {
    let mut files = Files::default();
    for device in pool.drives() {
        let (Backing::Path(path), Some(bytes)) = (&device.backing, device.size_bytes) else {
            continue;
        };
        let making = || format!("making {}", path.display());
        let is_new = !path.exists();
        let file = modes::to_make().create(true).truncate(false).open(path).with_context(making)?;
        if is_new {
            files.made.push(path.clone());
        }
        let meta = file.metadata().with_context(making)?;
        if meta.is_file() && meta.len() != bytes {
            // nobody serves it while its size changes
            let _lock = OpenedFile::open(path, false)?;
            file.set_len(bytes).with_context(making)?;
        }
    }
    Ok(files)
}

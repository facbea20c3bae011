//! How does a drive's file meet a full disk? It lies in a file system in memory that is given little more
//! room than is used.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Room that is left when users begin to write, in MiB.
const LEFT_MIB: u64 = 6;
/// Room for all there is, in MiB.
const AMPLE_MIB: u64 = 2048;

/// A file system whose size changes. It is taken out of the tree when it is dropped; what lies in it is
/// lost then.
pub struct Small(PathBuf);

impl Small {
    /// Mounts it, which wants root.
    ///
    /// # Errors
    /// If it cannot be mounted.
    pub fn mount(at: &Path) -> Result<Small, String> {
        std::fs::create_dir(at).map_err(|error| error.to_string())?;
        let size = format!("size={AMPLE_MIB}m");
        let mut command = Command::new("mount");
        run(command.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(at))?;
        Ok(Small(at.to_owned()))
    }

    /// There is room for all.
    ///
    /// # Errors
    /// If its size cannot be changed.
    pub fn grow(&self) -> Result<(), String> {
        self.resize(AMPLE_MIB)
    }

    /// There is hardly any room for more than there is.
    ///
    /// # Errors
    /// If its size cannot be changed.
    pub fn shrink(&self) -> Result<(), String> {
        let stat = rustix::fs::statvfs(&self.0).map_err(|error| error.to_string())?;
        let used_bytes = (stat.f_blocks - stat.f_bfree) * stat.f_frsize;
        self.resize((used_bytes >> 20) + LEFT_MIB)
    }

    fn resize(&self, mib: u64) -> Result<(), String> {
        let size = format!("remount,size={mib}m");
        run(Command::new("mount").args(["-o", &size]).arg(&self.0))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("mount: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

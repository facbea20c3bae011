//! `tandem snapshot`: what was on a volume at one moment?

mod files;

use crate::failure::Failure;
use crate::report::table::bytes as shown;
use crate::report::{print_json, print_text};
use crate::status;
use anyhow::anyhow;
use serde::Serialize;
use serde_json::json;
use std::path::PathBuf;
use std::time::SystemTime;
use tandem_live::control::{self, Snapshot};
use tandem_live::status::{Snapshot as OfBlocks, Status};

/// Keep what is on a volume now, under a name, while the pool is served
///
/// A snapshot takes no time and no room: it shares all blocks with the volume, and what is written to the
/// volume from then on goes elsewhere. It shows what had been acknowledged before it, and never changes.
/// NBD clients that connect from then on find it as VOLUME@NAME, which they can only read; of a volume of
/// files it is the directory .snapshots/NAME of its mount.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The configuration of the pool that is served
    #[arg(value_name = "CONFIG")]
    config: PathBuf,
    /// The volume; without one all snapshots are listed
    #[arg(value_name = "VOLUME", requires = "name")]
    volume: Option<String>,
    /// What the snapshot is called
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Delete the snapshot of this name
    #[arg(long, requires = "name")]
    delete: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Takes a snapshot, deletes one, or lists all.
///
/// # Errors
/// A server that does not answer, and what it refuses.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let socket = status::socket(&arguments.config)?;
    let silent = |why| status::silent(&socket, &why);
    let told = control::ask_for_status(&socket).map_err(silent)?;
    let (Some(volume), Some(name)) = (&arguments.volume, &arguments.name) else {
        return list(&told, arguments.json);
    };
    let it = Snapshot { volume: volume.clone(), name: name.clone(), delete: arguments.delete };
    let what = if arguments.delete { "deleted" } else { "taken" };
    let failed =
        |why: anyhow::Error| Failure::Failed(why.context(format!("the snapshot was not {what}")));
    let full = it.full_name();
    if let Some(mounted) = files::Mounted::find(&told, volume).map_err(failed)? {
        let path = mounted.carry_out(&it).map_err(failed)?;
        return match (arguments.json, arguments.delete) {
            (true, true) => print_json(&json!({ "deleted": full })),
            (true, false) => print_json(&json!({ "snapshot": full, "path": path })),
            (false, true) => print_text(&format!("{full} is deleted\n")),
            (false, false) => print_text(&format!("{full} is taken, in {}\n", path.display())),
        };
    }
    let answer = control::ask_for_snapshot(&socket, &it).map_err(silent)?;
    if let Some(why) = answer["error"].as_str() {
        return Err(failed(anyhow!("{why}")));
    }
    if arguments.json {
        return print_json(&answer);
    }
    print_text(&match arguments.delete {
        true => format!("{full} is deleted\n"),
        false => {
            format!("{full} is taken; NBD clients that connect now can read it by this name\n")
        }
    })
}

/// A snapshot in a list.
#[derive(Serialize)]
#[serde(untagged)]
enum Listed<'a> {
    OfBlocks(&'a OfBlocks),
    OfFiles(&'a files::OfFiles),
}

/// Lists all, of blocks and of files.
fn list(status: &Status, as_json: bool) -> Result<(), Failure> {
    let mut of_files = Vec::new();
    for mounted in files::Mounted::all(status) {
        of_files.extend(mounted.list(SystemTime::now()).map_err(Failure::Failed)?);
    }
    if as_json {
        let of_blocks = status.snapshots.iter().map(Listed::OfBlocks);
        let all: Vec<Listed> = of_blocks.chain(of_files.iter().map(Listed::OfFiles)).collect();
        return print_json(&all);
    }
    let mut text = describe(&status.snapshots);
    if text.is_empty() && !of_files.is_empty() {
        text.push_str("\nSnapshots:\n");
    }
    text.extend(of_files.iter().map(files::describe));
    print_text(if text.is_empty() { "no snapshots\n" } else { text.trim_start() })
}

/// All snapshots in words; nothing if there are none.
pub fn describe(snapshots: &[OfBlocks]) -> String {
    if snapshots.is_empty() {
        return String::new();
    }
    let mut out = String::from("\nSnapshots:\n");
    for it in snapshots {
        out.push_str(&format!(
            "  {}@{}: {}, of which {} are its own: that much is free if it is deleted\n",
            it.volume,
            it.name,
            shown(it.bytes),
            shown(it.own_bytes),
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_are_told_in_words() {
        let (volume, name) = ("vol0".to_owned(), "monday".to_owned());
        let text = describe(&[OfBlocks { volume, name, bytes: 1 << 30, own_bytes: 4096 }]);
        assert!(text.contains("vol0@monday: 1.0 GiB, of which 4.0 KiB are its own"), "{text}");
        assert_eq!(describe(&[]), "");
    }
}

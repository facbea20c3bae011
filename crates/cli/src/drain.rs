//! `tandem drain` and `tandem remove`: how does a drive leave a pool that is served, with none in its place?

use crate::failure::Failure;
use crate::replace::{GUESSED_BYTES_PER_S, listed, refused};
use crate::report::table::bytes as shown;
use crate::report::{print_json, print_text};
use crate::{pool, status};
use anyhow::anyhow;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tandem_live::control;
use tandem_live::status::Draining;

/// How often a server is asked how far it is.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// Move everything off a drive of a pool while it is served
///
/// Nothing new goes to the drive, and what lies on it is moved to the other drives in the background, while
/// users go on. A server that is stopped meanwhile, or killed, goes on when it is started again. Then
/// `tandem remove` takes the drive out of the pool. Until that the drive is needed, and --cancel keeps it.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The configuration of the pool that is served
    #[arg(value_name = "CONFIG")]
    config: PathBuf,
    /// The drive that shall leave, as the configuration lists it
    #[arg(value_name = "DRIVE", required_unless_present = "cancel")]
    drive: Option<PathBuf>,
    /// Only say whether it could be, what is at risk and how long it takes
    #[arg(long, conflicts_with = "cancel")]
    dry_run: bool,
    /// Keep the drive that is being drained: it is used again
    #[arg(long, conflicts_with = "drive")]
    cancel: bool,
    /// Begin, and do not wait for the end: `tandem status` tells how far it is
    #[arg(long, conflicts_with_all = ["cancel", "dry_run"])]
    detach: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Take a drive that was drained out of a pool while it is served
///
/// It is done when every other drive knows of it; the configuration notes it, and the drive may be unplugged.
/// A drive on which something lies is refused, with how much that is.
#[derive(Debug, clap::Args)]
pub struct RemoveArguments {
    /// The configuration of the pool that is served
    #[arg(value_name = "CONFIG")]
    config: PathBuf,
    /// The drive that leaves, as the configuration lists it
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// Only say what would be done and what is at risk
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Drains a drive.
///
/// # Errors
/// A drive that cannot leave, a server that does not answer, what it refuses, and a drain that fails.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let socket = status::socket(&arguments.config)?;
    if arguments.cancel {
        let answer = control::ask_to_cancel_drain(&socket);
        refused(("drain", "drained"), &answer.map_err(|why| status::silent(&socket, &why))?)?;
        return follow(&socket, arguments.json, "cancelled");
    }
    let Some(drive) = &arguments.drive else {
        return Err(Failure::Usage("name the drive that shall leave".into()));
    };
    let drive = listed(&arguments.config, drive)?;
    let answer = control::ask_to_drain(&socket, &drive, arguments.dry_run);
    let answer = answer.map_err(|why| status::silent(&socket, &why))?;
    refused(("drain", "drained"), &answer)?;
    if arguments.dry_run {
        return tell(arguments, &drive, &answer);
    }
    if !arguments.detach {
        return follow(&socket, arguments.json, "drained");
    }
    if arguments.json {
        return print_json(&answer);
    }
    print_text(&format!("{drive} is being drained; `tandem status` tells how far it is\n"))
}

/// Removes a drive.
///
/// # Errors
/// A drive that was not drained, a server that does not answer, and what it refuses.
pub fn remove(arguments: &RemoveArguments) -> Result<(), Failure> {
    let socket = status::socket(&arguments.config)?;
    let drive = listed(&arguments.config, &arguments.drive)?;
    if arguments.dry_run {
        return tell_of_removal(arguments, &socket, &drive);
    }
    let answer = control::ask_to_remove(&socket, &drive);
    refused(("remove", "removed"), &answer.map_err(|why| status::silent(&socket, &why))?)?;
    follow(&socket, arguments.json, "removed")
}

/// What a drain would do.
fn tell(arguments: &Arguments, drive: &str, answer: &Value) -> Result<(), Failure> {
    let pool = pool::read(&arguments.config)?;
    let device = pool.devices.iter().find(|device| device.label() == drive);
    let role = device.map_or("ssd", |device| crate::format::role(device.role));
    let rate = GUESSED_BYTES_PER_S.iter().find(|(of, _)| *of == role).expect("both are listed").1;
    let bytes = answer["bytes"].as_u64().unwrap_or(0);
    let seconds = bytes.div_ceil(rate);
    if arguments.json {
        return print_json(&json!({
            "drive": drive, "bytes": bytes, "seconds_at_least": seconds, "at_risk": Value::Null,
        }));
    }
    print_text(&format!(
        "{} would be moved from {drive} to the other drives: {seconds} s or more ({} a second, half of it \
         while users work).\nAt risk: nothing. Each block stays on {drive} until its new place is durable. \
         The pool has the room of one {} less from the beginning on.\n",
        shown(bytes),
        shown(rate),
        if role == "ssd" { "SSD" } else { "hard drive" },
    ))
}

/// What a removal would do.
fn tell_of_removal(arguments: &RemoveArguments, socket: &Path, drive: &str) -> Result<(), Failure> {
    let status = control::ask_for_status(socket).map_err(|why| status::silent(socket, &why))?;
    let of_drive = |how: &Draining| status::path(&status, how.device) == drive;
    let how = status.draining.as_ref().filter(|how| of_drive(how));
    let is_drained = how.is_some_and(|how| how.drained && how.ended.is_none());
    let left = how.map(|how| how.left_bytes);
    if arguments.json {
        let told = json!({ "drive": drive, "drained": is_drained, "left_bytes": left });
        return print_json(&told);
    }
    print_text(&match is_drained {
        true => format!("{drive} would be removed at once. At risk: nothing, it is drained.\n"),
        false => format!("{drive} would not be removed: it is not drained (`tandem drain`).\n"),
    })
}

/// Tells how far it is until it is so far.
fn follow(socket: &Path, as_json: bool, until: &str) -> Result<(), Failure> {
    let bar = indicatif::ProgressBar::new(0).with_style(
        indicatif::ProgressStyle::with_template(
            "{bar:40} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left {msg}",
        )
        .expect("the template is sound"),
    );
    let how = loop {
        let status = control::ask_for_status(socket).map_err(|why| {
            anyhow!("the server has gone ({why}); when it is started again it goes on")
        })?;
        let Some(how) = status.draining else { break None };
        let total = how.total_bytes.max(how.left_bytes);
        bar.set_length(total);
        bar.set_position(total - how.left_bytes);
        bar.set_message(how.stage.clone());
        let is_there = until == "drained" && how.drained;
        if how.ended.is_some() || is_there {
            break Some(how);
        }
        let (left, stuck) = (how.left_bytes, how.unreadable_blocks);
        if until == "drained" && stuck > 0 && left <= stuck * tandem_block::BLOCK_BYTES {
            bar.finish_and_clear();
            return Err(anyhow!(
                "{stuck} blocks cannot be read on the drive, and stay there: see `tandem check` for whose \
                 they are; when they are written or discarded the drain goes on"
            )
            .into());
        }
        std::thread::sleep(ASK_EVERY);
    };
    bar.finish_and_clear();
    if as_json {
        print_json(&how)?;
    } else if let Some(how) = &how {
        print_text(&outcome(how))?;
    }
    let Some(how) = how else { return Err(anyhow!("the server knows of no drain").into()) };
    match how.ended {
        Some(ended) if ended == until => Ok(()),
        None if until == "drained" => Ok(()),
        Some(why) => Err(anyhow!("not {until}: {why}").into()),
        None => Err(anyhow!("the server knows of no drain").into()),
    }
}

fn outcome(how: &Draining) -> String {
    format!(
        "{}: {} moved in {} s, {} left of {}\n",
        how.ended.as_deref().unwrap_or("drained"),
        shown(how.moved_bytes),
        how.ns / 1_000_000_000,
        shown(how.left_bytes),
        shown(how.total_bytes),
    )
}

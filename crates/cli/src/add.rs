//! `tandem add`: how does a drive come to a pool that is served?

use crate::config::bay;
use crate::failure::Failure;
use crate::replace::{GUESSED_BYTES_PER_S, follow, refused};
use crate::report::table::bytes as shown;
use crate::report::{print_json, print_text};
use crate::status;
use anyhow::{Context as _, anyhow};
use serde_json::Value;
use std::path::PathBuf;
use tandem_live::control::{self, Addition};

/// Add a drive to a pool while it is served
///
/// It takes a bay that is empty since a drive was removed (`tandem remove`), or since the pool was formatted
/// (`path = "bay:SIZE"`), and needs the size of that bay; of several bays it takes the largest that it
/// is large enough for. A server that is stopped
/// meanwhile, or killed, goes on when it is started again. Then the configuration names the drive.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The configuration of the pool that is served
    #[arg(value_name = "CONFIG")]
    config: PathBuf,
    /// The drive that comes
    #[arg(value_name = "DRIVE", required_unless_present = "cancel")]
    drive: Option<PathBuf>,
    /// What it is for, if there are empty bays of both kinds
    #[arg(long, value_name = "ssd|hdd", value_parser = ["ssd", "hdd"])]
    role: Option<String>,
    /// Take this bay: that of a drive which was removed, as the configuration lists it, or bay:SIZE
    #[arg(long, value_name = "BAY")]
    bay: Option<PathBuf>,
    #[arg(long, hide = true, value_parser = now_called_bay)]
    place: Option<PathBuf>,
    /// Only say whether it could be, what is at risk and how long it takes
    #[arg(long, conflicts_with = "cancel")]
    dry_run: bool,
    /// Use the drive whatever it holds
    #[arg(long, conflicts_with = "cancel")]
    force: bool,
    /// End what is under way: the bay stays empty
    #[arg(long, conflicts_with_all = ["drive", "role", "bay"])]
    cancel: bool,
    /// Begin, and do not wait for the end: `tandem status` tells how far it is
    #[arg(long, conflicts_with_all = ["cancel", "dry_run"])]
    detach: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Refuses a word of before, with the one of now.
fn now_called_bay(_drive: &str) -> Result<PathBuf, String> {
    Err("--place is now called --bay".to_owned())
}

/// Does it.
///
/// # Errors
/// A drive that cannot come, a server that does not answer, and what it refuses.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let socket = status::socket(&arguments.config)?;
    if arguments.cancel {
        let answer = control::ask_to_cancel_replace(&socket);
        refused(("add", "cancelled"), &answer.map_err(|why| status::silent(&socket, &why))?)?;
        return follow(&socket, arguments.json);
    }
    let Some(drive) = &arguments.drive else {
        return Err(Failure::Usage("name the drive that comes".into()));
    };
    let path = std::path::absolute(drive).context("the path of the drive")?;
    let named = path.to_str().ok_or_else(|| anyhow!("{} is not UTF-8", path.display()))?;
    let bay = arguments.bay.as_deref().map(|bay| {
        if let Some(label) = bay.to_str().filter(|label| bay::is_bay(label)) {
            return Ok(label.to_owned());
        }
        let bay = std::path::absolute(bay).context("the path of the drive that was removed")?;
        bay.to_str().map(str::to_owned).ok_or_else(|| anyhow!("{} is not UTF-8", bay.display()))
    });
    let it = Addition {
        drive: named.to_owned(),
        role: arguments.role.clone(),
        bay: bay.transpose()?,
        force: arguments.force,
        dry_run: arguments.dry_run,
    };
    let answer = control::ask_to_add(&socket, &it);
    let answer = answer.map_err(|why| status::silent(&socket, &why))?;
    refused(("add", "added"), &answer)?;
    if !arguments.dry_run && !arguments.detach {
        return follow(&socket, arguments.json);
    }
    if arguments.json {
        return print_json(&answer);
    }
    let bay = answer["bay"].as_str().unwrap_or("-");
    match arguments.dry_run {
        true => print_text(&told(named, bay, &answer)),
        false => print_text(&format!(
            "{named} is being added in {}; `tandem status` tells how far it is\n",
            bay::told(bay)
        )),
    }
}

/// What would be done.
fn told(drive: &str, bay: &str, answer: &Value) -> String {
    let number = |name: &str| answer[name].as_u64().unwrap_or(0);
    let holds: Vec<&str> =
        answer["holds"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    // only SSDs get metadata
    let rate = GUESSED_BYTES_PER_S[0].1;
    let bytes = number("bytes");
    let mut text = format!(
        "{drive} would take {}: {} of its {} are used, {} of metadata are copied to it, {} s or more.\n",
        bay::told(bay),
        shown(number("wanted_bytes")),
        shown(number("found_bytes")),
        shown(bytes),
        bytes.div_ceil(rate).max(1),
    );
    text.push_str(&match holds.is_empty() {
        true => "At risk: what the drive holds, which is nothing known.\n".to_owned(),
        false => format!(
            "At risk: what the drive holds; --force is needed. It holds {}.\n",
            holds.join(", ")
        ),
    });
    text.push_str(
        "The pool's data is not moved; new data goes to the drive when it is a member.\n",
    );
    text
}

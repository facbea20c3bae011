//! `tandem replace`: how does a drive leave a pool that is served?

use crate::config::bay;
use crate::failure::Failure;
use crate::pool::{devices, signature};
use crate::report::table::bytes as shown;
use crate::report::{print_json, print_text};
use crate::{pool, status};
use anyhow::{Context as _, anyhow};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tandem_live::control;
use tandem_live::status::Replacing;

/// How often a server is asked how far it is.
const ASK_EVERY: Duration = Duration::from_millis(500);
/// What a drive is taken to copy in a second, where nothing else is known: SSDs and hard drives.
pub(crate) const GUESSED_BYTES_PER_S: [(&str, u64); 2] =
    [("ssd", 300_000_000), ("hdd", 100_000_000)];

/// Replace a drive of a pool while it is served
///
/// Everything is copied to the new drive in the background, while users go on; then it takes the old
/// one's place, and the configuration names it. A server that is stopped meanwhile, or killed, goes on
/// where it was when it is started again. Until the end the old drive stays the pool's.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The configuration of the pool that is served
    #[arg(value_name = "CONFIG")]
    config: PathBuf,
    /// The drive that goes, as the configuration lists it
    #[arg(value_name = "OLD", required_unless_present = "cancel")]
    old: Option<PathBuf>,
    /// The drive that comes: at least as large
    #[arg(value_name = "NEW", required_unless_present = "cancel")]
    new: Option<PathBuf>,
    /// Only say what would be done, what is at risk and how long it takes
    #[arg(long, conflicts_with = "cancel")]
    dry_run: bool,
    /// Use the new drive whatever it holds
    #[arg(long, conflicts_with = "cancel")]
    force: bool,
    /// End a replacement that is under way: the old drive stays
    #[arg(long, conflicts_with_all = ["old", "new"])]
    cancel: bool,
    /// Begin, and do not wait for the end: `tandem status` tells how far it is
    #[arg(long, conflicts_with_all = ["cancel", "dry_run"])]
    detach: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Does it.
///
/// # Errors
/// Drives that cannot be, a server that does not answer, what it refuses, and a replacement that fails.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let socket = status::socket(&arguments.config)?;
    if arguments.cancel {
        let answer = control::ask_to_cancel_replace(&socket);
        refused(("replace", "replaced"), &answer.map_err(|why| status::silent(&socket, &why))?)?;
        return follow(&socket, arguments.json);
    }
    let (Some(old), Some(new)) = (&arguments.old, &arguments.new) else {
        return Err(Failure::Usage("name the drive that goes and the one that comes".into()));
    };
    let listed = listed(&arguments.config, old)?;
    let new = std::path::absolute(new).context("the path of the new drive")?;
    if arguments.dry_run {
        return tell(arguments, &listed, &new);
    }
    let named = new.to_str().ok_or_else(|| anyhow!("{} is not UTF-8", new.display()))?;
    let answer = control::ask_to_replace(&socket, (&listed, named), arguments.force);
    let answer = answer.map_err(|why| status::silent(&socket, &why))?;
    refused(("replace", "replaced"), &answer)?;
    if !arguments.detach {
        return follow(&socket, arguments.json);
    }
    if arguments.json {
        return print_json(&answer);
    }
    print_text(&format!(
        "{listed} is being replaced by {named}; `tandem status` tells how far it is\n"
    ))
}

/// What the configuration calls a drive that the user names, whatever folder either starts from.
pub(crate) fn listed(config: &Path, old: &Path) -> Result<String, Failure> {
    let pool = pool::read(config)?;
    let labels: Vec<String> = pool.drives().map(|drive| drive.label()).collect();
    let by = |name: &Path| {
        let folder = config.parent().unwrap_or(Path::new(""));
        let real = |path: &Path| std::fs::canonicalize(path).ok();
        labels.iter().find(|label| {
            let label = Path::new(label);
            let found = real(label).is_some() && real(label) == real(name);
            label == name || label == folder.join(name) || found
        })
    };
    if old.to_str().is_some_and(bay::is_bay) {
        let old = old.display();
        let text = format!("{old} is an empty bay, and no drive: `tandem add` puts one there");
        return Err(Failure::Usage(text));
    }
    by(old).cloned().ok_or_else(|| {
        let text = format!("the pool has no drive {}; it has {}", old.display(), labels.join(", "));
        Failure::Usage(text)
    })
}

/// What a server says that does not do what it was asked for: `what` names it, as in "not replaced".
pub(crate) fn refused(what: (&str, &str), answer: &Value) -> Result<(), Failure> {
    let (verb, done) = what;
    match answer["error"].as_str() {
        // a server from before there was this verb
        Some(why) if why.contains("'verb' must be") => Err(anyhow!(
            "the server is of an older version that cannot {verb} drives: restart it with this one"
        )
        .into()),
        Some(why) => Err(anyhow!("not {done}: {why}").into()),
        None => Ok(()),
    }
}

/// What would be done.
fn tell(arguments: &Arguments, old: &str, new: &Path) -> Result<(), Failure> {
    let pool = pool::read(&arguments.config)?;
    let device = pool.devices.iter().find(|device| device.label() == old);
    let device = device.ok_or_else(|| {
        anyhow!("{old} is a drive of a mirrored pair: `tandem serve --new-leg` replaces those")
    })?;
    let bytes = devices::backing_bytes(&device.backing)?;
    let mut file = File::open(new).map_err(|why| pool::explain::not_opened(new, &why))?;
    let found = file.seek(SeekFrom::End(0)).context("the new drive has no size")?;
    let holds = signature::find(&file, found).context("reading the new drive")?;
    let role = crate::format::role(device.role);
    let rate = GUESSED_BYTES_PER_S.iter().find(|(of, _)| *of == role).expect("both are listed").1;
    let seconds = bytes.div_ceil(rate);
    let fits = found >= bytes;
    if arguments.json {
        return print_json(&json!({
            "old": old, "new": new, "bytes": bytes, "new_bytes": found, "fits": fits,
            "new_holds": holds, "seconds_at_least": seconds,
        }));
    }
    let mut text = format!(
        "{old} would be copied to {}: {}, {seconds} s or more ({} a second, half of it while users work).\n",
        new.display(),
        shown(bytes),
        shown(rate),
    );
    text.push_str(match holds.is_empty() {
        true => "At risk: what the new drive holds, which is nothing known.\n",
        false => "At risk: what the new drive holds; --force is needed.\n",
    });
    if !holds.is_empty() {
        text.push_str(&format!("It holds {}.\n", holds.join(", ")));
    }
    if !fits {
        text.push_str(&format!("It is too small: it has {}.\n", shown(found)));
    }
    text.push_str("The pool's data is on the old drive until the end, and stays there.\n");
    print_text(&text)
}

/// Tells how far it is until it is over.
pub(crate) fn follow(socket: &Path, as_json: bool) -> Result<(), Failure> {
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
        let Some(how) = status.replacing else { break None };
        bar.set_length(how.total_bytes);
        bar.set_position(how.copied_bytes);
        bar.set_message(how.stage.clone());
        if how.ended.is_some() {
            break Some(how);
        }
        std::thread::sleep(ASK_EVERY);
    };
    bar.finish_and_clear();
    if as_json {
        print_json(&how)?;
    } else if let Some(how) = &how {
        print_text(&ended(how))?;
    }
    let Some(how) = how else {
        return Err(anyhow!("the server knows of no such change").into());
    };
    match how.ended.as_deref() {
        Some("finished" | "cancelled") | None => Ok(()),
        Some(why) if how.joins => Err(anyhow!("not added: {why}").into()),
        Some(why) => Err(anyhow!("not replaced: {why}").into()),
    }
}

fn ended(how: &Replacing) -> String {
    let seconds = how.ns / 1_000_000_000;
    let (ended, copied) = (how.ended.as_deref().unwrap_or("over"), shown(how.copied_bytes));
    if how.joins {
        return format!("{ended}: {copied} of metadata copied in {seconds} s\n");
    }
    let mut text = format!(
        "{ended}: {copied} of {} in {seconds} s ({} were there from before), {} of users' writes went to \
         both drives\n",
        shown(how.total_bytes),
        shown(how.resumed_bytes),
        shown(how.doubled_bytes),
    );
    if how.unreadable_blocks > 0 {
        text.push_str(&format!(
            "! {} blocks of the old drive could not be read: see `tandem check`\n",
            how.unreadable_blocks
        ));
    }
    text
}

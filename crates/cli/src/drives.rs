//! `tandem drives`: which drives are known?

use crate::failure::Failure;
use crate::report::{print_json, print_text, table::Table, table::capacity};
use serde::Serialize;
use tandem_drives::spec::SPECS;
use tandem_sim::profiles::{self, DriveProfile};

/// List the modelled drives, or show the numbers of one with their sources.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Show this drive's spec (what the model is) and profile (what the engine believes of it)
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Drive {
    name: &'static str,
    kind: String,
    capacity_bytes: u64,
    profile: bool,
    endurance_bytes: Option<u64>,
    about: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    spec: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile_text: Option<&'static str>,
}

/// Does it.
///
/// # Errors
/// A name that is not known, or what stdout answers.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.name {
        None => list(arguments.json),
        Some(name) => show(name, arguments.json),
    }
}

fn drives() -> impl Iterator<Item = Drive> {
    SPECS.iter().map(|known| {
        let profile = profiles::shipped(known.name);
        let endurance_bytes = profile.as_ref().and_then(DriveProfile::endurance_bytes);
        Drive {
            name: known.name,
            kind: known.kind.to_string(),
            capacity_bytes: known.spec().capacity_bytes(),
            profile: profile.is_some(),
            endurance_bytes,
            about: known.about,
            spec: None,
            profile_text: None,
        }
    })
}

fn list(json: bool) -> Result<(), Failure> {
    if json {
        return print_json(&drives().collect::<Vec<_>>());
    }
    let mut table = Table::new(&["<drive", "<kind", "capacity", "<profile", "<what it is"]);
    for drive in drives() {
        table.row(vec![
            drive.name.to_owned(),
            drive.kind,
            capacity(drive.capacity_bytes),
            if drive.profile { "yes" } else { "no" }.to_owned(),
            drive.about.to_owned(),
        ]);
    }
    print_text(&table.render())
}

fn show(name: &str, json: bool) -> Result<(), Failure> {
    let Some(known) = SPECS.iter().find(|known| known.name.eq_ignore_ascii_case(name)) else {
        let nearest = tandem_traces::spell::nearest(name, SPECS.iter().map(|known| known.name));
        let text = format!("no drive is called {name:?}; did you mean {nearest:?}?");
        return Err(Failure::usage(text));
    };
    let profile = profiles::SHIPPED.iter().find(|(shipped, _)| *shipped == known.name);
    let profile = profile.map(|(_, text)| *text);
    if json {
        let mut drive = drives().find(|drive| drive.name == known.name).expect("found above");
        drive.spec = Some(known.text());
        drive.profile_text = profile;
        return print_json(&drive);
    }
    let text = profile.unwrap_or("# none: the engine does not steer writes to this drive\n");
    print_text(&format!("# --- spec ---\n{}\n# --- profile ---\n{text}", known.text()))
}

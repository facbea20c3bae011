//! `tandem policies`: where can writes be steered?

use crate::failure::Failure;
use crate::report::{print_json, print_text, table::Table, table::wrap};
use crate::setting;
use serde::Serialize;
use std::fmt::Write as _;
use tandem_engine::steer::POLICIES;
use tandem_engine::steer::settings::Setting;

/// List the policies and their settings.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct SettingLine {
    name: &'static str,
    default: String,
    values: String,
    summary: &'static str,
}

#[derive(Serialize)]
struct Policy {
    name: &'static str,
    summary: &'static str,
    source: &'static str,
    settings: Vec<SettingLine>,
}

/// Does it.
///
/// # Errors
/// What stdout answers.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let line = |of: &Setting| SettingLine {
        name: of.name,
        default: setting::print(of, of.default),
        values: setting::wanted(of),
        summary: of.meaning,
    };
    let policies: Vec<Policy> = POLICIES
        .iter()
        .map(|entry| Policy {
            name: entry.name,
            summary: entry.summary,
            source: entry.source,
            settings: entry.settings.iter().map(line).collect(),
        })
        .collect();
    if arguments.json {
        return print_json(&policies);
    }
    let mut table = Table::new(&["<policy", "<what it does", "<source"]);
    for policy in &policies {
        table.row([policy.name, policy.summary, policy.source].map(str::to_owned).to_vec());
    }
    let mut text = table.render();
    let _ =
        writeln!(text, "\nSettings, as in --policy mios-d:queue_length=3; given are the defaults");
    for policy in &policies {
        for setting in &policy.settings {
            let line = format!(
                "{} {}={}: {} ({})",
                policy.name, setting.name, setting.default, setting.summary, setting.values
            );
            let _ = writeln!(text, "  {}", wrap(&line, 98, 4));
        }
    }
    print_text(&text)
}

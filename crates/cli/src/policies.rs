//! `tandem policies`: where can writes be steered, and where can data belong?

use crate::failure::Failure;
use crate::report::{print_json, print_text, table::Table, table::wrap};
use crate::setting;
use serde::Serialize;
use std::fmt::Write as _;
use tandem_engine::settings::{Registry, Setting, Steers};
use tandem_engine::steer::POLICIES;
use tandem_engine::tier::{TIERS, Tiers};

/// List the steering policies, the tiers, and their settings.
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
    kind: &'static str,
    name: &'static str,
    summary: &'static str,
    source: &'static str,
    settings: Vec<SettingLine>,
}

fn lines<R: Registry>(name: &str) -> Vec<SettingLine> {
    let line = |of: &Setting| SettingLine {
        name: of.name,
        default: setting::print(of, R::default(name, of)),
        values: setting::wanted(of),
        summary: of.meaning,
    };
    R::settings(name).unwrap_or(&[]).iter().map(line).collect()
}

/// Does it.
///
/// # Errors
/// What stdout answers.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let policies: Vec<Policy> = POLICIES
        .iter()
        .map(|of| Policy {
            kind: "steer",
            name: of.name,
            summary: of.summary,
            source: of.source,
            settings: lines::<Steers>(of.name),
        })
        .collect();
    let tiers: Vec<Policy> = TIERS
        .iter()
        .map(|of| Policy {
            kind: "tier",
            name: of.name,
            summary: of.summary,
            source: of.source,
            settings: lines::<Tiers>(of.name),
        })
        .collect();
    if arguments.json {
        return print_json(&policies.iter().chain(&tiers).collect::<Vec<_>>());
    }
    let mut text = table("<policy", &policies);
    let _ =
        writeln!(text, "\nSettings, as in --policy mios-d:queue_length=3; given are the defaults");
    policies.iter().for_each(|policy| settings(policy.name, &policy.settings, &mut text));
    let _ = writeln!(
        text,
        "\n`tandem replay --policy bare` is no policy: it shows what the hard drive does alone, and bare-ssd the SSD."
    );
    let _ = write!(text, "\n{}", table("<tier", &tiers));
    let _ = writeln!(
        text,
        "\nSettings of every tier but none, as in --tier hot-dst:interval=5s; given are the defaults"
    );
    if let Some(first) = tiers.iter().find(|tier| !tier.settings.is_empty()) {
        settings("", &first.settings, &mut text);
        for tier in &tiers {
            let differs =
                |(own, common): &(&SettingLine, &SettingLine)| own.default != common.default;
            for (own, _) in tier.settings.iter().zip(&first.settings).filter(differs) {
                let _ = writeln!(text, "  {} {}={}", tier.name, own.name, own.default);
            }
        }
    }
    print_text(&text)
}

fn table(heading: &str, of: &[Policy]) -> String {
    let mut table = Table::new(&[heading, "<what it does", "<source"]);
    for policy in of {
        table.row([policy.name, policy.summary, policy.source].map(str::to_owned).to_vec());
    }
    table.render()
}

fn settings(name: &str, of: &[SettingLine], text: &mut String) {
    for setting in of {
        let line = format!(
            "{name} {}={}: {} ({})",
            setting.name, setting.default, setting.summary, setting.values
        );
        let _ = writeln!(text, "  {}", wrap(line.trim_start(), 98, 4));
    }
}

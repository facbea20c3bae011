//! `tandem formats`: which traces can be read, and which workloads can be made?

use crate::failure::Failure;
use crate::report::{print_json, print_text, table::Table, table::wrap};
use serde::Serialize;
use std::fmt::Write as _;
use tandem_traces::{FORMATS, synth::GENERATORS};

/// List the trace formats, and the synthetic workloads with their settings.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Format {
    name: &'static str,
    summary: &'static str,
    columns: &'static str,
}

#[derive(Serialize)]
struct Setting {
    name: &'static str,
    default: &'static str,
    summary: &'static str,
}

#[derive(Serialize)]
struct Workload {
    name: &'static str,
    summary: &'static str,
    settings: Vec<Setting>,
}

#[derive(Serialize)]
struct Document {
    formats: Vec<Format>,
    synth: Vec<Workload>,
}

/// Does it.
///
/// # Errors
/// What stdout answers.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let document = document();
    if arguments.json { print_json(&document) } else { print_text(&text(&document)) }
}

fn document() -> Document {
    let formats = FORMATS
        .iter()
        .map(|f| Format { name: f.name, summary: f.summary, columns: f.columns })
        .collect();
    let setting = |s: &tandem_traces::synth::Setting| Setting {
        name: s.name,
        default: s.default,
        summary: s.summary,
    };
    let synth = GENERATORS
        .iter()
        .map(|generator| Workload {
            name: generator.name,
            summary: generator.summary,
            settings: generator.settings.iter().map(setting).collect(),
        })
        .collect();
    Document { formats, synth }
}

fn text(document: &Document) -> String {
    let mut text =
        "Trace formats (--format; plain, gzip or zstd; detected from the first 1,000 lines)\n\n"
            .to_owned();
    for format in &document.formats {
        let _ = writeln!(text, "  {:<15}{}", format.name, wrap(format.summary, 100, 17));
        let _ = writeln!(text, "{:17}{}", "", wrap(format.columns, 100, 17));
    }
    text.push_str("\nSynthetic workloads (tandem replay synth:NAME:setting=value,...)\n\n");
    for workload in &document.synth {
        let _ = writeln!(text, "  {:<15}{}", workload.name, wrap(workload.summary, 100, 17));
        let mut table = Table::new(&["<", "<", "<"]);
        for setting in &workload.settings {
            let cells = [setting.name, setting.default, setting.summary];
            table.row(cells.map(str::to_owned).to_vec());
        }
        for line in table.render().lines().skip(1) {
            let _ = writeln!(text, "{:15}{line}", "");
        }
    }
    text
}

//! The command line: what does the user want done? One file per verb.
//!
//! Exit codes: 0 ok, 1 failed, 2 usage (a configuration that makes no sense is one, too: trying
//! again cannot help). Results go to stdout, everything else to stderr.

// both panic where nobody can be told: see `stderr.rs`
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod add;
mod check;
pub mod config;
mod demo;
mod drain;
mod drives;
mod failure;
mod format;
mod formats;
mod input;
mod mount;
mod output;
mod policies;
mod policy;
mod pool;
mod profile;
mod rate;
mod replace;
mod replay;
mod report;
mod run;
mod serve;
mod setting;
mod snapshot;
mod status;
mod stderr;
mod sweep;
mod synth;
mod tier;
mod toml_fault;

use clap::{Parser, Subcommand};
use failure::Failure;
use std::process::ExitCode;

/// An SSD-HDD hybrid storage server, and a simulator that replays traces through the same engine.
#[derive(Debug, Parser)]
#[command(name = "tandem", version, arg_required_else_help = true, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Demo(demo::Arguments),
    Format(format::Arguments),
    Serve(serve::Arguments),
    Mount(mount::Arguments),
    Check(check::Arguments),
    Status(status::Arguments),
    Tier(tier::Arguments),
    Replace(replace::Arguments),
    Add(add::Arguments),
    Drain(drain::Arguments),
    Remove(drain::RemoveArguments),
    Snapshot(snapshot::Arguments),
    Replay(Box<replay::Arguments>),
    Run(run::Arguments),
    Sweep(sweep::Arguments),
    Profile(profile::Arguments),
    Synth(synth::Arguments),
    Policies(policies::Arguments),
    Drives(drives::Arguments),
    Formats(formats::Arguments),
}

/// Does what the command line says.
pub fn main() -> ExitCode {
    // clap itself prints help and usage errors, and leaves with 0 or 2
    let result = match Arguments::parse().verb {
        Verb::Demo(arguments) => demo::run(&arguments),
        Verb::Format(arguments) => format::run(&arguments),
        Verb::Serve(arguments) => serve::run(&arguments),
        Verb::Mount(arguments) => mount::run(&arguments),
        Verb::Check(arguments) => check::run(&arguments),
        Verb::Status(arguments) => status::run(&arguments),
        Verb::Tier(arguments) => tier::run(&arguments),
        Verb::Replace(arguments) => replace::run(&arguments),
        Verb::Add(arguments) => add::run(&arguments),
        Verb::Drain(arguments) => drain::run(&arguments),
        Verb::Remove(arguments) => drain::remove(&arguments),
        Verb::Snapshot(arguments) => snapshot::run(&arguments),
        Verb::Replay(arguments) => replay::run(&arguments),
        Verb::Run(arguments) => run::run(&arguments),
        Verb::Sweep(arguments) => sweep::run(&arguments),
        Verb::Profile(arguments) => profile::run(&arguments),
        Verb::Synth(arguments) => synth::run(&arguments),
        Verb::Policies(arguments) => policies::run(&arguments),
        Verb::Drives(arguments) => drives::run(&arguments),
        Verb::Formats(arguments) => formats::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // the reader has seen enough: `tandem … | head` is a success
        Err(failure) if failure.is_broken_pipe() => ExitCode::SUCCESS,
        Err(Failure::Usage(text)) => {
            stderr::note(format_args!("error: {text}\n\nFor more information, try '--help'."));
            ExitCode::from(2)
        }
        Err(Failure::Configuration(fault)) => {
            stderr::note(format_args!("error: {fault}"));
            ExitCode::from(2)
        }
        Err(Failure::Failed(error)) => {
            stderr::note(format_args!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory as _;
        super::Arguments::command().debug_assert();
    }
}

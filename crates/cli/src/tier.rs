//! `tandem tier`: where does the data of a volume belong from now on?

use crate::failure::Failure;
use crate::report::print_text;
use crate::{policy, status};
use anyhow::anyhow;
use std::path::PathBuf;
use tandem_engine::TierConfig;

/// Give a volume another tier while it is served
///
/// Nothing is lost: what the new tier does not keep on the SSDs leaves them in the background. The
/// change lasts until the server ends; to keep it, set `tier` in the configuration.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The configuration of the pool that is served, or its control socket
    #[arg(value_name = "CONFIG|SOCKET")]
    place: PathBuf,
    /// The volume's name
    #[arg(value_name = "VOLUME")]
    volume: String,
    /// A tier of `tandem policies`, with settings as in hot-dst:interval=5s
    #[arg(value_name = "TIER")]
    tier: String,
}

/// Does it.
///
/// # Errors
/// A tier that there is not, a server that does not answer, or what it refuses and why.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let tier: TierConfig = policy::parse("TIER", &arguments.tier)?;
    let socket = status::socket(&arguments.place)?;
    let answer = tandem_live::control::ask_for_tier(&socket, &arguments.volume, &tier)
        .map_err(|why| status::silent(&socket, &why))?;
    if let Some(why) = answer["error"].as_str() {
        return Err(anyhow!("{}: not changed: {why}", arguments.volume).into());
    }
    let label = policy::label(&tier);
    print_text(&format!("{}: tier {label} from now on\n", arguments.volume))
}

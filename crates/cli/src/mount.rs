//! `tandem mount`: how does one use a volume of files at once?
//!
//! The pool is served as by `tandem serve`, with everything that its configuration says, and one volume
//! of files is mounted where the command line says. It ends with SIGTERM or SIGINT, and when the volume
//! is unmounted.

use crate::config::{PoolConfig, PoolVolume};
use crate::failure::Failure;
use crate::pool;
use crate::pool::devices::Manner;
use crate::serve;
use anyhow::Context as _;
use std::path::PathBuf;
use tandem_fronts::fuse::Reach;
use tandem_live::uring::Signals;

/// Serve a pool with a volume of files mounted, until it is unmounted, SIGTERM or SIGINT
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The pool's configuration
    #[arg(value_name = "CONFIG")]
    config: PathBuf,
    /// Where to mount it; without, where its `mount` says
    #[arg(value_name = "DIR")]
    point: Option<PathBuf>,
    /// Which volume, if the pool has several of files
    #[arg(long, value_name = "NAME")]
    volume: Option<String>,
    /// Let all users of this machine in, as their permissions say (`allow_other` of the volume)
    #[arg(long)]
    allow_other: bool,
    /// Emulated drives acknowledge flushes and do not do them: shows that tests see the loss
    #[arg(long, hide = true)]
    ignore_flushes: bool,
}

/// Does it.
///
/// # Errors
/// A pool or a mount point that cannot be used, and an end that was not clean.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    pool::log_to_stderr();
    // before any thread is made, since threads inherit the mask
    let signals = Signals::listen().context("catching SIGTERM and SIGINT")?;
    let mut pool = pool::read(&arguments.config)?;
    let name = choose(&mut pool, arguments)?;
    let manner = if arguments.ignore_flushes { Manner::Lying } else { Manner::Configured };
    serve::serve(&arguments.config, &pool, manner, (signals, None), Some(&name))
}

/// Gives the volume that is meant its mount point; its name.
fn choose(pool: &mut PoolConfig, arguments: &Arguments) -> Result<String, Failure> {
    let config = arguments.config.display();
    let names = |volumes: &[&mut PoolVolume]| {
        volumes.iter().map(|volume| volume.name.clone()).collect::<Vec<_>>().join(", ")
    };
    let mut of_files: Vec<&mut PoolVolume> =
        pool.volumes.iter_mut().filter(|volume| volume.is_files).collect();
    if of_files.is_empty() {
        let text = format!(
            "{config}: no volume of this pool holds files: add a [[volume]] with files = true, and no \
             size"
        );
        return Err(Failure::Usage(text));
    }
    let known = names(&of_files);
    let chosen = match &arguments.volume {
        Some(name) => of_files.into_iter().find(|volume| volume.name == *name),
        None if of_files.len() > 1 => {
            let text =
                format!("{config}: name the volume with --volume; those of files are {known}");
            return Err(Failure::Usage(text));
        }
        None => of_files.pop(),
    };
    let Some(volume) = chosen else {
        let name = arguments.volume.as_deref().unwrap_or_default();
        let text =
            format!("{config}: there is no volume of files called {name:?}; there is {known}");
        return Err(Failure::Usage(text));
    };
    if let Some(point) = &arguments.point {
        volume.mount = Some(point.clone());
    }
    if arguments.allow_other {
        volume.reach = Reach::Everybody;
    }
    if volume.mount.is_none() {
        let name = &volume.name;
        let text = format!(
            "{config}: where? Name a directory, or add mount = \"DIR\" to the volume {name}"
        );
        return Err(Failure::Usage(text));
    }
    Ok(volume.name.clone())
}

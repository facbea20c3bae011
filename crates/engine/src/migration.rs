//! Migration: everything that moves or copies blocks between drives.

use crate::config::EngineConfig;
use crate::drain::Evacuation;
use crate::log::read_back::ReadBack;
use crate::ops::copies::Copies;
use crate::ops::moves::Moves;
use crate::ops::read_back::{self, Promotions};
use crate::ops::tail::TailCopies;

/// What moves blocks, and what is kept of blocks on their way.
#[derive(Clone, Debug)]
pub(crate) struct Migration {
    pub(crate) moves: Moves,
    /// Copies to homes of blocks that stay where they are.
    pub(crate) copies: Copies,
    /// What of the logs is in RAM.
    pub(crate) read_back: ReadBack,
    pub(crate) promotions: Promotions,
    /// Copies of unflushed log writes that are under way.
    pub(crate) tail_copies: TailCopies,
    /// A drive that is about to leave.
    pub(crate) evacuation: Evacuation,
}

impl Migration {
    /// Of nothing yet.
    pub(crate) fn new(config: &EngineConfig) -> Migration {
        Migration {
            moves: Moves::default(),
            copies: Copies::default(),
            read_back: read_back::new(config),
            promotions: Promotions::default(),
            tail_copies: TailCopies::default(),
            evacuation: Evacuation::default(),
        }
    }
}

//! Migration: everything that moves or copies blocks between drives.

pub(crate) mod audit;
pub(crate) mod copies;
pub(crate) mod dropping;
pub(crate) mod home_writes;
pub(crate) mod homed;
pub(crate) mod homes;
pub(crate) mod log_gc;
pub(crate) mod merge;
pub(crate) mod moves;
pub(crate) mod one_move;
pub(crate) mod read_back;
pub(crate) mod tail;
pub(crate) mod unmovable;

use crate::config::EngineConfig;
use crate::drain::Evacuation;
use crate::log::read_back::ReadBack;
use crate::migration::copies::Copies;
use crate::migration::moves::Moves;
use crate::migration::read_back::Promotions;
use crate::migration::tail::TailCopies;

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

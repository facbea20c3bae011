//! What are settings called, in options and in results?

use tandem_block::DurabilityClass;
use tandem_engine::Placement;

/// The name of a durability class in options and results.
pub fn durability_name(class: DurabilityClass) -> &'static str {
    match class {
        DurabilityClass::VolatileOk => "volatile-ok",
        DurabilityClass::Journaled => "journaled",
        DurabilityClass::Protected => "protected",
        DurabilityClass::Strict => "strict",
    }
}

/// The name of a placement in options and results.
pub fn placement_name(placement: Placement) -> &'static str {
    match placement {
        Placement::Mapped => "mapped",
        Placement::Fixed => "fixed",
    }
}

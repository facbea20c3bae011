//! Policies: what decides where a write goes, what is kept on the SSD, and whose turn it is.

pub(crate) mod balance;
pub(crate) mod steering;
pub(crate) mod streams;

use crate::config::EngineConfig;
use crate::ledger::Ledger;
use crate::policy::steering::Steering;
use crate::qos::delivery::Clients;
use crate::qos::{self, Qos};
use crate::tiering::Tiers;

/// The policies of a pool, and what they have counted.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    pub(crate) steering: Steering,
    pub(crate) tiers: Tiers,
    pub(crate) ledger: Ledger,
    pub(crate) qos: Box<dyn Qos>,
    /// Who is told apart; `None` where nobody is.
    pub(crate) clients: Option<Box<Clients>>,
}

impl Policy {
    /// With the first order of service that there is.
    pub(crate) fn new(tiers: Tiers, steering: Steering, config: &EngineConfig) -> Policy {
        let (ledger, qos) = (Ledger::new(config), (qos::ORDERS[0].build)());
        Policy { steering, tiers, ledger, qos, clients: None }
    }
}

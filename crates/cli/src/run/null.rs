//! What would come out without the policies that are tested? The names of what stands in their place.

/// What stands in the place of the policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Null {
    /// Every write goes to the SSD.
    SsdFirst,
    /// Clients are served in the order of their requests, on one SSD that takes every write.
    Unprotected,
    /// … on two drives of a pair that are both written, and of which either is read.
    BothLegs,
    /// Data lies at random. Time is that of the SSD alone for the share of the data that lies there,
    /// and that of the hard drive alone for the rest.
    Random,
    /// A predictor that always says "fast".
    AlwaysFast,
    /// One write-through cache, which gives up what was used least recently, in the place of each tier.
    Lru,
}

impl Null {
    /// All that there are, as files call them.
    pub const NAMED: [(&'static str, Null); 6] = [
        ("ssd-first", Null::SsdFirst),
        ("unprotected", Null::Unprotected),
        ("both-legs", Null::BothLegs),
        ("always-fast", Null::AlwaysFast),
        ("random", Null::Random),
        ("lru", Null::Lru),
    ];

    /// As files call it.
    pub fn name(self) -> &'static str {
        let found = Null::NAMED.iter().find(|(_, null)| *null == self);
        found.expect("each stands in the list").0
    }
}

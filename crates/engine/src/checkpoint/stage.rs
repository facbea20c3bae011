//! Which step does a checkpoint take, and the last one of a life?

/// Its step; they come in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// None is under way.
    #[default]
    Idle,
    /// Checksums are carried into their pages.
    Pages,
    /// Places of blocks are written.
    Places,
    /// Pages of pointers are.
    Pointers,
    /// The table of objects is.
    Table,
    /// All of them are flushed.
    Flush,
    /// A batch has to be durable.
    AwaitBatch,
    /// The root is written.
    Root,
}

/// Has a stop asked for a last round, and how far is it?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum StopState {
    #[default]
    None,
    Asked,
    /// A round has begun since.
    Begun,
    Done,
}

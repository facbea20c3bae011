//! Which step does a checkpoint take?

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

//! Nodes that the kernel no longer refers to.

use zerocopy::FromBytes;

use crate::wire::ForgetOne;

/// A node, and how many of its lookups are taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forget {
    /// Node id.
    pub node: u64,
    /// As many as replies named the node, at most.
    pub lookups: u64,
}

/// The nodes of one BATCH_FORGET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgets<'a>(pub(crate) &'a [u8]);

impl Iterator for Forgets<'_> {
    type Item = Forget;

    fn next(&mut self) -> Option<Forget> {
        let (one, rest) = ForgetOne::read_from_prefix(self.0).ok()?;
        self.0 = rest;
        Some(Forget { node: one.node, lookups: one.lookups })
    }
}

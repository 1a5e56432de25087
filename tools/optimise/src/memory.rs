//! Accesses to memory of one window: which bytes they touch, and which stores a load may see.
//!
//! Two addresses are told apart by their numbers if they count from the same value, and never otherwise.

use antares_program::Op;

/// Bytes that an access touches; none for what is no access.
pub(crate) fn width(op: Op) -> Option<u64> {
    Some(match op {
        Op::Lb | Op::Lbu | Op::Sb => 1,
        Op::Lh | Op::Lhu | Op::Sh => 2,
        Op::Lw | Op::Lwu | Op::Sw => 4,
        Op::Ld | Op::Sd => 8,
        _ => return None,
    })
}

/// Where an access is: a value, a number to be added to it, and bytes from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span<V> {
    pub(crate) root: V,
    pub(crate) offset: i64,
    pub(crate) width: u64,
}

impl<V: Copy + Eq> Span<V> {
    /// Whether both surely have no byte in common.
    fn is_apart(&self, other: &Self) -> bool {
        let distance = other.offset.wrapping_sub(self.offset).cast_unsigned();
        self.root == other.root && distance >= self.width && distance.wrapping_neg() >= other.width
    }
}

/// The stores of a window so far.
#[derive(Clone, Debug)]
pub(crate) struct Stores<V>(Vec<Span<V>>);

impl<V: Copy + Eq> Stores<V> {
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn push(&mut self, span: Span<V>) {
        self.0.push(span);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// How many stores there were when `span` may have been written last. Loads of the same bytes that have
    /// the same number here get the same.
    pub(crate) fn version(&self, span: &Span<V>) -> usize {
        self.0.iter().rposition(|store| !store.is_apart(span)).map_or(0, |at| at + 1)
    }

    /// The store that wrote exactly `span` last, if nothing may have written any of it since.
    pub(crate) fn source(&self, span: &Span<V>) -> Option<usize> {
        let last = self.version(span).checked_sub(1)?;
        (self.0[last] == *span).then_some(last)
    }
}

//! An input: the bytes of the mutated fields.

use crate::job::FieldBytes;
use bytes::Bytes;

/// The bytes of each field, in the order of the job's names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FuzzInput(pub Vec<Vec<u8>>);

impl FuzzInput {
    /// `count` fields: adds empty ones or omits the last ones as needed.
    #[must_use]
    pub fn of(bytes: &[Bytes], count: usize) -> Self {
        let mut fields: Vec<_> = bytes.iter().take(count).map(|bytes| bytes.to_vec()).collect();
        fields.resize(count, Vec::new());
        Self(fields)
    }

    /// The fields as a message to the parent.
    #[must_use]
    pub fn to_bytes(&self) -> FieldBytes {
        self.0.iter().map(|bytes| Bytes::copy_from_slice(bytes)).collect()
    }

    /// Total bytes of all fields.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }
}

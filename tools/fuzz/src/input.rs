//! An input: the bytes of the fields that change.

use crate::job::FieldBytes;
use bytes::Bytes;
use libafl::inputs::Input;
use serde::{Deserialize, Serialize};

/// The bytes of each field, in the order of the job's names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FuzzInput(pub Vec<Vec<u8>>);

impl Input for FuzzInput {}

impl FuzzInput {
    /// `count` fields; those that are missing are empty, others are left out.
    #[must_use]
    pub fn of(bytes: &[Bytes], count: usize) -> Self {
        let mut fields: Vec<_> = bytes.iter().take(count).map(|bytes| bytes.to_vec()).collect();
        fields.resize(count, Vec::new());
        Self(fields)
    }

    /// For the parent.
    #[must_use]
    pub fn to_bytes(&self) -> FieldBytes {
        self.0.iter().map(|bytes| Bytes::copy_from_slice(bytes)).collect()
    }

    /// Bytes of all fields.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }
}

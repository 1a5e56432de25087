//! A transaction for tests from a small TOML file, with placeholders for hashes, keys and signatures.
//!
//! ckb-sdk builds and signs too, but links an HTTP client, a node's RPC and ckb-script with its default
//! features; a file needs only ckb-types' builders and secp256k1.

mod builder;
mod bytes;
mod error;
mod expected;
mod file;
mod names;
mod signing;
mod since;
mod system;

use std::path::Path;

use antares_transaction::limits::TRANSACTION_BYTES_MAX;
use ckb_mock_tx_types::ReprMockTransaction;

pub(crate) use error::DraftError;
pub(crate) use expected::Expected;

/// A transaction, and its expected verdict.
#[derive(Clone, Debug)]
pub(crate) struct Built {
    /// ckb-debugger's mock transaction.
    pub(crate) json: Vec<u8>,
    /// The expectation of a test.
    pub(crate) expected: Expected,
}

/// Builds and signs the transaction that `text` describes. File names are relative to `folder`.
///
/// # Errors
/// The first error, with its line and field.
pub(crate) fn build(text: &str, folder: &Path) -> Result<Built, DraftError> {
    let draft = file::parse(text)?;
    let locate = |problem: error::FieldError| problem.locate(text);
    let expected = expected::of(draft.expect.as_ref()).map_err(locate)?;
    let mock = builder::build(&draft, folder).map_err(locate)?;
    let json = serde_json::to_vec_pretty(&ReprMockTransaction::from(mock)).unwrap_or_default();
    if json.len() > TRANSACTION_BYTES_MAX {
        return Err(DraftError { line: 1, field: String::new(), problem: names::too_large() });
    }
    Ok(Built { json, expected })
}

#[cfg(test)]
mod tests;

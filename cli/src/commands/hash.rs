//! `antares hash`: hashes by which a chain and a cache identify a file.

use antares_abi::Sha256Digest;
use antares_transaction::{data_hash, limits::EMBEDDED_FILE_BYTES_MAX};
use serde::Serialize;

use crate::{args::hash::HashArgs, failure::Failure, input, output};

/// Output of `--json`: a contract.
#[derive(Serialize)]
struct Hashes {
    /// ckb's hash (blake2b-256): the code hash for the hash types data, data1 and data2.
    data_hash: String,
    /// The name in the cache and on servers.
    sha256: String,
    size_bytes: usize,
}

pub(crate) fn hash(args: &HashArgs) -> Result<(), Failure> {
    let bytes = input::read(&args.file, EMBEDDED_FILE_BYTES_MAX)?;
    let hashes = Hashes {
        data_hash: format!("0x{}", Sha256Digest(data_hash(&bytes))),
        sha256: Sha256Digest::of(&bytes).to_string(),
        size_bytes: bytes.len(),
    };
    let text = match args.json {
        true => serde_json::to_string(&hashes).unwrap_or_default() + "\n",
        false => format!(
            "data hash  {}  (blake2b-256: the code hash for hash types data, data1 and data2)\nsha256     {}\nbytes      {}\n",
            hashes.data_hash, hashes.sha256, hashes.size_bytes
        ),
    };
    output::print(text.as_bytes())
}

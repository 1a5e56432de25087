//! Published scripts, under their main network names.

use std::borrow::Cow;

use antares_transaction::template::type_id;
use anyhow::{Result, bail};
use ckb_hash::new_blake2b;
use ckb_system_scripts::BUNDLED_CELL;
use ckb_types::{
    bytes::Bytes,
    core::ScriptHashType,
    packed::{CellInput, Script},
    prelude::*,
};

/// A published script.
pub(crate) struct System {
    pub(crate) data: Bytes,
    pub(crate) type_script: Option<Script>,
    pub(crate) hash_type: ScriptHashType,
    /// Whether it reads the precomputed points of the curve from a cell.
    pub(crate) needs_points: bool,
}

pub(crate) fn system(name: &str) -> Result<System> {
    // Outputs of the first transaction, whose type ids follow from its input.
    let genesis = |output| Some(type_id(&type_id_args(&CellInput::new_cellbase_input(0), output)));
    let (file, type_script, hash_type) = match name {
        "always-success" => {
            let data = Bytes::from_static(ckb_always_success_script::ALWAYS_SUCCESS);
            let hash_type = ScriptHashType::Data;
            return Ok(System { data, type_script: None, hash_type, needs_points: false });
        }
        "secp256k1" => ("secp256k1_blake160_sighash_all", genesis(1), ScriptHashType::Type),
        "dao" => ("dao", genesis(2), ScriptHashType::Type),
        "multisig" => ("secp256k1_blake160_multisig_all", None, ScriptHashType::Data1),
        _ => bail!("{name:?} is not always-success, dao, multisig or secp256k1"),
    };
    Ok(System { data: bundled(file), type_script, hash_type, needs_points: file != "dao" })
}

/// The precomputed points.
pub(crate) fn points() -> Bytes {
    bundled("secp256k1_data")
}

fn bundled(name: &str) -> Bytes {
    // The bundled specs contain the names above; a test reads all.
    let found = BUNDLED_CELL.get(&format!("specs/cells/{name}"));
    found.map(Cow::into_owned).unwrap_or_default().into()
}

/// Arguments of the type id of an output in a transaction with this first input.
pub(crate) fn type_id_args(first: &CellInput, output: u64) -> [u8; 32] {
    let (mut hash, mut args) = (new_blake2b(), [0; 32]);
    hash.update(first.as_slice());
    hash.update(&output.to_le_bytes());
    hash.finalize(&mut args);
    args
}

#[cfg(test)]
mod tests {
    use ckb_types::packed::CellOutput;

    use super::*;

    /// Hashes of the main network (RFC 24, and CKB's list of system scripts).
    #[test]
    fn scripts_have_the_main_networks_hashes() {
        for (name, data, code) in [
            (
                "secp256k1",
                "709f3fda12f561cfacf92273c57a98fede188a3f1a59b1f888d113f9cce08649",
                "9bd7e06f3ecf4be0f2fcd2188b23f1b9fcc88e5d4b65a8637b17723bbda3cce8",
            ),
            ("multisig", "36c971b8d41fbd94aabca77dc75e826729ac98447b46f91e00796155dddb0d29", ""),
            ("dao", "", "82d76d1b75fe2fd9a27dfbaa65a039221a380d76c926f378d3f81cf3e7e13f2e"),
            ("always-success", "", ""),
        ] {
            let found = system(name).unwrap();
            let hash = format!("{:x}", CellOutput::calc_data_hash(&found.data));
            assert!(!found.data.is_empty() && (data.is_empty() || hash == data), "{name}: {hash}");
            let type_hash = found.type_script.map(|it| format!("{:x}", it.calc_script_hash()));
            assert_eq!(type_hash.unwrap_or_default(), code, "{name}");
        }
        assert_eq!(points().len(), 1_048_576);
    }
}

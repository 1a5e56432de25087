//! Meanings of exit codes: the script's own table, and the tables of well-known scripts.

use std::collections::BTreeMap;

/// Maximum bytes of a meaning.
const MEANING_BYTES_MAX: usize = 200;

/// Name of the ELF section, or owner of the note, that contains a table.
const SECTION: &str = ".ckb.error-codes";

/// Meanings of exit codes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorCodes(BTreeMap<i8, String>);

/// Why a text is not a table of error codes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {fault}")]
pub struct CodesError {
    /// Line, from 1.
    pub line: usize,
    /// The problem.
    pub fault: &'static str,
}

impl ErrorCodes {
    /// Reads lines of the form `code = meaning`. Lines that start with `#` are comments; quotes around a
    /// meaning are removed.
    ///
    /// # Errors
    /// A line has no `=`, or its code cannot be an exit code.
    pub fn parse(text: &str) -> Result<Self, CodesError> {
        let mut codes = BTreeMap::new();
        for (line, number) in text.lines().zip(1..) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let fault = |fault| CodesError { line: number, fault };
            let (code, meaning) =
                line.split_once('=').ok_or_else(|| fault("a line must be: code = meaning"))?;
            let code: i16 = code.trim().parse().map_err(|_| fault("the code must be a number"))?;
            // Accept signed and unsigned codes.
            let code = match code {
                -128..=255 => code.to_le_bytes()[0].cast_signed(),
                _ => return Err(fault("the code must be from -128 to 255")),
            };
            let meaning = meaning.trim().trim_matches('"');
            codes.insert(code, meaning[..meaning.floor_char_boundary(MEANING_BYTES_MAX)].to_owned());
        }
        Ok(Self(codes))
    }

    /// The table in an ELF's section `.ckb.error-codes`, in the same form; empty if it cannot be read.
    #[must_use]
    pub fn of_elf(elf: &[u8]) -> Self {
        use object::{Object as _, ObjectSection as _};
        let file = object::read::elf::ElfFile64::<object::Endianness>::parse(elf).ok();
        let data = file.as_ref().and_then(|file| file.section_by_name(SECTION)?.data().ok());
        let text = data.and_then(|data| std::str::from_utf8(data).ok());
        text.and_then(|text| Self::parse(text.trim_end_matches('\0')).ok()).unwrap_or_default()
    }

    /// The meaning of `code`.
    #[must_use]
    pub fn meaning(&self, code: i8) -> Option<&str> {
        self.0.get(&code).map(String::as_str)
    }

    /// This table, extended by `other`.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        for (code, meaning) in other.0 {
            self.0.entry(code).or_insert(meaning);
        }
        self
    }
}

/// A well-known script and the meanings of its codes.
struct Known {
    name: &'static str,
    /// Hash of the type script of its cell on the main network.
    type_hash: &'static str,
    /// A function that only it has.
    mark: &'static str,
    codes: &'static [(i8, &'static str)],
}

/// Codes that all scripts of ckb-system-scripts share.
const SHARED: [(i8, &str); 14] = [
    (-1, "ARGUMENTS_LEN: the script's args have another length"),
    (-2, "ENCODING: a structure is no valid molecule"),
    (-3, "SYSCALL: a system call failed"),
    (-11, "SECP_RECOVER_PUBKEY: no public key can be recovered from the signature"),
    (-12, "SECP_VERIFICATION: the signature does not verify"),
    (-13, "SECP_PARSE_PUBKEY: the public key cannot be read"),
    (-14, "SECP_PARSE_SIGNATURE: the signature cannot be read"),
    (-15, "SECP_SERIALIZE_PUBKEY: the public key cannot be written"),
    (-21, "SCRIPT_TOO_LONG: the script is longer than 32 KiB"),
    (-22, "WITNESS_SIZE: the witness is too long, or its lock has another length"),
    (-23, "INCORRECT_SINCE_FLAGS: the flags of since differ from those of the args"),
    (-24, "INCORRECT_SINCE_VALUE: since is less than the args ask for"),
    (-31, "PUBKEY_BLAKE160_HASH: signed by another key than that of the args"),
    (-32, "PUBKEY_RIPEMD160_HASH: signed by another key than that of the args"),
];

const MULTISIG: [(i8, &str); 6] = [
    (-41, "INVALID_RESERVE_FIELD: the first byte of the multisig script is not 0"),
    (-42, "INVALID_PUBKEYS_CNT: there are no public keys"),
    (-43, "INVALID_THRESHOLD: the threshold is 0, or more than there are keys"),
    (-44, "INVALID_REQUIRE_FIRST_N: more keys are required than the threshold"),
    (-51, "MULTSIG_SCRIPT_HASH: the multisig script is another one than that of the args"),
    (-52, "VERIFICATION: the signatures are not of enough, or of the required keys"),
];

const DAO: [(i8, &str); 15] = [
    (-1, "UNKNOWN"),
    (-2, "WRONG_NUMBER_OF_ARGUMENTS"),
    (-4, "SYSCALL: a system call failed"),
    (-10, "BUFFER_NOT_ENOUGH"),
    (-11, "ENCODING: a structure is no valid molecule"),
    (-12, "WITNESS_TOO_LONG"),
    (-13, "OVERFLOW: capacities overflow"),
    (-14, "INVALID_WITHDRAW_BLOCK: the withdraw header is another one"),
    (-15, "INCORRECT_CAPACITY: outputs have more capacity than may be withdrawn"),
    (-16, "INCORRECT_EPOCH: an epoch of a header is wrong"),
    (-17, "INCORRECT_SINCE: since is not the end of the lock period"),
    (-18, "TOO_MANY_OUTPUT_CELLS: more than 64 outputs"),
    (-19, "NEWLY_CREATED_CELL: a new deposit has other data than eight zeros"),
    (-20, "INVALID_WITHDRAWING_CELL: a withdrawing cell does not match its deposit"),
    (-21, "SCRIPT_TOO_LONG: the script is longer than 32 KiB"),
];

const KNOWN: [Known; 3] = [
    Known {
        name: "secp256k1_blake160_sighash_all",
        type_hash: "9bd7e06f3ecf4be0f2fcd2188b23f1b9fcc88e5d4b65a8637b17723bbda3cce8",
        mark: "verify_secp256k1_blake160_sighash_all",
        codes: &SHARED,
    },
    Known {
        name: "secp256k1_blake160_multisig_all",
        type_hash: "5c5069eb0857efc65e1bca0c07df34c31663b3622fd3876c876320fc9634e2a8",
        mark: "verify_secp256k1_blake160_multisig_all",
        codes: &MULTISIG,
    },
    Known {
        name: "dao",
        type_hash: "82d76d1b75fe2fd9a27dfbaa65a039221a380d76c926f378d3f81cf3e7e13f2e",
        mark: "validate_withdrawing_cell",
        codes: &DAO,
    },
];

/// Codes of ckb-std for the results of system calls; most Rust scripts pass them on.
const CKB_STD: [(i8, &str); 4] = [
    (1, "IndexOutOfBound: there is no such cell, witness or header"),
    (2, "ItemMissing: the cell has no such field"),
    (3, "LengthNotEnough: the buffer is shorter than what is loaded"),
    (4, "Encoding: a structure is no valid molecule"),
];

/// The meaning of `code` in a system script, identified by its type hash `code_hash` (hexadecimal digits)
/// or by its `function`.
pub(crate) fn of_system(
    code: i8,
    code_hash: Option<&str>,
    functions: &[String],
) -> Option<(String, &'static str)> {
    let is_it = |known: &&Known| {
        Some(known.type_hash) == code_hash || functions.iter().any(|name| name == known.mark)
    };
    let known = KNOWN.iter().find(is_it)?;
    let shared: &[(i8, &str)] = if known.name == "dao" { &[] } else { &SHARED };
    let mut codes = known.codes.iter().chain(shared);
    codes.find(|(known, _)| *known == code).map(|(_, meaning)| ((*meaning).to_owned(), known.name))
}

/// The meaning of `code` if the script passed on ckb-std's error unchanged.
pub(crate) fn of_ckb_std(code: i8) -> Option<&'static str> {
    CKB_STD.iter().find(|(known, _)| *known == code).map(|(_, meaning)| *meaning)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read_and_mistakes_named() {
        let codes = ErrorCodes::parse("# mine\n\n5 = AmountTooSmall\n-3=\"Oops\"\n 253 = High\n").unwrap();
        assert_eq!(codes.meaning(5), Some("AmountTooSmall"));
        assert_eq!(codes.meaning(-3), Some("High"));
        for (text, line) in [("5", 1), ("# a\nx = y", 2), ("300 = z", 1)] {
            assert_eq!(ErrorCodes::parse(text).unwrap_err().line, line, "{text}");
        }
        assert_eq!(ErrorCodes::of_elf(b"no ELF"), ErrorCodes::default());
    }

    #[test]
    fn system_scripts_are_known_by_hash_or_function() {
        let hash = KNOWN[1].type_hash;
        assert_eq!(of_system(-41, Some(hash), &[]).unwrap().1, "secp256k1_blake160_multisig_all");
        assert!(of_system(-31, Some(hash), &[]).unwrap().0.starts_with("PUBKEY"));
        assert_eq!(of_system(-31, Some("00"), &["main".to_owned()]), None);
    }
}

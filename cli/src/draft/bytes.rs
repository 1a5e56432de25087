//! Bytes as text: hexadecimal digits and placeholders.

use ckb_hash::blake2b_256;
use ckb_types::prelude::*;
use secp256k1::SecretKey;

use super::{
    error::DraftProblem,
    names::Names,
    signing::{SIGNATURE_BYTES, hash_160, multisig, pubkey_hash},
    system::type_id_args,
};

/// Known bytes, or a signature, which is computed last.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    Known(Vec<u8>),
    Signature(SecretKey),
}

impl Part {
    /// The bytes to sign, with zeros for signatures.
    pub(crate) fn unsigned(&self) -> Vec<u8> {
        match self {
            Self::Known(bytes) => bytes.clone(),
            Self::Signature(_) => vec![0; SIGNATURE_BYTES],
        }
    }
}

/// The bytes of `text`, which contains no signatures.
pub(crate) fn bytes(text: &str, names: &Names<'_>) -> Result<Vec<u8>, DraftProblem> {
    let mut bytes = Vec::new();
    for part in parts(text, names)? {
        match part {
            Part::Known(more) => bytes.extend(more),
            Part::Signature(_) => return Err(DraftProblem::Unsigned),
        }
    }
    Ok(bytes)
}

/// The bytes of `text`, whose length its field fixes.
pub(crate) fn exact<const N: usize>(text: &str, names: &Names<'_>) -> Result<[u8; N], DraftProblem> {
    let found = bytes(text, names)?;
    found.as_slice().try_into().map_err(|_| DraftProblem::Length { expected: N, found: found.len() })
}

/// The parts of `text`.
pub(crate) fn parts(text: &str, names: &Names<'_>) -> Result<Vec<Part>, DraftProblem> {
    let no_digits = || DraftProblem::Digits { text: shortened(text) };
    let mut rest = match text.strip_prefix("0x") {
        Some(rest) => rest,
        None if text.is_empty() || text.starts_with("{{") => text,
        None => return Err(no_digits()),
    };
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let (digits, inside) = rest.split_once("{{").unwrap_or((rest, ""));
        let known = hex::decode(digits).map_err(|_| no_digits())?;
        names.take(known.len())?;
        parts.push(Part::Known(known));
        if digits.len() == rest.len() {
            break;
        }
        let (placeholder, after) = inside.split_once("}}").ok_or_else(no_digits)?;
        parts.push(fill(placeholder.trim(), names)?);
        names.take(parts.last().map_or(0, |part| part.unsigned().len()))?;
        rest = after;
    }
    Ok(parts)
}

fn fill(placeholder: &str, names: &Names<'_>) -> Result<Part, DraftProblem> {
    let unknown = || DraftProblem::Placeholder { text: shortened(placeholder) };
    let (verb, argument) = placeholder.split_once(' ').ok_or_else(unknown)?;
    let argument = argument.trim();
    let keys = || -> Result<Vec<u8>, DraftProblem> {
        let mut words = argument.split_whitespace();
        let threshold = words.next().and_then(|word| word.parse().ok()).ok_or_else(unknown)?;
        let keys: Vec<SecretKey> = words.map(|name| names.key(name)).collect::<Result<_, _>>()?;
        let count = u8::try_from(keys.len()).map_err(|_| DraftProblem::Number(keys.len().to_string()))?;
        if threshold == 0 || threshold > count {
            return Err(DraftProblem::Number(format!("{threshold} of {count} keys")));
        }
        Ok(multisig(threshold, count, &keys))
    };
    Ok(Part::Known(match verb {
        "data" => names.file(argument)?,
        "hash" => blake2b_256(names.file(argument)?).to_vec(),
        "code-hash" => names.cell(argument)?.code_hash.as_slice().to_vec(),
        "pubkey-hash" => pubkey_hash(&names.key(argument)?).to_vec(),
        "multisig" => keys()?,
        "multisig-hash" => hash_160(&keys()?).to_vec(),
        "type-id" => {
            let output: u64 = argument.parse().map_err(|_| unknown())?;
            if output >= names.outputs {
                return Err(DraftProblem::Number(format!("output {output} of {}", names.outputs)));
            }
            type_id_args(&names.first_input, output).to_vec()
        }
        "sign" => {
            let key = argument.strip_prefix("secp256k1 ").ok_or_else(unknown)?;
            return Ok(Part::Signature(names.key(key.trim())?));
        }
        _ => return Err(unknown()),
    }))
}

/// The name of the cell, if `text` names nothing else.
pub(crate) fn code_of(text: &str) -> Option<&str> {
    let inside = text.strip_prefix("0x").unwrap_or(text).strip_prefix("{{")?.strip_suffix("}}")?;
    Some(inside.trim().strip_prefix("code-hash ")?.trim())
}

fn shortened(text: &str) -> String {
    const CHARACTERS_MAX: usize = 60;
    match text.char_indices().nth(CHARACTERS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

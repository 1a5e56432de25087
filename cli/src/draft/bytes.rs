//! Bytes as text: hexadecimal digits and placeholders.

use anyhow::{Context as _, Result, bail, ensure};
use ckb_hash::blake2b_256;
use ckb_types::prelude::*;
use secp256k1::SecretKey;

use super::{
    names::Names,
    signing::{SIGNATURE_BYTES, hash_160, multisig, pubkey_hash},
    system::type_id_args,
};

const PLACEHOLDERS: &str = "data FILE, hash FILE, code-hash CELL, pubkey-hash KEY, multisig M KEY..., \
    multisig-hash M KEY..., type-id OUTPUT and sign secp256k1 KEY";

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
pub(crate) fn bytes(text: &str, names: &Names<'_>) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for part in parts(text, names)? {
        match part {
            Part::Known(more) => bytes.extend(more),
            Part::Signature(_) => bail!("a signature can only be in the lock of a witness"),
        }
    }
    Ok(bytes)
}

/// The bytes of `text`, whose length its field fixes.
pub(crate) fn exact<const N: usize>(text: &str, names: &Names<'_>) -> Result<[u8; N]> {
    let found = bytes(text, names)?;
    found.as_slice().try_into().ok().with_context(|| format!("has {} bytes, not {N}", found.len()))
}

/// The parts of `text`.
pub(crate) fn parts(text: &str, names: &Names<'_>) -> Result<Vec<Part>> {
    let no_digits = || {
        let forms = "they are 0x and pairs of hexadecimal digits, or placeholders in {{ }}";
        format!("{:?} is no bytes: {forms}", shortened(text))
    };
    let without = (text.is_empty() || text.starts_with("{{")).then_some(text);
    let mut rest = text.strip_prefix("0x").or(without).with_context(no_digits)?;
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let (digits, inside) = rest.split_once("{{").unwrap_or((rest, ""));
        let known = hex::decode(digits).ok().with_context(no_digits)?;
        names.take(known.len())?;
        parts.push(Part::Known(known));
        if digits.len() == rest.len() {
            break;
        }
        let (placeholder, after) = inside.split_once("}}").with_context(no_digits)?;
        parts.push(fill(placeholder.trim(), names)?);
        names.take(parts.last().map_or(0, |part| part.unsigned().len()))?;
        rest = after;
    }
    Ok(parts)
}

fn fill(placeholder: &str, names: &Names<'_>) -> Result<Part> {
    let unknown = || format!("{:?} is no placeholder; there are {PLACEHOLDERS}", shortened(placeholder));
    let (verb, argument) = placeholder.split_once(' ').with_context(unknown)?;
    let argument = argument.trim();
    let keys = || -> Result<Vec<u8>> {
        let mut words = argument.split_whitespace();
        let threshold = words.next().and_then(|word| word.parse().ok()).with_context(unknown)?;
        let keys: Vec<SecretKey> = words.map(|name| names.key(name)).collect::<Result<_>>()?;
        let count = u8::try_from(keys.len()).ok();
        let count = count.with_context(|| format!("{} does not fit", keys.len()))?;
        ensure!((1..=count).contains(&threshold), "{threshold} of {count} keys does not fit");
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
            let output: u64 = argument.parse().ok().with_context(unknown)?;
            ensure!(output < names.outputs, "output {output} of {} does not fit", names.outputs);
            type_id_args(&names.first_input, output).to_vec()
        }
        "sign" => {
            let key = argument.strip_prefix("secp256k1 ").with_context(unknown)?;
            return Ok(Part::Signature(names.key(key.trim())?));
        }
        _ => bail!(unknown()),
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

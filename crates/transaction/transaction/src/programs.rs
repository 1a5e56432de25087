//! Finds the cells with programs that a transaction's scripts may run, so that they can be compiled in
//! advance.

use std::collections::{BTreeSet, HashMap};

use ckb_types::{bytes::Bytes, core::ScriptHashType, packed::Script, prelude::*};

use crate::{Environment, Mock, limits::PROGRAMS_MAX};

/// A cell whose data is a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramCandidate {
    /// ckb's hash of the bytes, by which scripts reference their code.
    pub data_hash: [u8; 32],
    /// The ELF.
    pub elf: Bytes,
    /// VM versions in which it may run, ascending.
    pub vm_versions: BTreeSet<u32>,
}

/// The programs among the cell deps of `mock`, those of script groups first, each once, at most
/// [`PROGRAMS_MAX`].
///
/// The code of a group runs in the group's VM version. Any other cell may be reached by exec, spawn or as a
/// library, in the version of its caller. The code of a group may be reached that way, too; if the versions
/// differ, the interpreter runs it.
#[must_use]
pub fn programs(mock: &Mock, environment: &Environment) -> Vec<ProgramCandidate> {
    let (hashes, mock) = (mock, mock.as_ckb());
    let scripts = scripts(mock);
    let version =
        |script: &Script| environment.vm_version(ScriptHashType::try_from(script.hash_type()).ok()?);
    let callers: BTreeSet<u32> = scripts.iter().filter_map(version).collect();
    let mut candidates: Vec<(bool, ProgramCandidate)> = Vec::new();
    let mut known: HashMap<[u8; 32], usize> = HashMap::new();
    let deps = mock.mock_info.cell_deps.iter().enumerate();
    for (index, dep) in deps.filter(|(_, dep)| is_program(&dep.data)) {
        let data_hash = hashes.dep_data_hash(index);
        let type_hash = dep.output.type_().to_opt().map(|script| script.calc_script_hash());
        let is_code_of = |script: &&Script| match ScriptHashType::try_from(script.hash_type()) {
            Ok(ScriptHashType::Type) => type_hash.as_ref() == Some(&script.code_hash()),
            Ok(_) => script.code_hash().as_slice() == data_hash,
            Err(_) => false,
        };
        let own: BTreeSet<u32> = scripts.iter().filter(is_code_of).filter_map(version).collect();
        let (is_code, vm_versions) = if own.is_empty() { (false, callers.clone()) } else { (true, own) };
        match known.get(&data_hash).map(|index| &mut candidates[*index]) {
            // Two cells with the same bytes.
            Some((known_code, candidate)) if is_code => {
                candidate.vm_versions.extend(vm_versions);
                *known_code = true;
            }
            Some(_) => {}
            None => {
                known.insert(data_hash, candidates.len());
                let elf = dep.data.clone();
                candidates.push((is_code, ProgramCandidate { data_hash, elf, vm_versions }));
            }
        }
    }
    candidates.sort_by_key(|(is_code, _)| !is_code);
    candidates.truncate(PROGRAMS_MAX);
    candidates.into_iter().map(|(_, candidate)| candidate).collect()
}

/// The scripts that run: locks of inputs, types of inputs and outputs.
fn scripts(mock: &ckb_mock_tx_types::MockTransaction) -> Vec<Script> {
    let mut scripts = Vec::new();
    for input in &mock.mock_info.inputs {
        scripts.push(input.output.lock());
        scripts.extend(input.output.type_().to_opt());
    }
    scripts.extend(mock.tx.raw().outputs().into_iter().filter_map(|output| output.type_().to_opt()));
    scripts.sort_by(|left, right| left.as_slice().cmp(right.as_slice()));
    scripts.dedup();
    scripts
}

/// Whether `bytes` start with a little-endian 64-bit RISC-V ELF with an executable segment. Field offsets
/// follow the ELF-64 object file format, version 1.5.
#[must_use]
pub fn is_program(bytes: &[u8]) -> bool {
    const RISC_V: u16 = 243;
    const LOAD: u32 = 1;
    const EXECUTABLE: u32 = 1;
    const HEADER_BYTES: usize = 56;
    let half = |at: usize| Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let long = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    if !bytes.starts_with(b"\x7fELF\x02\x01") || half(18) != Some(RISC_V) {
        return false;
    }
    let headers = || {
        let first = usize::try_from(long(32)?).ok()?;
        let stride = usize::from(half(54)?);
        let executable = (0..usize::from(half(56)?)).any(|index| {
            let at = index.checked_mul(stride).and_then(|offset| offset.checked_add(first));
            at.is_some_and(|at| {
                word(at) == Some(LOAD) && at.checked_add(4).and_then(word).unwrap_or(0) & EXECUTABLE != 0
            })
        });
        Some(stride == HEADER_BYTES && executable)
    };
    headers().unwrap_or(false)
}

//! Fuzz targets: functions of arbitrary bytes that panic on a bug.
//!
//! `fuzz/` runs them with libFuzzer. The test `fuzz` of this crate runs them with the corpora and random
//! mutations.

use antares_abi::{CompileOptions, Isa};
use antares_compiler::{CompileError, Stage};
use antares_proto::v1;
use antares_transaction::Mock;
use prost::Message;

use crate::{
    elf::{self, Segment},
    generate::Random,
    native,
    oracle::{self, Case},
};

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of its corpus in `fuzz/corpus`.
    pub name: &'static str,
    /// The function to run.
    pub run: fn(&[u8]),
}

pub const TARGETS: [Target; 4] = [
    Target { name: "program", run: program },
    Target { name: "lifter", run: lifter },
    Target { name: "transaction", run: transaction },
    Target { name: "messages", run: messages },
];

/// Guest address of the lifter's code.
const CODE_ADDRESS: u64 = 0x1_0000;

/// Options from the first byte, and the remaining bytes.
fn options(data: &[u8]) -> (CompileOptions, &[u8]) {
    let (first, rest) = data.split_first().unwrap_or((&0, &[]));
    let options = CompileOptions { vm_version: u32::from(first & 3) % 3, isa: Isa(first >> 2 & 7) };
    (options, rest)
}

fn compiles(elf: &[u8], options: CompileOptions, stage: Stage) -> Result<(), &'static str> {
    match antares_compiler::compile(elf, &native::request(options, stage)) {
        Ok(_) => Ok(()),
        Err(CompileError::Refused { reason, .. }) => Err(reason),
        Err(CompileError::Failed { detail }) => panic!("the compiler failed: {detail}"),
    }
}

/// Loads an ELF and recovers its functions. Both we and ckb-vm must refuse the same ELFs.
pub fn program(data: &[u8]) {
    let (options, elf) = options(data);
    let compiled = compiles(elf, options, Stage::Program);
    if compiled == Err("options") {
        return;
    }
    let refused = compiled == Err("elf");
    let ended = oracle::run(&Case::new(elf, &[], options, 0));
    // A loaded ELF has load cycles at least for its stack.
    assert!(!refused || ended.load_cycles == 0, "refused, but loaded: {}", ended.outcome);
    assert!(refused || !ended.outcome.starts_with("Elf"), "read, but {}", ended.outcome);
}

/// Lifts code, and verifies the IR.
pub fn lifter(data: &[u8]) {
    let (options, code) = options(data);
    let memory_bytes = (code.len() as u64).max(1);
    let segment = Segment { address: CODE_ADDRESS, flags: 5, bytes: code.to_vec(), memory_bytes };
    let elf = elf::file(CODE_ADDRESS, vec![segment]);
    let _ = compiles(&elf, options, Stage::Ir);
}

/// Parses a mock transaction's JSON. Error messages must have a readable length.
pub fn transaction(data: &[u8]) {
    if let Err(error) = Mock::from_json(data) {
        let text = error.to_string();
        assert!(!text.is_empty() && text.len() < 10_000, "{} bytes of message", text.len());
    }
}

/// Decodes gRPC requests: a message must be unchanged after encoding and decoding it again.
pub fn messages(data: &[u8]) {
    again::<v1::CompileRequest>(data);
    again::<v1::ExecuteRequest>(data);
    again::<v1::UploadRequest>(data);
    again::<v1::FindMissingRequest>(data);
    again::<v1::GetArtifactRequest>(data);
    again::<v1::GetScriptRequest>(data);
}

fn again<M: Message + Default + PartialEq + std::fmt::Debug>(data: &[u8]) {
    let Ok(message) = M::decode(data) else { return };
    let written = message.encode_to_vec();
    assert_eq!(M::decode(written.as_slice()).ok(), Some(message));
}

/// `seed` with one to eight random mutations: bit flips, edge-case numbers, and removed, duplicated or moved
/// pieces.
#[must_use]
pub fn mutated(seed: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..random.between(1, 8) {
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let at = random.below(length + 1) as usize;
        let some = random.below(17) as usize;
        let end = (at + some).min(bytes.len());
        match random.below(6) {
            0 | 1 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << random.below(8)),
            2 => drop(bytes.drain(at..end)),
            3 => {
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            4 => {
                let number = random.number().to_le_bytes();
                bytes.iter_mut().skip(at).zip(number).for_each(|(byte, new)| *byte = new);
            }
            _ => bytes.truncate(at.max(1)),
        }
    }
    bytes
}

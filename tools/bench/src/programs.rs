//! The benchmark programs.

use antares_abi::{CompileOptions, Isa};

pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) guest: &'static str,
    /// Its argument: enough repetitions that loading is negligible.
    pub(crate) repetitions: u32,
}

/// Compile options of every program: those of a new script.
pub(crate) const OPTIONS: CompileOptions = CompileOptions { vm_version: 2, isa: Isa(Isa::B.0 | Isa::MOP.0) };

pub(crate) const PROGRAMS: [Program; 33] = [
    Program { name: "secp256k1", guest: "secp256k1-imc", repetitions: 200 },
    Program { name: "secp256k1-b", guest: "secp256k1-b", repetitions: 200 },
    Program { name: "secp256k1-small", guest: "secp256k1-small-imc", repetitions: 200 },
    Program { name: "schnorr", guest: "schnorr-imc", repetitions: 200 },
    Program { name: "schnorr-b", guest: "schnorr-b", repetitions: 200 },
    Program { name: "rsa1024", guest: "rsa1024-imc", repetitions: 500 },
    Program { name: "rsa1024-b", guest: "rsa1024-b", repetitions: 500 },
    Program { name: "rsa2048", guest: "rsa2048-imc", repetitions: 150 },
    Program { name: "keccak", guest: "keccak-imc", repetitions: 8000 },
    Program { name: "keccak-b", guest: "keccak-b", repetitions: 8000 },
    Program { name: "blake2b", guest: "blake2b-imc", repetitions: 8000 },
    Program { name: "blake2b-b", guest: "blake2b-b", repetitions: 8000 },
    Program { name: "mldsa", guest: "mldsa-imc", repetitions: 200 },
    Program { name: "mldsa-b", guest: "mldsa-b", repetitions: 200 },
    Program { name: "sphincs", guest: "sphincs-imc", repetitions: 100 },
    Program { name: "bls12-381", guest: "bls12-381-imc", repetitions: 10 },
    Program { name: "lz4", guest: "lz4-imc", repetitions: 100 },
    Program { name: "lz4-unaligned", guest: "lz4-unaligned-imc", repetitions: 100 },
    Program { name: "lua", guest: "lua-imc", repetitions: 20 },
    Program { name: "chase", guest: "chase-imc", repetitions: 300 },
    Program { name: "sha256", guest: "sha256-imc", repetitions: 3000 },
    Program { name: "sha256-b", guest: "sha256-b", repetitions: 3000 },
    Program { name: "sort", guest: "sort-imc", repetitions: 5 },
    Program { name: "mulmod", guest: "mulmod-imc", repetitions: 300_000 },
    Program { name: "interpreter", guest: "interpreter-imc", repetitions: 15_000 },
    Program { name: "blocks", guest: "blocks-imc", repetitions: 60_000 },
    Program { name: "automaton", guest: "automaton-imc", repetitions: 4000 },
    Program { name: "divide", guest: "divide-imc", repetitions: 100_000 },
    Program { name: "bits", guest: "bits-imc", repetitions: 300 },
    Program { name: "rotates", guest: "rotates-imc", repetitions: 10_000 },
    Program { name: "powers", guest: "powers-imc", repetitions: 600 },
    Program { name: "matcher", guest: "matcher-imc", repetitions: 80 },
    Program { name: "tables", guest: "tables-imc", repetitions: 8_000 },
];

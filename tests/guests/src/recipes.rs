//! The list of guests: name, purpose and sources of each.

use super::libraries::{
    BLAKE2B, BLST, KECCAK, LUA, LZ4, LZ4_UNALIGNED, Library, ML_DSA, RSA_1024, RSA_1024_LIMBS_64, RSA_2048,
    SCHNORR, SECP256K1, SPHINCS,
};

/// A guest.
#[derive(Clone, Debug)]
pub struct Guest {
    /// Its name, as on the command line.
    pub name: String,
    /// What it does, in one line.
    pub about: &'static str,
    /// Its sources.
    pub source: Source,
    /// Instruction sets for gcc.
    pub march: &'static str,
    /// Optimisation level for gcc.
    pub level: &'static str,
}

/// Sources of a guest; paths are relative to the guests' folder.
#[derive(Clone, Debug)]
pub enum Source {
    /// A C file with `main`, the library that it calls, and our startup code.
    Program {
        /// The file.
        file: &'static str,
        /// The library.
        library: &'static Library,
        /// Origin of the memory functions.
        memory: Memory,
    },
    /// An assembly file with `_start`, built with one case defined.
    Case {
        /// The file.
        file: &'static str,
        /// The macro that selects the case.
        case: String,
    },
}

/// Origin of the memory functions (such as `memcpy`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Memory {
    /// `memory.c`, bytewise; a native twin uses its C library.
    Bytes,
    /// `words.c`, wordwise; a native twin uses it too.
    Words,
    /// picolibc; a native twin uses its C library.
    Picolibc,
}

/// The base instruction set of every VM version.
const IMC: &str = "rv64imc";
/// With the B extension (versions 1 and 2).
const IMC_B: &str = "rv64imc_zba_zbb_zbc_zbs";

/// Programs: name, source, optimisation, description.
const PROGRAMS: [(&str, Source, &str, &str); 38] = [
    ("secp256k1", using("secp256k1.c", &SECP256K1), "-O3", "verifies ECDSA signatures, ARG times"),
    ("secp256k1-small", using("secp256k1.c", &SECP256K1), "-Os", "the same, a third of the code"),
    ("schnorr", using("schnorr.c", &SCHNORR), "-O3", "verifies Schnorr signatures, ARG times"),
    ("rsa1024", picolibc("rsa.c", &RSA_1024), "-O3", "verifies RSA signatures of 1024 bits, ARG times"),
    ("rsa1024-o2", picolibc("rsa.c", &RSA_1024), "-O2", "the same, optimised less"),
    ("rsa1024-os", picolibc("rsa.c", &RSA_1024), "-Os", "the same, optimised for size"),
    ("rsa1024-words", words("rsa.c", &RSA_1024), "-O3", "the same, with memory functions by words"),
    ("rsa1024-limbs64", words("rsa.c", &RSA_1024_LIMBS_64), "-O3", "the same, with limbs of 64 bits"),
    ("rsa2048", picolibc("rsa.c", &RSA_2048), "-O3", "verifies RSA signatures of 2048 bits, ARG times"),
    ("rsa2048-o2", picolibc("rsa.c", &RSA_2048), "-O2", "the same, optimised less"),
    ("rsa2048-os", picolibc("rsa.c", &RSA_2048), "-Os", "the same, optimised for size"),
    ("keccak", words("keccak.c", &KECCAK), "-O3", "hashes 1 KiB by SHA3-256, ARG times"),
    ("blake2b", words("blake2b.c", &BLAKE2B), "-O3", "hashes 1 KiB by BLAKE2b-256, ARG times"),
    ("mldsa", words("mldsa.c", &ML_DSA), "-O3", "verifies ML-DSA-44 signatures, ARG times"),
    ("sphincs", words("sphincs.c", &SPHINCS), "-O3", "verifies SPHINCS+ signatures, ARG times"),
    ("bls12-381", words("bls12_381.c", &BLST), "-O3", "computes pairings on BLS12-381, ARG times"),
    ("lz4", words("lz4.c", &LZ4), "-O3", "compresses and decompresses 64 KiB, ARG times"),
    ("lz4-unaligned", words("lz4.c", &LZ4_UNALIGNED), "-O3", "the same, with accesses at any address"),
    ("lua", picolibc("lua.c", &LUA), "-O3", "runs a Lua script of ARG rounds"),
    ("lua-errors", picolibc("lua_errors.c", &LUA), "-O3", "runs a Lua script that catches errors, ARG times"),
    (
        "far-jumps",
        picolibc("far_jumps.c", &Library::NONE),
        "-O3",
        "catches errors by setjmp and longjmp, ARG times",
    ),
    ("chase", alone("kernels/chase.c"), "-O3", "follows 8,192 pointers, ARG times"),
    ("sha256", alone("kernels/sha256.c"), "-O3", "hashes 1 KiB, ARG times"),
    ("sort", alone("kernels/sort.c"), "-O3", "sorts 30,000 numbers and walks a list, ARG times"),
    ("mulmod", alone("kernels/mulmod.c"), "-O3", "multiplies modulo a 254-bit prime, 2 ARG times"),
    ("interpreter", alone("kernels/interpreter.c"), "-O3", "runs a stack machine, ARG times"),
    ("blocks", alone("kernels/blocks.c"), "-O3", "copies and fills by Duff's device, ARG times"),
    ("automaton", alone("kernels/automaton.c"), "-O3", "walks a state machine over 1,024 words, ARG times"),
    ("divide", alone("kernels/divide.c"), "-O3", "divides 32-bit numbers, ARG rounds"),
    ("bits", alone("kernels/bits.c"), "-O3", "decodes 4 KiB bit by bit, ARG times"),
    ("rotates", alone("kernels/rotates.c"), "-O3", "hashes 1 KiB by SHA-1, ARG times"),
    ("powers", alone("kernels/powers.c"), "-O3", "takes powers modulo a 64-bit number, ARG times"),
    ("matcher", alone("kernels/matcher.c"), "-O3", "matches patterns and goes back, ARG times"),
    ("tables", alone("kernels/tables.c"), "-O3", "encrypts ARG KiB by tables"),
    (
        "picolibc-blocks",
        picolibc("picolibc_blocks.c", &Library::NONE),
        "-O3",
        "calls picolibc's memset and memcpy, ARG times",
    ),
    ("fib", alone("fib.c"), "-O3", "computes fib(ARG) by recursion"),
    ("debug", alone("debug.c"), "-O3", "prints ARG lines through the debug syscall"),
    ("exit", alone("exit.c"), "-O3", "exits with ARG"),
];

const fn alone(file: &'static str) -> Source {
    using(file, &Library::NONE)
}

const fn using(file: &'static str, library: &'static Library) -> Source {
    Source::Program { file, library, memory: Memory::Bytes }
}

const fn words(file: &'static str, library: &'static Library) -> Source {
    Source::Program { file, library, memory: Memory::Words }
}

const fn picolibc(file: &'static str, library: &'static Library) -> Source {
    Source::Program { file, library, memory: Memory::Picolibc }
}

/// Cases of an assembly file: its first condition and the alternatives of that one.
fn cases(text: &'static str) -> impl Iterator<Item = &'static str> {
    let alternatives =
        text.split("#if defined(CASE_").nth(1).unwrap_or_default().split("#elif defined(CASE_");
    alternatives.filter_map(|alternative| alternative.split(')').next())
}

/// All guests.
#[must_use]
pub fn guests() -> Vec<Guest> {
    let programs = PROGRAMS.into_iter().flat_map(|(name, source, level, about)| {
        [("imc", IMC), ("b", IMC_B)].map(|(suffix, march)| Guest {
            name: format!("{name}-{suffix}"),
            about,
            source: source.clone(),
            march,
            level,
        })
    });
    let memory = cases(include_str!("../attacks/memory.S"))
        .map(|case| attack("attacks/memory.S", case, "touches the edges of memory, or what is beyond"));
    let control = cases(include_str!("../attacks/control.S"))
        .map(|case| attack("attacks/control.S", case, "jumps as no compiler would"));
    let names = attack("attacks/names.S", "NAMES", "has symbols named like the host's own");
    programs.chain(memory).chain(control).chain([names]).collect()
}

fn attack(file: &'static str, case: &str, about: &'static str) -> Guest {
    Guest {
        name: format!("attack-{}", case.to_lowercase().replace('_', "-")),
        about,
        source: Source::Case { file, case: format!("CASE_{case}") },
        march: IMC,
        level: "-O0",
    }
}

/// The guest with this name; `secp256k1` is short for `secp256k1-imc`, for example.
#[must_use]
pub fn guest_named(name: &str) -> Option<Guest> {
    let all = guests();
    let exact = all.iter().find(|guest| guest.name == name);
    exact.or_else(|| all.iter().find(|guest| guest.name == format!("{name}-imc"))).cloned()
}

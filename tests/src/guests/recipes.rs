//! The list of guests: what each is called, what it is for, and what it is built from.

/// One guest.
#[derive(Clone, Debug)]
pub struct Guest {
    /// Its name, as on the command line.
    pub name: String,
    /// What it does, in one line.
    pub about: &'static str,
    /// What it is built from.
    pub source: Source,
    /// The instruction sets that gcc may use.
    pub march: &'static str,
    /// How gcc optimises.
    pub level: &'static str,
}

/// What a guest is built from, relative to the guests' folder.
#[derive(Clone, Debug)]
pub enum Source {
    /// A C file with `main`, our start and memory functions.
    Program(&'static str),
    /// As [`Source::Program`], with libsecp256k1 from the crate secp256k1-sys.
    Secp256k1(&'static str),
    /// As [`Source::Program`], with picolibc's memory functions instead of ours.
    Picolibc(&'static str),
    /// An assembly file with `_start`, built with one case defined.
    Case {
        /// The file.
        file: &'static str,
        /// The macro that selects the case.
        case: String,
    },
}

/// The base instruction set of every VM version.
const IMC: &str = "rv64imc";
/// With the B extension (versions 1 and 2).
const IMC_B: &str = "rv64imc_zba_zbb_zbc_zbs";

/// Programs: name, source, optimisation, what they do.
const PROGRAMS: [(&str, Source, &str, &str); 11] = [
    ("secp256k1", Source::Secp256k1("secp256k1.c"), "-O3", "verifies ECDSA signatures, ARG times"),
    ("secp256k1-small", Source::Secp256k1("secp256k1.c"), "-Os", "the same, a third of the code"),
    ("sha256", Source::Program("kernels/sha256.c"), "-O3", "hashes 1 KiB, ARG times"),
    ("sort", Source::Program("kernels/sort.c"), "-O3", "sorts 30,000 numbers and walks a list, ARG times"),
    ("mulmod", Source::Program("kernels/mulmod.c"), "-O3", "multiplies modulo a 254-bit prime, 2 ARG times"),
    ("interpreter", Source::Program("kernels/interpreter.c"), "-O3", "runs a stack machine, ARG times"),
    ("blocks", Source::Program("kernels/blocks.c"), "-O3", "copies and fills by Duff's device, ARG times"),
    (
        "picolibc-blocks",
        Source::Picolibc("picolibc_blocks.c"),
        "-O3",
        "calls picolibc's memset and memcpy, ARG times",
    ),
    ("fib", Source::Program("fib.c"), "-O3", "computes fib(ARG) by recursion"),
    ("debug", Source::Program("debug.c"), "-O3", "prints ARG lines through the debug syscall"),
    ("exit", Source::Program("exit.c"), "-O3", "exits with ARG"),
];

/// Cases of `attacks/memory.S`.
const MEMORY_CASES: [&str; 30] = [
    "READ_END",
    "READ_LAST",
    "READ_DEAD",
    "READ_STRADDLE",
    "READ_NEGATIVE",
    "READ_NEGATIVE_BASE",
    "READ_NEGATIVE_OFFSET",
    "READ_WRAP",
    "READ_WRAP_BELOW",
    "READ_FAR",
    "READ_HOST_STATE",
    "READ_ABOVE47",
    "READ_ABOVE63",
    "READ_MAXIMUM",
    "READ_CODE",
    "WRITE_END",
    "WRITE_LAST",
    "WRITE_STRADDLE",
    "WRITE_NEGATIVE",
    "WRITE_WRAP",
    "WRITE_FAR",
    "WRITE_HOST_STATE",
    "WRITE_ABOVE47",
    "WRITE_CODE",
    "WRITE_CODE_SAME",
    "WRITE_CODE_STRADDLE",
    "WRITE_CONSTANTS",
    "WRITE_MANY",
    "STACK_FAR",
    "STACK_NEGATIVE",
];

/// Cases of `attacks/control.S`.
const CONTROL_CASES: [&str; 32] = [
    "RECURSION",
    "RECURSION_RETURN",
    "RECURSION_STACK",
    "RECURSION_OVERFLOW",
    "LOOP",
    "LOOP_BRANCH",
    "LOOP_TAIL",
    "LOOP_CALL",
    "RETURN_FORGED",
    "RETURN_MIDDLE",
    "RETURN_TWICE",
    "JUMP_ODD",
    "JUMP_MIDDLE",
    "JUMP_DATA",
    "JUMP_WRITTEN",
    "JUMP_CONSTANTS",
    "JUMP_WRAP",
    "JUMP_END",
    "JUMP_NEGATIVE",
    "JUMP_NULL",
    "JUMP_OWN_BODY",
    "TABLE_FORGED",
    "FALL_OFF",
    "INVALID",
    "INVALID_SKIPPED",
    "ECALL_UNKNOWN",
    "EBREAK",
    "LINK_T0",
    "LINK_SWAPPED",
    "LINK_CLOBBERED",
    "LINK_T0_JUMP",
    "LINK_T0_CALLEE",
];

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
    let memory = MEMORY_CASES
        .map(|case| attack("attacks/memory.S", case, "touches the edges of memory, or what is beyond"));
    let control = CONTROL_CASES.map(|case| attack("attacks/control.S", case, "jumps as no compiler would"));
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

/// The guest with this name; `secp256k1` is short for `secp256k1-imc`, and so on.
#[must_use]
pub fn guest_named(name: &str) -> Option<Guest> {
    let all = guests();
    let exact = all.iter().find(|guest| guest.name == name);
    exact.or_else(|| all.iter().find(|guest| guest.name == format!("{name}-imc"))).cloned()
}

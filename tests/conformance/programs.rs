//! Programs as authors write them: compiled from C, run natively from start to exit.

use antares_abi::{CompileOptions, Isa};
use antares_tests::{
    differential::{Equal, compare},
    guests,
    oracle::Case,
};
use antares_vm::Machine;

use crate::check::{CYCLES_MAX, check, check_within, script};

/// Runs a guest with a numeric argument; it must exit, and not bail out. SPHINCS+ takes 200 million cycles to
/// sign.
#[track_caller]
fn check_native(name: &str, number: &str, options: CompileOptions) -> Equal {
    // In version 0 a load of the last byte of memory, the end of the first argument, fails.
    let args = ["-", number];
    let equal = check_within(name, &guests::bytes(name).unwrap(), &args, options, 1 << 30).unwrap();
    assert_eq!(equal.native_cycles, equal.cycles, "{name} left native code: {equal:?}");
    assert!(equal.outcome.starts_with("Exit("), "{name}: {equal:?}");
    equal
}

#[test]
fn secp256k1_verifies_in_every_version() {
    for (name, number, version) in [
        ("secp256k1-small-imc", "2", 0),
        ("secp256k1-small-imc", "2", 1),
        ("secp256k1-small-b", "2", 1),
        ("secp256k1-imc", "2", 2),
        ("secp256k1-small-imc", "2", 2),
        ("secp256k1-small-b", "4", 2),
    ] {
        assert_eq!(check_native(name, number, script(version)).outcome, "Exit(0)", "{name} {version}");
    }
}

#[test]
fn secp256k1_with_b_is_invalid_in_version_0() {
    let elf = guests::bytes("secp256k1-small-b").unwrap();
    let equal = check("secp256k1-small-b", &elf, &["1"], script(0)).unwrap();
    assert_eq!(equal.outcome, "InvalidInstruction");
}

/// ckb-vm's loader says what is an ELF, and for which version.
#[test]
fn broken_elfs_end_alike() {
    let good = guests::bytes("exit-imc").unwrap();
    let mut machine = Machine::new().unwrap();
    let mut interpret = |elf: &[u8], vm_version, isa| {
        let options = CompileOptions { vm_version, isa: Isa(isa) };
        let case = Case::new(elf, &[], options, CYCLES_MAX);
        let equal = compare(&mut machine, &case, None).unwrap();
        equal.unwrap_or_else(|difference| panic!("{vm_version} {isa}: {difference}"));
    };
    for (vm_version, isa) in [(0, 0), (1, 3), (2, 3), (2, 0), (1, 1), (2, 7), (0, 2)] {
        for length in [0, 3, 16, 63, 64, 100, good.len() / 2, good.len()] {
            interpret(&good[..length], vm_version, isa);
        }
    }
    // Every field of the header and of the program headers, with at least one of its bytes.
    for index in (0..400).step_by(2) {
        let mut changed = good.to_vec();
        changed[index] ^= 0xff;
        interpret(&changed, 2, 3);
    }
}

#[test]
fn kernels_stay_native() {
    let plain = CompileOptions { vm_version: 2, isa: Isa::IMC };
    for name in ["sha256", "mulmod", "blocks", "fib", "picolibc-blocks"] {
        for (suffix, options) in [("imc", script(0)), ("imc", script(1)), ("imc", plain), ("b", script(2))] {
            check_native(&format!("{name}-{suffix}"), "3", options);
        }
    }
}

/// `setjmp` and `longjmp` of picolibc, in C and for Lua's `pcall`.
#[test]
fn caught_errors_stay_native() {
    for version in 0..3 {
        check_native("far-jumps-imc", "20", script(version));
    }
    check_native("lua-errors-imc", "3", script(2));
}

#[test]
fn libraries_stay_native() {
    for (version, suffix, names) in [
        (0, "imc", &["rsa1024", "keccak", "blake2b"][..]),
        (1, "b", &["rsa2048", "keccak", "mldsa", "sphincs", "bls12-381", "lz4-unaligned"]),
        (2, "imc", &["schnorr", "rsa1024-os", "keccak", "blake2b", "mldsa", "lz4", "chase"]),
    ] {
        for name in names {
            check_native(&format!("{name}-{suffix}"), "1", script(version));
        }
    }
}

#[test]
fn calls_through_tables_and_sorting_stay_native() {
    check_native("interpreter-imc", "3", script(2));
    check_native("interpreter-b", "3", script(2));
    for version in 0..3 {
        check_native("sort-imc", "1", script(version));
    }
}

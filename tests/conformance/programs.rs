//! Programs as authors write them: compiled from C, run natively from start to exit.

use antares_abi::{CompileOptions, Isa};
use antares_tests::{
    differential::{Equal, compare},
    guests,
    oracle::Case,
};
use antares_vm::Machine;
use bytes::Bytes;

use crate::check::{CYCLES_MAX, check, check_within, script};

/// Runs a guest with a numeric argument; it must not bail out.
#[track_caller]
fn check_native(name: &str, number: &str, options: CompileOptions) -> Equal {
    // In version 0 a load of the last byte of memory, the end of the first argument, fails.
    let args = ["-", number];
    let equal = check(name, &guests::bytes(name).unwrap(), &args, options).unwrap();
    assert_eq!(equal.native_cycles, equal.cycles, "{name} left native code: {equal:?}");
    equal
}

#[track_caller]
fn check_exit(name: &str, number: &str, options: CompileOptions, outcome: &str) {
    assert_eq!(check_native(name, number, options).outcome, outcome, "{name} {number}");
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
        check_exit(name, number, script(version), "Exit(0)");
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
        let elf = Bytes::copy_from_slice(elf);
        let case = Case { elf, args: Vec::new(), options, cycles_max: CYCLES_MAX, code: None };
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
            let guest = format!("{name}-{suffix}");
            let equal = check_native(&guest, "3", options);
            assert!(equal.outcome.starts_with("Exit("), "{guest}: {equal:?}");
        }
    }
}

/// `setjmp` and `longjmp` of picolibc, in C and for Lua's `pcall`.
#[test]
fn caught_errors_stay_native() {
    for version in 0..3 {
        let equal = check_native("far-jumps-imc", "20", script(version));
        assert!(equal.outcome.starts_with("Exit("), "{equal:?}");
    }
    let equal = check_native("lua-errors-imc", "3", script(2));
    assert!(equal.outcome.starts_with("Exit("), "{equal:?}");
}

/// Runs a guest that mainly consists of a published library; SPHINCS+ takes 200 million cycles to sign.
#[track_caller]
fn check_library(name: &str, version: u32) {
    let elf = guests::bytes(name).unwrap();
    let equal = check_within(name, &elf, &["-", "1"], script(version), 1 << 30).unwrap();
    assert!(equal.outcome.starts_with("Exit("), "{name}: {equal:?}");
    assert_eq!(equal.native_cycles, equal.cycles, "{name} left native code: {equal:?}");
}

#[test]
fn libraries_stay_native() {
    for (version, names) in [
        (0, &["rsa1024-imc", "keccak-imc", "blake2b-imc"][..]),
        (1, &["rsa2048-b", "keccak-b", "mldsa-b", "sphincs-b", "bls12-381-b", "lz4-unaligned-b"]),
        (
            2,
            &[
                "schnorr-imc",
                "rsa1024-os-imc",
                "keccak-imc",
                "blake2b-imc",
                "mldsa-imc",
                "lz4-imc",
                "chase-imc",
            ],
        ),
    ] {
        names.iter().for_each(|name| check_library(name, version));
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

//! Builds the programs in `examples/programs/` in a separate workspace, as users build them, and runs them.
#![cfg(all(feature = "ckb", feature = "compile"))]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use antares_guests::crates::run;

fn cargo(words: &[&str]) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/programs");
    // Use our lock file; other users have their own.
    let locked = || _ = fs::copy(folder.join("../Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    static LOCKED: OnceLock<()> = OnceLock::new();
    LOCKED.get_or_init(locked);
    let mut command = antares_guests::crates::cargo();
    command.args(words).arg("--offline").current_dir(&folder).env("CARGO_TARGET_DIR", target());
    // Each program enables only its own features.
    command.env_remove("CARGO_RESOLVER_FEATURE_UNIFICATION").env_remove("CARGO_UNSTABLE_FEATURE_UNIFICATION");
    String::from_utf8(run(&mut command).unwrap()).unwrap()
}

/// The target directory of this test, to share build results with the examples.
fn target() -> PathBuf {
    env::current_exe().unwrap().ancestors().nth(3).unwrap().to_owned()
}

/// Output of an example.
fn printed(name: &str, args: &[&str]) -> String {
    let output = run(Command::new(target().join("debug").join(name)).args(args));
    String::from_utf8(output.unwrap()).unwrap()
}

#[test]
#[ignore = "builds a workspace of its own, which takes minutes"]
fn programs_of_others_embed_the_engine() {
    cargo(&["build", "--package", "embedding"]);
    let elf = antares_guests::build("exit").unwrap();
    let said = printed("run", &[elf.to_str().unwrap(), "3"]);
    assert!(said.starts_with("Exited(3): "), "{said}");

    let text = ".global _start\n_start:\n la a0, room\n li a7, 5000\n ecall\n la a1, room\n ld a0, 0(a1)\n \
                li a7, 93\n ecall\n.data\n.balign 8\nroom: .dword 0\n";
    let folder = tempfile::tempdir().unwrap();
    let elf = folder.path().join("asks");
    fs::write(&elf, antares_guests::assemble(text).unwrap()).unwrap();
    let said = printed("system_calls", &[elf.to_str().unwrap(), "42"]);
    assert!(said.starts_with("Exited(42): ") && said.contains("asked 1 times"), "{said}");

    let transaction = antares_guests::debugger_examples().unwrap().join("mock_tx.json");
    let said = printed("resume", &[transaction.to_str().unwrap(), "100000"]);
    let parts: u32 = said.split_whitespace().nth(2).unwrap().parse().unwrap();
    assert!(parts > 4 && said.contains(" cycles, ") && !said.contains(" 0 of them native"), "{said}");
}

#[test]
#[ignore = "builds a workspace of its own, which takes minutes"]
fn a_program_of_others_is_built_without_llvm() {
    cargo(&["build", "--package", "without-llvm"]);
    let tree = cargo(&["tree", "--package", "without-llvm", "--edges", "normal,build", "--prefix", "none"]);
    let has = |name: &str| tree.lines().any(|line| line.split(' ').next() == Some(name));
    assert!(has("antares-vm") && !["llvm-sys", "inkwell", "ckb-script"].into_iter().any(has), "{tree}");
}

#[test]
#[ignore = "builds a workspace of its own, which takes minutes"]
fn tests_of_others_use_ckb_testtool() {
    cargo(&["test", "--package", "testtool"]);
}

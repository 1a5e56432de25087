//! Commands that are programs of their own.
#![allow(clippy::unwrap_used, reason = "a test")]
#![forbid(unsafe_code)]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output},
};

const ANTARES: &str = env!("CARGO_BIN_EXE_antares");

fn run(program: &Path, path: &Path, args: &[&str]) -> Output {
    Command::new(program).args(args).env("PATH", path).output().unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn a_program_on_the_path_is_a_command() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("antares-hello");
    fs::write(&program, "#!/bin/sh\necho \"$0: $*\"\nexit 7\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let output = run(Path::new(ANTARES), folder.path(), &["hello", "a b", "--json"]);
    let expected = format!("{}: a b --json\n", program.display());
    assert_eq!((output.status.code(), output.stdout), (Some(7), expected.into_bytes()));
}

#[test]
fn an_unknown_command_is_refused_with_what_is_similar() {
    let nothing = tempfile::tempdir().unwrap();
    for (word, similar) in [("verfy", "verify"), ("fuz", "fuzz"), ("../antares-hello", "")] {
        let output = run(Path::new(ANTARES), nothing.path(), &[word, "--tx", "tx.json"]);
        let said = errors(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("unrecognized subcommand") && said.contains(similar), "{said}");
    }
}

#[test]
fn a_tool_that_is_not_installed_is_named() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let alone = folder.path().join("antares");
    fs::hard_link(ANTARES, &alone).unwrap();
    std::os::unix::fs::symlink("antares", folder.path().join("ckb-debugger")).unwrap();
    for (args, program) in [
        (&["fuzz", "script", "-o", "folder"][..], "antares-fuzz"),
        (&["--color", "never", "debug", "script"], "antares-debug"),
        (&["optimise", "script", "-o", "cheaper"], "antares-optimise"),
        // The link leads back to this very program.
        (&["debugger", "--bin", "script"], "ckb-debugger"),
    ] {
        let output = run(&alone, folder.path(), args);
        let said = errors(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("the program {program}, which is not installed")), "{said}");
    }
}

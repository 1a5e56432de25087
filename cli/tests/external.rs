//! Tests of external commands.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command};

use crate::command::{self, ANTARES};

fn run(program: &Path, path: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    command::run(Command::new(program).args(args).env("PATH", path))
}

#[test]
fn a_program_on_the_path_is_a_command() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("antares-hello");
    fs::write(&program, "#!/bin/sh\necho \"$0: $*\"\nexit 7\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let (status, stdout, _) = run(Path::new(ANTARES), folder.path(), &["hello", "a b", "--json"]);
    assert_eq!((status, stdout), (Some(7), format!("{}: a b --json\n", program.display())));
}

#[test]
fn an_unknown_command_is_refused_with_what_is_similar() {
    let nothing = tempfile::tempdir().unwrap();
    for (word, similar) in [("verfy", "verify"), ("fuz", "fuzz"), ("../antares-hello", "")] {
        let (status, _, said) = run(Path::new(ANTARES), nothing.path(), &[word, "--tx", "tx.json"]);
        assert_eq!(status, Some(2), "{said}");
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
        // The link points back to this program.
        (&["debugger", "--bin", "script"], "ckb-debugger"),
    ] {
        let (status, _, said) = run(&alone, folder.path(), args);
        assert_eq!(status, Some(2), "{said}");
        assert!(said.contains(&format!("the program {program}, which is not installed")), "{said}");
    }
}

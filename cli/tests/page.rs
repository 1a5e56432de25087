//! Runs the commands of a page of the docs.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::command;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The commands of `docs/NAME`, each with its expected status.
pub(crate) fn commands(name: &str) -> Vec<(String, i32)> {
    let page = fs::read_to_string(root().join("docs").join(name)).unwrap();
    let lines = page.lines().filter_map(|line| line.strip_prefix("$ "));
    let reported = |line: &str| match line.split_once(" # status ") {
        Some((command, status)) => (command.to_owned(), status.parse().unwrap()),
        None => (line.to_owned(), 0),
    };
    lines.map(reported).collect()
}

/// Runs a page's command in `folder` with the expected `status`; returns its output.
#[track_caller]
pub(crate) fn follow(folder: &Path, line: &str, status: i32) -> String {
    let programs = Path::new(command::ANTARES).parent().unwrap();
    let path = format!("{}:{}", programs.display(), env::var("PATH").unwrap());
    let mut shell = Command::new("bash");
    shell.args(["-c", line]).current_dir(folder).env("PATH", &path).env("ANTARES_CACHE", "off");
    shell.env_remove("ANTARES_SERVER").env_remove("RUSTFLAGS");
    let (ended, stdout, stderr) = command::run(&mut shell);
    let said = stdout + &stderr;
    assert_eq!(ended, Some(status), "{line}\n{said}");
    said
}

//! gdb-multiarch with a file of commands, as `antares debug` starts it.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread,
    time::Duration,
};

use antares_pool::worker_path;
use tempfile::TempDir;

pub(crate) fn antares(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(worker_path("antares").unwrap());
    command.env("ANTARES_CACHE", "off").env_remove("ANTARES_SERVER").current_dir(folder).args(words);
    command
}

/// A folder with a script.
pub(crate) fn folder(elf: &[u8]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("script.elf"), elf).unwrap();
    folder
}

/// A process that is killed on drop.
pub(crate) struct Ends(pub(crate) Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `antares debug` waiting for gdb, and its address.
pub(crate) fn waiting(folder: &TempDir, words: &[&str]) -> (Ends, String) {
    let words = [&["debug", "--address-file", "address"], words].concat();
    let mut server = Ends(antares(folder.path(), &words).stdout(Stdio::null()).spawn().unwrap());
    loop {
        if let Ok(address) = fs::read_to_string(folder.path().join("address")) {
            return (server, address);
        }
        assert!(server.0.try_wait().unwrap().is_none(), "it has ended");
        thread::sleep(Duration::from_millis(10));
    }
}

fn gdb(folder: &TempDir, words: &[&str], commands: &str) -> Output {
    let settings = "set pagination off\nset confirm off\nset width 0\n";
    fs::write(folder.path().join("commands"), format!("{settings}{commands}")).unwrap();
    antares(folder.path(), &[&["debug", "--gdb", "--batch", "commands"], words].concat()).output().unwrap()
}

/// gdb's output with status 0; output of `monitor` follows the rest.
#[track_caller]
pub(crate) fn said(folder: &TempDir, words: &[&str], commands: &str) -> String {
    let output = gdb(folder, words, commands);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{text}\n{errors}", output.status);
    text + &errors
}

/// Asserts that `text` contains the lines of `parts` in this order.
#[track_caller]
pub(crate) fn assert_in_order(text: &str, parts: &str) {
    let mut rest = text;
    for part in parts.split('\n') {
        let at = rest.find(part);
        let at = at.unwrap_or_else(|| panic!("no {part:?} where it should be in:\n{text}"));
        rest = &rest[at + part.len()..];
    }
}

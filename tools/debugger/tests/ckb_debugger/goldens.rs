//! Output of the published program, and comparisons with ours.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use antares_abi::Sha256Digest;
use antares_guests::{debugger_examples, js_vm, published_scripts};
use tempfile::TempDir;

/// Files of commands with the output of the published program, and their folders. The scripts are those of
/// published crates, each as the lock of a generated transaction; JavaScript is built and run with ckb-js-vm.
pub(crate) fn published() -> Vec<(&'static str, TempDir)> {
    let files = [("lines", Some(examples())), ("scripts", Some(examples())), ("javascript", javascript())];
    files.into_iter().filter_map(|(name, folder)| Some((name, folder?))).collect()
}

/// The file of this name.
pub(crate) fn file(name: &str) -> PathBuf {
    Path::new(FOLDER).join(name).with_extension("txt")
}

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ckb_debugger");

/// The examples of the published program, in a writable folder.
pub(crate) fn examples() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(debugger_examples().unwrap()).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    fs::create_dir(folder.path().join("scripts")).unwrap();
    for script in published_scripts().unwrap() {
        fs::copy(&script.path, folder.path().join("scripts").join(script.name.replace('/', "+"))).unwrap();
    }
    folder
}

/// The command that runs `program`, which may include arguments, with `words`.
pub(crate) fn command(program: &[&str], folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(program[0]);
    command.args(&program[1..]);
    command.current_dir(folder).env("ANTARES_CACHE", "off").env_remove("ANTARES_SERVER");
    command.args(words).stdin(Stdio::null());
    command
}

/// Names and digests of the files below `folder`.
fn files(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else {
            let digest = Sha256Digest::of(&fs::read(&path).unwrap()).to_string();
            files.push((path, digest));
        }
    }
    files.sort();
    files
}

/// The answer of `program` to one command of a golden file: its output, its status, and the files that it
/// wrote.
pub(crate) fn answer(program: &[&str], folder: &Path, line: &str) -> String {
    let mut words: Vec<&str> = line.split_whitespace().collect();
    let stdin = if words.first() == Some(&"<") {
        let name = words[1];
        words.drain(..2);
        Stdio::from(fs::File::open(folder.join(name)).unwrap())
    } else {
        Stdio::null()
    };
    let before = files(folder);
    let mut command = command(program, folder, &words);
    // The published program may write anywhere.
    let output = command.env("ANTARES_DEBUGGER_PATHS", ".").stdin(stdin).output().unwrap();
    let mut text = String::from_utf8(output.stdout).unwrap();
    text += &format!("= {}\n", output.status.code().unwrap());
    for (path, digest) in files(folder) {
        if !before.contains(&(path.clone(), digest.clone())) {
            text += &format!("wrote {} {digest}\n", path.strip_prefix(folder).unwrap().display());
            fs::remove_file(path).unwrap();
        }
    }
    text
}

/// The commands of a golden file, each with its expected answer.
pub(crate) fn goldens(text: &str) -> Vec<(&str, String)> {
    let mut goldens: Vec<(&str, String)> = Vec::new();
    for line in text.lines().skip_while(|line| line.starts_with('#')) {
        match (line.strip_prefix('$'), goldens.last_mut()) {
            (Some(command), _) => goldens.push((command.trim(), String::new())),
            (None, Some((_, expected))) => *expected += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    goldens
}

/// Asserts that `program` answers as the published one.
pub(crate) fn assert_as_published(program: &[&str]) {
    for (name, folder) in published() {
        let text = fs::read_to_string(file(name)).unwrap();
        let goldens = goldens(&text);
        assert!(!goldens.is_empty());
        let differing = goldens.iter().filter_map(|(command, expected)| {
            let found = answer(program, folder.path(), command);
            (found != *expected).then(|| format!("$ {command}\nexpected:\n{expected}found:\n{found}"))
        });
        let wrong: Vec<_> = differing.collect();
        assert!(wrong.is_empty(), "{} of {} differ\n{}", wrong.len(), goldens.len(), wrong.join("\n"));
    }
}

/// The folder for building JavaScript.
fn javascript() -> Option<TempDir> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("ckb-js-vm"), js_vm().unwrap()?).unwrap();
    for name in ["hello.js", "fails.js", "script.js"] {
        fs::copy(Path::new(FOLDER).join(name), folder.path().join(name)).unwrap();
    }
    fs::create_dir(folder.path().join("out")).unwrap();
    Some(folder)
}

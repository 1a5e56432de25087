//! The page for a first script: each of its commands, with the C and the Rust template.

use std::{
    fs,
    io::{BufRead as _, BufReader, Lines},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
};

use serde_json::Value;

use crate::{
    command,
    page::{self, commands, root},
};

/// Runs the page's commands for one language, up to those that need both.
fn follow(language: &str, js_vm: Option<&[u8]>) {
    let place = tempfile::tempdir().unwrap();
    let (mut folder, mut deployed) = (place.path().to_owned(), false);
    let mut commands = commands("first-script.md");
    assert!(commands.len() > 10, "{commands:?}");
    // The build for the chain does not change the snapshot.
    commands.push(("antares snapshot . --file snapshot.json --check".to_owned(), 0));
    for (command, status) in commands {
        if js_vm.is_some() && command.contains("size build/lock") {
            continue;
        }
        deployed |= command.contains("--shrink");
        let said = page::follow(&folder, &command.replace("lock --c", &format!("lock --{language}")), status);
        if command.ends_with("cd lock") {
            folder = folder.join("lock");
            for file in list(&root().join("examples/scripts").join(language)) {
                assert!(folder.join(&file).exists(), "{language}: antares new has no {file}");
            }
            if let Some(vm) = js_vm {
                fs::create_dir(folder.join("build")).unwrap();
                fs::write(folder.join("build/ckb-js-vm"), vm).unwrap();
            }
        }
        match &*command {
            "antares test" => assert!(said.contains("ok      refused.toml: exit 2"), "{language}: {said}"),
            "antares verify --tx opens.toml" => assert!(said.contains("| opened"), "{language}: {said}"),
            _ => {}
        }
        if command.contains("errors.txt") {
            assert!(language != "c" || said.contains("lock.c:57:"), "{said}");
            assert!(said.contains("the witness shows something else"), "{language}: {said}");
        }
        if command.contains("errors.txt") && js_vm.is_none() {
            assert!(said.contains("unlock") || said.contains("main"), "no place in the source: {said}");
        }
    }
    if deployed {
        let bytes = |name: &str| fs::metadata(folder.join(name)).unwrap().len();
        // Debug data would dominate the size.
        let small = bytes("build/lock.small");
        assert!(small < bytes("build/lock") && small < 32_000, "{small} bytes");
    }
}

/// Files of a folder that git tracks.
fn list(folder: &Path) -> Vec<String> {
    let mut git = Command::new("git");
    let listed = git.args(["ls-files", "--cached", "--others", "--exclude-standard"]).current_dir(folder);
    let listed = String::from_utf8(listed.output().unwrap().stdout).unwrap();
    assert!(!listed.is_empty());
    listed.lines().map(str::to_owned).collect()
}

#[test]
fn each_source_is_built_again() {
    for (template, source) in
        [("c", "util.h"), ("rust", "src/util.rs"), ("rust", "src/deep/mod.rs"), ("rust", "Cargo.lock")]
    {
        let place = tempfile::tempdir().unwrap();
        let is_built = |command: &str| {
            let mut shell = Command::new("bash");
            shell.args(["-c", command]).current_dir(place.path()).status().unwrap().success()
        };
        let from = root().join("examples/scripts").join(template);
        assert!(is_built(&format!("cp -r {}/. . && mkdir -p build && touch build/lock", from.display())));
        assert!(is_built("make -q"), "{template}");
        let later = format!("mkdir -p src/deep && touch -d 'now + 1 hour' {source} && make -qs 2>/dev/null");
        assert!(!is_built(&later), "{template}: {source}");
    }
}

/// Lines of `antares watch --json`, and the process.
struct Watch {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Watch {
    fn next(&mut self) -> Value {
        serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

#[test]
fn a_watch_runs_what_changed() {
    let place = tempfile::tempdir().unwrap();
    page::follow(place.path(), "antares new lock --c", 0);
    assert!(page::follow(place.path(), "antares new lock --c", 2).contains("cannot write lock: File exists"));
    let folder = place.path().join("lock");
    let mut command = command::command(&folder, &["watch", "--json"]);
    let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let mut watch = Watch { process, lines };
    let change = |name: &str, from: &str, to: &str| {
        let text = fs::read_to_string(folder.join(name)).unwrap();
        // Replaces the file atomically, as editors do.
        fs::write(place.path().join("new"), text.replace(from, to)).unwrap();
        fs::rename(place.path().join("new"), folder.join(name)).unwrap();
    };
    let names = |round: &Value| -> Vec<String> {
        let tests = round["tests"].as_array().unwrap();
        tests.iter().map(|test| test["name"].as_str().unwrap().to_owned()).collect()
    };
    let round = watch.next();
    assert_eq!((names(&round).len(), round["passed"].as_u64()), (2, Some(2)), "{round}");
    change("refused.toml", "exit 2", "exit 3");
    let round = watch.next();
    assert_eq!((names(&round), round["failed"].as_u64()), (vec!["refused.toml".to_owned()], Some(1)));
    assert_eq!(round["tests"][0]["outcome"], "exit 2");
    let report = round["tests"][0]["report"].as_str().unwrap();
    assert!(report.contains("the witness shows something else") && report.contains("lock.c:57"), "{report}");
    change("refused.toml", "witness =", "witnes =");
    let report = watch.next()["tests"][0]["report"].as_str().unwrap().to_owned();
    assert!(report.contains("refused.toml: line 10: no such key: `witnes`; it is `witness`"), "{report}");
    change("refused.toml", "witnes =", "witness =");
    assert_eq!(watch.next()["tests"][0]["outcome"], "exit 2");
    // Both transactions contain the script in a cell.
    change("lock.c", "OTHER_WITNESS = 2", "OTHER_WITNESS = 3");
    let round = watch.next();
    assert_eq!((names(&round).len(), round["passed"].as_u64()), (2, Some(2)), "{round}");
    change("lock.c", "OTHER_WITNESS = 3", "OTHER_WITNESS = ");
    assert_eq!(watch.next()["is_built"], false);
}

/// The page's file, and commands that use it.
#[test]
fn transactions_for_tests_verify() {
    let place = tempfile::tempdir().unwrap();
    let page = fs::read_to_string(root().join("docs/transactions.md")).unwrap();
    let toml = page.split_once("```toml\n").unwrap().1.split_once("```").unwrap().0;
    let written =
        |from: &str, to: &str| fs::write(place.path().join("pays.toml"), toml.replace(from, to)).unwrap();
    written("", "");
    for (command, status) in commands("transactions.md") {
        page::follow(place.path(), &command, status);
    }
    // Signatures matter: others' signatures, too few, and those of another transaction are rejected.
    for (from, to, status) in [
        ("{{ sign secp256k1 alice }}\" }\n\n[[i", "{{ sign secp256k1 bob }}\" }\n\n[[i", "exit -31"),
        ("{{ sign secp256k1 carol }}", "{{ sign secp256k1 alice }}", "exit -52"),
        ("since = \"relative epoch 1\"\n", "", "accepted"),
    ] {
        assert!(toml.contains(from), "{from}");
        written(from, to);
        let said = page::follow(place.path(), "antares test .", i32::from(status != "accepted"));
        assert!(said.contains(&format!("pays.toml: {status}")), "{said}");
    }
    let json = page::follow(place.path(), "antares tx build pays.toml", 0);
    fs::write(place.path().join("pays.json"), json.replace("\"version\": \"0x0\"", "\"version\": \"0x1\""))
        .unwrap();
    let said = page::follow(place.path(), "antares test . --only json", 1);
    assert!(said.contains("FAILED  pays.json: exit -31; expected: accepted"), "{said}");
    let said = page::follow(place.path(), "antares test . --only none", 2);
    assert!(said.contains("has no transactions to test"), "{said}");
}

#[test]
fn a_first_script_in_c() {
    follow("c", None);
}

#[test]
fn a_first_script_in_rust() {
    let rustc =
        Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]).output().unwrap();
    let libraries = String::from_utf8(rustc.stdout).unwrap();
    if !Path::new(libraries.trim()).exists() {
        eprintln!("skipped: rustup target add {TARGET}");
        return;
    }
    follow("rust", None);
}

#[test]
fn a_first_script_in_javascript() {
    // `js_vm` prints why it is missing.
    if let Some(vm) = antares_guests::js_vm().unwrap() {
        follow("js", Some(&vm));
    }
}

/// Target of the template.
const TARGET: &str = "riscv64imac-unknown-none-elf";

//! The commands of the docs, run as they stand there: those in blocks for a shell, and an example or more of
//! every command, in which each option of the reference page occurs.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use antares_abi::Sha256Digest;
use antares_chain::{Chain, TestNode, exits};
use antares_pool::worker_path;
use antares_tests::{
    guests::{self, debugger_examples},
    s3,
};
use ckb_types::packed::OutPoint;
use tempfile::TempDir;

use crate::server::{Server, until};

/// Beginnings of commands in the docs that are not run here, and why.
const LEFT_OUT: &[(&str, &str)] = &[
    ("make ", "chores of the house: setup, lint, test and demo are run for every change, benches by hand"),
    ("scripts/bench", "takes minutes"),
    ("cargo build --release", "what is run here was built by cargo, without --release"),
    ("cargo run", "campaigns; each has a short form among the tests"),
    ("ANTARES_", "long forms of tests"),
    ("docker ", "needs a container engine"),
    ("skopeo ", "needs a registry"),
    ("python3 deploy/images/release.py places", "deploy/check/signatures.sh has a registry"),
    ("while read ", "as release.py"),
    ("cosign ", "as release.py"),
    ("tar --create", "goes to docker; test_images.py looks at what it takes"),
    ("kubectl ", "needs a cluster"),
    ("helm ", "needs a cluster; deploy/check/chart.sh checks what would be installed"),
    ("go tool pprof", "deploy/check/profiles.py has pprof read that address"),
    (
        "antares profile guest.elf -o guest.afdo",
        "needs a guest with -g; formats.rs of the conformance tests has that format",
    ),
    ("clang --target", "a compiler of others"),
    ("jq ", "no jq on every machine; tenants.rs adds up the same fields"),
    ("curl ", "web.rs calls the same, of a server of its own"),
    ("riscv64-unknown-elf-gcc", "a compiler of others"),
    ("clients/make.sh", "packages.rs makes all three"),
    ("FOLDER/client", "packages.rs runs all three"),
    ("antares test", "first_script.rs of the command line's tests follows the page"),
    ("antares watch", "as antares test"),
    ("antares tx build", "as antares test"),
    ("target/release/antares serve", "runs until it is told to stop; it is what the others ask here"),
];

/// Pages whose commands depend on each other, and who runs them.
const RUN_ELSEWHERE: [(&str, &str); 1] = [("docs/first-cluster.md", "deploy/check/walk.py")];

/// Options without an example here, and why.
const WITHOUT_EXAMPLE: [(&str, &str); 5] = [
    ("--tls-ca", "tls.rs and cli.rs of the command line's tests have certificates"),
    ("--tls-cert", "as --tls-ca"),
    ("--tls-key", "as --tls-ca"),
    ("--token-file", "identity.rs has tokens"),
    ("--address-file", "debug.rs of the command line's tests has a client"),
];

/// What is run: statuses that are right, and the words. Capitals stand for what [`Place::fill`] puts there.
const EXAMPLES: &[(&[i32], &str)] = &[
    (&[0], "new in-c --c"),
    (&[0], "new in-rust --rust"),
    (&[0], "new in-js --js"),
    // There are no transactions.
    (&[2], "test SCRIPTS --only pays --json"),
    (&[2], "watch SCRIPTS --only pays --json"),
    (&[2], "tx build empty"),
    (&[0], "run SCRIPT -- 0"),
    (&[1], "run SCRIPT -- 7"),
    (&[1], "run SCRIPT --expect-cycles 1 -- 0"),
    (
        &[0],
        "run SCRIPT --vm-version 1 --isa imc --max-cycles 70M --tier native --deadline-ms 60000 --full --no-cache --json -- 0",
    ),
    (&[0], "run SCRIPT --server SERVER --recheck -- 0"),
    // The guest has no argument that says what it shall exit with.
    (&[0, 1], "run SCRIPT --as-lock --args 0x01 --witness 0x --data @list --vm-version 2 --json"),
    (&[1], "run SCRIPT --explain --error-codes codes.txt --source-map lib.js=index.js.map -- 7"),
    (&[1], "run SCRIPT --no-diagnosis -- 7"),
    (&[0], "debug SCRIPT --gdb --batch empty --max-cycles 100M --vm-version 2 --break-at-cycles 100 -- 0"),
    // No machine has this address.
    (&[2], "debug SCRIPT --listen 192.0.2.1:9999"),
    (
        &[0],
        "debug SCRIPT --as-lock --args 0x01 --witness 0x --data @list --break-on-error --gdb --batch empty",
    ),
    (&[0], "debug --tx TX --group lock --cell input.0 --script-version 2 --gdb --batch empty"),
    (&[0], "debug --tx TX --group lock --cell input.0 --mainnet-epoch 20000 --gdb --batch empty"),
    (&[0], "verify --tx TX --explain --error-codes codes.txt"),
    (&[0], "verify --tx TX --source-map index.js.map"),
    (&[0], "verify --tx TX -vvvv"),
    (&[0], "verify --tx TX --no-diagnosis"),
    (&[0], "verify --tx TX"),
    (
        &[0],
        "verify --tx TX --group lock --cell input.0 --script-version 2 --max-cycles 100M --tier auto --deadline-ms 60000 --full --no-cache --json",
    ),
    (&[0], "verify --tx TX --mainnet-epoch 20000 --server SERVER --recheck"),
    (&[0], "verify --tx-hash HASH --rpc URL --rpc-cache had"),
    (&[0], "verify --tx BARE --format node --rpc URL --json"),
    (&[0], "verify --tx BARE --server SERVER --json"),
    (&[0], "dump --tx-hash HASH --rpc URL --rpc-cache had -o dumped.json"),
    (&[0], "dump --tx BARE --format node --rpc URL"),
    (
        &[0],
        "replay --from 0 --to 2 --rpc URL --rpc-cache had --tier auto --full --no-cache --max-cycles 70M --deadline-ms 60000 --json",
    ),
    (&[0], "profile SCRIPT -o before.antares -- 0"),
    (
        &[0],
        "profile SCRIPT --exact --format folded -o out.folded --top 3 --vm-version 2 --isa imc --max-cycles 1M --deadline-ms 60000 -- 0",
    ),
    (&[0], "profile SCRIPT --before before.antares -o out.html -- 0"),
    (&[0], "profile --tx TX --json"),
    (&[0], "profile --server SERVER --json"),
    (
        &[0],
        "profile SHA256 --server SERVER --window-ms 600000 --format html -o seen.html --before before.antares --top 3",
    ),
    (&[0], "profile diff before.antares before.antares --fail-over 0% --top 3 --json"),
    (&[0], "profile diff SCRIPT SCRIPT --vm-version 2 -- 0"),
    (&[0], "optimise LINKED -o cheaper --vm-version 2 --isa imc+b --all --budget-s 60 --report r.json -- 0"),
    // The profile is of another script.
    (&[2], "optimise LINKED -o cheaper --profile before.antares"),
    // It has no relocations.
    (&[2], "optimise SCRIPT -o cheaper -- 0"),
    (&[2], "optimise LINKED -o cheaper --tx TX"),
    (&[0], "insights SCRIPT --top 3 --vm-version 2 --isa imc --max-cycles 1M --deadline-ms 60000 -- 0"),
    (&[0], "insights --tx TX --json"),
    (&[0], "insights --server SERVER --json"),
    (&[0], "insights SHA256 --server SERVER --window-ms 600000 --top 3"),
    // The tenth number of Fibonacci.
    (&[254], "debugger --bin OTHER"),
    (&[0], "compile SCRIPT -o out.so --vm-version 2 --isa imc"),
    (&[0], "explain SCRIPT --stage hash"),
    (&[0], "explain SCRIPT --stage image"),
    (&[0], "explain SCRIPT --stage program --hinted"),
    (&[0], "explain SCRIPT --stage ir --after lift"),
    (&[0], "explain SCRIPT --stage passes"),
    (&[0], "explain --passes"),
    (&[0], "explain SCRIPT --stage llvm"),
    (&[0], "explain SCRIPT --stage asm --vm-version 2 --isa imc"),
    (&[0], "explain SCRIPT --stage object -o out.o"),
    // 1 where the machine has not got a layer.
    (&[0, 1], "doctor"),
    (&[0, 1], "doctor --config CONFIG"),
    (&[0], "upload SCRIPT OTHER --server SERVER"),
    (&[0], "ls --window-ms 600000 --json --server SERVER"),
    (&[0], "ls --stored --artifacts --server SERVER"),
    (&[0], "ls --stored --json --server SERVER"),
    (&[0], "pin SHA256 --server SERVER"),
    (&[0], "unpin SCRIPT --server SERVER"),
    (&[0], "stat SHA256 --json --server SERVER"),
    (&[0], "top SHA256 --window-ms 600000 --top 3 --json --server SERVER"),
    (&[0], "health --json --color never --server SERVER"),
    (&[0], "capabilities --server SERVER"),
    (
        &[0],
        "warm SCRIPT SHA256 SCRIPTS --list list --at-once 2 --vm-version 2 --isa imc+b+mop --server SERVER",
    ),
    (&[0], "cache ls --artifacts --shared SHARED"),
    (&[0], "cache ls --config CONFIG"),
    (&[0], "cache get SHA256 -o out.elf --shared SHARED"),
    // No artifact has the digest of a script as its key.
    (&[1], "cache get SHA256 --artifacts -o out.so --config CONFIG"),
    (&[0], "cache warm --at-once 2 --vm-version 2 --isa imc+b+mop --server SERVER --shared SHARED"),
    (&[0], "cache warm --server SERVER --config CONFIG"),
    (&[0], "cache gc --older-than 30 --dry-run --shared SHARED"),
    (&[0], "cache gc --older-than 30 --config CONFIG"),
    (&[0], "keys generate --keys keys"),
    (&[0], "keys list --keys keys"),
    (&[0], "keys rotate --keys keys"),
    (&[0], "keys revoke SHA256 --keys keys"),
    (&[0], "completions bash"),
    (&[0], "completions elvish"),
    (&[0], "completions fish"),
    (&[0], "completions powershell"),
    (&[0], "completions zsh"),
    (&[0], "man pages"),
    (&[0], "help run"),
    (&[0], "--version"),
    (&[0], "-V"),
    (&[0], "serve --config CONFIG --listen 127.0.0.1:0 --data data --check-config"),
    (&[0], "serve --print-config"),
    (&[0], "admin log-filter info --server SERVER"),
    (&[0], "admin revoke SHA256 --server SERVER"),
    // As above: it is the digest of a script.
    (&[1], "rm --artifacts SHA256 --server SERVER"),
    (&[1], "pin --artifacts SHA256 --server SERVER"),
    (&[1], "unpin --artifacts SHA256 --server SERVER"),
    // The last ones: their file is no script, and `warm` would say so.
    // The guest is no lock: what it does as one may be a finding to begin with.
    (
        &[0, 1, 2],
        "fuzz SCRIPT --args 0x01 --witness 0x --data @list -o fuzzed --field witness.0 --no-fails --exit 5 --binding --jobs 1 --seed 2 --runs 200 --time 60 --findings 1 --field-bytes 64 --max-cycles 1M --tier interpreter --json",
    ),
    (
        &[0, 1, 2],
        "fuzz --tx TX --group lock --cell input.0 -o fuzzed-tx --never-accepts --same-as SCRIPT --runs 100",
    ),
    (&[0], "snapshot SCRIPTS --json"),
    (&[0], "snapshot SCRIPTS --check --tolerance 0.5%"),
    (&[0], "snapshot SCRIPTS --file figures.json --max-cycles 70M --deadline-ms 60000"),
    // 2 where the script has no lines.
    (
        &[0, 2],
        "coverage SCRIPT SCRIPTS --lcov out.info --html out.html --only guest --fail-under 0% --max-cycles 70M --deadline-ms 60000 --json -- 0",
    ),
    (&[0], "hash SCRIPT --json"),
    (&[0], "size SCRIPT --before OTHER --top 3 --vm-version 1 --isa imc --json"),
    (&[0], "size SCRIPT --shrink -o smaller --json"),
];

/// A folder with all that the commands name, and a server.
struct Place {
    folder: TempDir,
    _data: TempDir,
    server: Server,
    digest: String,
    transaction: PathBuf,
    node: TestNode,
    hash: String,
}

impl Place {
    fn new() -> Self {
        let (folder, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let elf = guests::bytes("exit-imc").unwrap();
        let path = |name: &str| folder.path().join(name);
        let shared = format!("[shared]\nurl = \"{}\"\nget_ms_max = 60000\n", s3::url(&path("shared")));
        let (node, hash, bare) = chain();
        let nodes = format!("[node]\nrpc = \"{}\"\n", node.url);
        let server = Server::start_with(&data, &format!("{shared}{nodes}"));
        fs::write(path("antares.toml"), shared).unwrap();
        fs::create_dir(path("scripts")).unwrap();
        for name in ["script", "guest.elf", "scripts/one"] {
            fs::write(path(name), &elf).unwrap();
        }
        fs::write(path("other"), guests::bytes("fib-imc").unwrap()).unwrap();
        let linked = guests::guest_named("exit-imc").unwrap();
        fs::write(path("linked"), guests::with_relocations(&linked).unwrap()).unwrap();
        fs::write(path("list"), "script\n").unwrap();
        fs::write(path("codes.txt"), "7 = Seven\n").unwrap();
        fs::write(path("index.js.map"), r#"{"version": 3, "sources": [], "mappings": ""}"#).unwrap();
        fs::write(path("empty"), "").unwrap();
        let (digest, transaction) =
            (Sha256Digest::of(&elf).to_string(), debugger_examples().unwrap().join("mock_tx.json"));
        fs::write(path("bare.json"), bare).unwrap();
        Self { folder, _data: data, server, digest, transaction, node, hash }
    }

    /// The words of `command` with something real for what stands for something.
    fn fill(&self, command: &str) -> Vec<String> {
        let at = |name: &str| self.folder.path().join(name).display().to_string();
        let transaction = || self.transaction.display().to_string();
        let words = command.split_whitespace().collect::<Vec<_>>();
        let before = std::iter::once("").chain(words.iter().copied());
        let fill = |(before, word): (&str, &str)| match word {
            "SCRIPT" => at("script"),
            "LINKED" => at("linked"),
            "OTHER" => at("other"),
            "SCRIPTS" | "scripts" => at("scripts"),
            "CONFIG" => at("antares.toml"),
            "SHARED" => s3::url(&self.folder.path().join("shared")),
            "SERVER" | "127.0.0.1:50051" => self.server.address.clone(),
            "http://127.0.0.1:50051" => format!("http://{}", self.server.address),
            "SHA256" => self.digest.clone(),
            "TX" => transaction(),
            "FILE" if before == "--tx" => transaction(),
            "BARE" => at("bare.json"),
            "HASH" => self.hash.clone(),
            "URL" if before == "--rpc" => self.node.url.clone(),
            "ARG" | "ARG..." => "0".to_owned(),
            // What the repository has.
            word if word.starts_with("examples/") => format!("{}/../{word}", env!("CARGO_MANIFEST_DIR")),
            word => word.to_owned(),
        };
        before.zip(words.iter().copied()).map(fill).collect()
    }

    /// Runs `antares` with the words of `command`.
    fn run(&self, command: &str) -> (Option<i32>, String) {
        let output = Command::new(worker_path("antares").unwrap())
            .args(self.fill(command))
            .current_dir(self.folder.path())
            .envs(s3::environment())
            .env("XDG_CACHE_HOME", self.folder.path().join("kept"))
            .env_remove("ANTARES_SERVER")
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&text).into_owned())
    }
}

/// A node with a transaction in a block, by its hash, and one that is in no block.
fn chain() -> (TestNode, String, String) {
    let (elf, mut chain) = (exits(0), Chain::new());
    let cycles = 539;
    let last = chain.grow(&elf, 1, cycles).pop().unwrap();
    let code = last.cell_deps().get(0).unwrap().out_point();
    let next = Chain::spend(OutPoint::new(last.hash(), 0), (code, &elf), b"next");
    let bare = serde_json::to_string(&ckb_jsonrpc_types::Transaction::from(next.data())).unwrap();
    (TestNode::start(chain), format!("{:#x}", last.hash()), bare)
}

/// Every page of the docs: its path from the root, and its text.
fn pages() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut folders = vec!["", "docs", "deploy", "helm/antares", "fuzz"];
    let mut pages = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            // What has changed tells of commands that are no more.
            if name.ends_with(".md") && name != "CHANGELOG.md" {
                let path = root.join(folder).join(&name);
                pages.push((format!("{folder}/{name}"), fs::read_to_string(path).unwrap()));
            }
        }
    }
    assert!(pages.len() > 10, "{}", pages.len());
    pages
}

/// Lines of the blocks of `page` for a shell, without remarks.
fn commands(page: &str) -> Vec<String> {
    let (mut found, mut is_inside, mut whole) = (Vec::new(), false, String::new());
    for line in page.lines() {
        if line.starts_with("```") {
            is_inside = line == "```sh";
            continue;
        }
        let line =
            line.split(" # ").next().unwrap_or_default().split("  #").next().unwrap_or_default().trim();
        if !is_inside || line.is_empty() || line.starts_with('#') {
            continue;
        }
        match line.strip_suffix('\\') {
            Some(begun) => whole.push_str(begun),
            None => found.push(std::mem::take(&mut whole) + line),
        }
    }
    found
}

/// The options of each command by the reference page; those of a subcommand are among its command's.
fn reference() -> BTreeMap<String, BTreeSet<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = fs::read_to_string(root.join("docs/reference/command-line.md")).unwrap();
    let mut found = BTreeMap::<_, BTreeSet<_>>::new();
    let mut command = String::new();
    for line in page.lines() {
        if let Some((_, name)) = line.split_once("# `antares ") {
            command = begin(name).trim_end_matches('`').to_owned();
            found.entry(command.clone()).or_default();
        }
        // Rows of common options come before the first command.
        let cells = line.strip_prefix("| ").and_then(|row| row.split(" | ").next());
        if let (Some(options_of), Some(text)) = (found.get_mut(&command), cells.or(common(line))) {
            // The examples have `-o`.
            options_of.extend(options(text).into_iter().filter(|option| option != "--output"));
        }
    }
    found
}

/// A line that names common options.
fn common(line: &str) -> Option<&str> {
    line.starts_with(['`', 'C']).then_some(line).filter(|line| line.contains("`--"))
}

fn options(text: &str) -> BTreeSet<String> {
    let is_part = |letter: char| letter.is_ascii_lowercase() || letter == '-';
    let words = text.split(|letter: char| !is_part(letter) && !letter.is_ascii_digit());
    words.filter(|word| word.starts_with("--") && word.len() > 2).map(str::to_owned).collect()
}

/// The command of an example.
fn begin(example: &str) -> &str {
    example.split_whitespace().next().unwrap_or_default()
}

#[test]
fn every_option_has_an_example() {
    for (command, wanted) in reference() {
        let examples = EXAMPLES.iter().filter(|(_, example)| begin(example) == command);
        let shown: Vec<_> = examples.map(|(_, example)| options(example)).collect();
        assert!(!shown.is_empty(), "`antares {command}` has no example");
        let shown: BTreeSet<_> = shown.into_iter().flatten().collect();
        for option in wanted {
            let is_excused = WITHOUT_EXAMPLE.iter().any(|(name, _)| *name == option);
            assert!(
                is_excused != shown.contains(&option),
                "antares {command} {option}: no example, or an excuse too many"
            );
        }
    }
}

#[test]
fn every_form_does_what_its_status_says() {
    let place = Place::new();
    for (statuses, example) in EXAMPLES {
        let (status, said) = place.run(example);
        assert!(
            status.is_some_and(|status| statuses.contains(&status)),
            "antares {example}: {status:?}\n{said}"
        );
        // What was uploaded or compiled by one command is asked for by the next.
        until("all is written", || place.server.metric("antares_tier_writes_waiting") == 0.0);
    }
    assert_eq!(place.run("admin drain --server SERVER").0, Some(0));
    let mut server = place.server;
    assert_eq!(server.wait(), Some(0));
}

#[test]
fn commands_in_the_docs_run() {
    let (place, mut left_out, mut run) = (Place::new(), BTreeSet::new(), 0);
    assert_eq!(place.run("upload SCRIPT --server SERVER").0, Some(0));
    assert_eq!(place.run("run SCRIPT --server SERVER -- 0").0, Some(0));
    for (page, _) in RUN_ELSEWHERE {
        assert!(pages().iter().any(|(known, _)| known == page), "{page}");
    }
    let is_here = |page: &str| RUN_ELSEWHERE.iter().all(|(other, _)| *other != page);
    for (page, text) in pages().into_iter().filter(|(page, _)| is_here(page)) {
        for command in commands(&text) {
            let excuse = LEFT_OUT.iter().position(|(begin, _)| command.starts_with(begin));
            if let Some(excuse) = excuse {
                left_out.insert(excuse);
                continue;
            }
            let words = command.strip_prefix("target/release/").unwrap_or(&command).strip_prefix("antares ");
            let words = words.unwrap_or_else(|| panic!("{page}: nobody runs `{command}`"));
            let (status, said) = place.run(words);
            assert_eq!(status, Some(0), "{page}: {command}\n{said}");
            run += 1;
            if words.starts_with("rm ") {
                assert_eq!(place.run("upload SCRIPT --server SERVER").0, Some(0));
            }
        }
    }
    assert!(run >= 8, "{run}");
    let unused = (0..LEFT_OUT.len()).filter(|excuse| !left_out.contains(excuse));
    let unused: Vec<_> = unused.map(|excuse| LEFT_OUT[excuse].0).collect();
    assert!(unused.is_empty(), "excuses for commands that are in no page: {unused:?}");
}

#[test]
fn commands_within_sentences_exist() {
    let mut known: BTreeSet<String> = reference().into_keys().collect();
    known.insert("help".to_owned());
    for (page, text) in pages() {
        for command in text.split('`').filter_map(|words| words.strip_prefix("antares ")) {
            let word = command.split_whitespace().next().unwrap_or_default();
            assert!(known.contains(word) || word.starts_with('-'), "{page}: `antares {command}`");
        }
    }
}

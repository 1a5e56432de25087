//! The commands of the docs, run literally: those in shell blocks, and at least one example of every command.
//! The examples use each option of the reference page.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use antares_chain::{Chain, TestNode, exits};
use antares_tests::{
    guests::{self, debugger_examples},
    s3,
};
use ckb_types::packed::OutPoint;
use tempfile::TempDir;

use crate::{
    client::digest,
    server::{Server, antares, ended},
    tiers::is_written,
};

/// Prefixes of documented commands that do not run here, with reasons.
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

/// Pages with dependent commands, and their tests.
const RUN_ELSEWHERE: [(&str, &str); 1] = [("docs/first-cluster.md", "deploy/check/walk.py")];

/// Options without an example here, with reasons.
const WITHOUT_EXAMPLE: [(&str, &str); 5] = [
    ("--tls-ca", "tls.rs and cli.rs of the command line's tests have certificates"),
    ("--tls-cert", "as --tls-ca"),
    ("--tls-key", "as --tls-ca"),
    ("--token-file", "identity.rs has tokens"),
    ("--address-file", "debug.rs of the command line's tests has a client"),
];

/// Expected exit statuses and commands. [`Place::fill`] replaces words in capitals.
const EXAMPLES: &str = include_str!("examples.txt");

fn examples() -> impl Iterator<Item = (Vec<i32>, &'static str)> {
    let rows =
        EXAMPLES.lines().filter(|line| !line.starts_with('#')).map(|line| line.split_once(' ').unwrap());
    rows.map(|(statuses, words)| (statuses.split(',').map(|it| it.parse().unwrap()).collect(), words))
}

/// A folder with all files that the commands name, and a server.
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
        let (digest, transaction) = (digest(&elf), debugger_examples().unwrap().join("mock_tx.json"));
        fs::write(path("bare.json"), bare).unwrap();
        Self { folder, _data: data, server, digest, transaction, node, hash }
    }

    /// The words of `command` with real values for its placeholders.
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
            // Files of the repository.
            word if word.starts_with("examples/") => format!("{}/../{word}", env!("CARGO_MANIFEST_DIR")),
            word => word.to_owned(),
        };
        before.zip(words.iter().copied()).map(fill).collect()
    }

    /// Runs `antares` with the arguments of `command`.
    fn run(&self, command: &str) -> (Option<i32>, String) {
        let mut antares = antares(&[]);
        antares.args(self.fill(command)).current_dir(self.folder.path()).env_remove("ANTARES_CACHE");
        ended(antares.env("XDG_CACHE_HOME", self.folder.path().join("kept")))
    }
}

/// A node with two transactions: one in a block, by its hash, and one in no block.
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
            // The changelog mentions removed commands.
            if name.ends_with(".md") && name != "CHANGELOG.md" {
                let path = root.join(folder).join(&name);
                pages.push((format!("{folder}/{name}"), fs::read_to_string(path).unwrap()));
            }
        }
    }
    assert!(pages.len() > 10, "{}", pages.len());
    pages
}

/// Lines of the shell blocks of `page`, without comments.
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

/// The options of each command on the reference page; a subcommand's count as its command's.
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
        // Rows of common options precede the first command.
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
        let examples = examples().filter(|(_, example)| begin(example) == command);
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
    for (statuses, example) in examples() {
        let (status, said) = place.run(example);
        assert!(
            status.is_some_and(|status| statuses.contains(&status)),
            "antares {example}: {status:?}\n{said}"
        );
        // A command may request what the previous one uploaded or compiled.
        is_written(&place.server);
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

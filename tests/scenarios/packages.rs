//! The packages of clients/: built, installed into separate folders, and used against servers with and
//! without TLS, and several. clients/matrix.py has what silent and restarted ones do.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Output, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
};

use antares_chain::exits;
use antares_pool::worker_path;
use antares_tests::{
    authorities::Authority,
    guests::{self, debugger_examples},
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    client::serving,
    identity::{Issuer, claims},
    server::{PATIENCE, Server, antares, ended, started, until},
    tls::section,
    transaction_table::{Answer, direct, table},
    transactions::with_lock,
};

/// Exit status of make.sh if a tool is not installed.
const MISSING: i32 = 77;

/// An installed client, and a runner for it, with a compiler unknown to the client.
struct Place {
    folder: TempDir,
    data: [TempDir; 2],
    _compiler: Server,
    server: Server,
    files: [(&'static str, PathBuf); 4],
    _authorities: (Authority, Issuer),
}

/// Makes a client in `folder`. `None`, with a message, if a tool is not installed.
fn make(language: &str, folder: &Path) -> Option<()> {
    let make = Path::new(env!("CARGO_MANIFEST_DIR")).join("../clients/make.sh");
    let made = Command::new(make).arg(language).arg(folder).output().unwrap();
    let said = String::from_utf8_lossy(&made.stderr);
    if made.status.code() == Some(MISSING) {
        println!("skipped: {said}");
        return None;
    }
    assert!(made.status.success(), "{said}");
    Some(())
}

impl Place {
    fn new(language: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        make(language, folder.path())?;
        let (ours, issuer) = (Authority::new("ours"), Issuer::new());
        let (pair, shown) = (ours.issue("server", "IP:127.0.0.1"), ours.issue("client", "DNS:client"));
        let tls = section(&pair, &format!("client_ca = {:?}\n", ours.certificate()));
        let data = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let runners = "[[auth.rules]]\ncertificate = \"runner\"\nroles = [\"upload\", \"compile\"]\nany_tenant = true\n";
        let audit = format!("[audit]\ntarget = {:?}\n", data[0].path().join("audit"));
        let sections = format!("{tls}{runners}{audit}");
        let compiler = Server::start_program("antares-compiler-svc", &data[0], &sections);
        let own = ours.issue("runner", "DNS:runner");
        let sections = format!(
            "{tls}{}[[auth.rules]]\ntoken = \"author\"\nroles = [\"upload\", \"execute\"]\ntenant = \"author\"\n\
             [runner]\ncompiler_url = \"https://{}\"\ncompiler_ca = {:?}\ncompiler_certificate = {:?}\ncompiler_key = {:?}\n",
            issuer.section(),
            compiler.address,
            ours.certificate(),
            own.certificate,
            own.key
        );
        let server = Server::start_program("antares-runner-svc", &data[1], &sections);
        let token = folder.path().join("token");
        std::fs::write(&token, issuer.sign(&claims("author", |_| {}))).unwrap();
        let files = [
            ("ANTARES_TLS_CA", ours.certificate()),
            ("ANTARES_TLS_CERT", shown.certificate),
            ("ANTARES_TLS_KEY", shown.key),
            ("ANTARES_TOKEN_FILE", token),
        ];
        Some(Self { folder, data, _compiler: compiler, server, files, _authorities: (ours, issuer) })
    }

    fn request(&self, verb: &str, file: &Path, args: &[&str]) -> Output {
        let mut command = Command::new(self.folder.path().join("client"));
        command.arg(verb).arg(&self.server.address).arg(file).args(args);
        // Only the installed files, and nothing of this repository.
        let files = self.files.clone();
        command.envs(files).current_dir(self.folder.path()).output().unwrap()
    }

    #[track_caller]
    fn answer(&self, verb: &str, file: &Path, args: &[&str]) -> Value {
        let output = self.request(verb, file, args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// Some languages represent 64-bit numbers as text.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// Field names follow the protocol in one language, and its JSON in the others.
fn exit_code(of: &Value) -> Option<&Value> {
    of.get("exitCode").or_else(|| of.get("exit_code"))
}

/// With TLS and a token.
fn answers_come_from_the_server(place: &Place) {
    let examples = debugger_examples().unwrap();
    for (name, cycles) in [("mock_tx", 1_686_515), ("dynamic", 2_808_365)] {
        let answer = place.answer("verify", &examples.join(format!("{name}.json")), &[]);
        let received = (&answer["outcome"], number(&answer["cycles"]));
        assert_eq!(received, (&json!("VERIFY_OUTCOME_OK"), Some(cycles)), "{name}: {answer}");
    }
    let write = |name: &str, text: &str| {
        let path = place.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    // A rejection by a lock is a valid answer.
    let refused = write("refused.json", &with_lock(&exits(7)));
    let answer = place.answer("verify", &refused, &[]);
    assert_eq!(answer["outcome"], json!("VERIFY_OUTCOME_FAILED"));
    let group = &answer["groups"][0];
    assert_eq!(exit_code(group), Some(&json!(7)), "{answer}");
    // An invalid transaction.
    let output = place.request("verify", &write("none.json", "{\"mock_info\": {}, \"tx\": {}}"), &[]);
    assert!(!output.status.success() && output.stdout.is_empty());
    // With its bytes first, then by digest.
    for _ in 0..2 {
        let answer = place.answer("run", &guests::build("fib-imc").unwrap(), &["10"]);
        let verdict = &answer["verdict"];
        assert_eq!((&verdict["outcome"], exit_code(verdict)), (&json!("OUTCOME_EXIT"), Some(&json!(55))));
    }
    // The command uploads, and the runner forwards it in the caller's name.
    let mut command = antares(&["run", "--server", &format!("https://{}", place.server.address)]);
    let (status, said) = ended(command.arg(guests::build("exit-imc").unwrap()).envs(place.files.clone()));
    assert_eq!(status, Some(0), "{said}");
    let is_author_s = |line: &Value| {
        line["call"] == "antares.v1.CompilerService/Upload"
            && (&line["who"], &line["tenant"]) == (&json!("author"), &json!("author"))
            && line["stored_bytes"].as_u64() > Some(0)
    };
    until("the compiler has noted the upload", || {
        let lines = std::fs::read_to_string(place.data[0].path().join("audit")).unwrap();
        lines.lines().filter_map(|line| serde_json::from_str(line).ok()).any(|line| is_author_s(&line))
    });
}

/// A client without TLS that verifies lines.
struct Lines {
    process: Child,
    input: ChildStdin,
    output: Receiver<String>,
}

impl Lines {
    fn new(program: &Path, address: &str) -> Self {
        let mut command = Command::new(program);
        command.args(["verify", address, "-"]).current_dir(program.parent().unwrap());
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let mut lines = BufReader::new(output).lines().map_while(Result::ok);
            lines.all(|line| sender.send(line).is_ok())
        });
        Self { process, input, output: receiver }
    }

    #[track_caller]
    fn answer(&mut self, line: &str) -> Answer {
        writeln!(self.input, "{line}").unwrap();
        let answer: Value = serde_json::from_str(&self.output.recv_timeout(PATIENCE).unwrap()).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let Some(error) = answer.get("error") else {
            // One language omits zeros.
            let cycles = answer.get("cycles").map_or(Some(0), number).unwrap();
            return Answer::Verdict { outcome: text(&answer["outcome"]), cycles };
        };
        let code = error["code"].as_i64().unwrap().try_into().unwrap();
        let fields = error["fields"].as_array().unwrap().iter().map(text).collect();
        Answer::Refused { code, reason: text(&error["reason"]), fields }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn every_json_has_the_answer_of_the_server(program: &Path) {
    let (_data, server, client) = serving("").await;
    let mut lines = Lines::new(program, &server.address);
    for line in table() {
        assert_eq!(lines.answer(&line), direct(&client, &line).await, "{line}");
    }
}

fn servers_take_turns(program: &Path) {
    let [(_one, first), (_two, second)] = [(); 2].map(|()| started(""));
    let mut servers = [first, second];
    let address = format!("ipv4:{},{}", servers[0].address, servers[1].address);
    let mut lines = Lines::new(program, &address);
    let passing = with_lock(&exits(0));
    let mut verify = || assert!(matches!(lines.answer(&passing), Answer::Verdict { .. }));
    let calls = |server: &Server| server.metric("antares_verifications_total{outcome=\"ok\"}");
    // A connection may open after the first calls.
    until("both have calls", || {
        verify();
        servers.iter().all(|server| calls(server) >= 1.0)
    });
    servers[0].kill();
    (0..20).for_each(|_| verify());
}

async fn package(language: &str) {
    let Some(place) = Place::new(language) else { return };
    answers_come_from_the_server(&place);
    let program = place.folder.path().join("client");
    every_json_has_the_answer_of_the_server(&program).await;
    servers_take_turns(&program);
    own_tests(language, &place);
}

/// The package's own tests, on its installation.
fn own_tests(language: &str, place: &Place) {
    let test = Path::new(env!("CARGO_MANIFEST_DIR")).join("../clients/test.sh");
    let (status, text) = ended(Command::new(test).arg(language).arg(place.folder.path()));
    assert_eq!(status, Some(0), "{text}");
}

/// The table of docs/clients.md matches constants of the packages.
#[test]
fn the_page_has_the_values_of_the_packages() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let page = read("docs/clients.md");
    let sources = ["python/src/antares_client/_shared.py", "node/src/index.ts", "go/client.go"]
        .map(|path| read(&format!("clients/{path}")).split_whitespace().collect::<Vec<_>>().join(" "));
    let rows = page.lines().filter(|line| line.starts_with("| ") && line.contains(" = ")).collect::<Vec<_>>();
    assert_eq!(rows.len(), 6);
    for row in rows {
        let cells = row.split('|').skip(2).map(|cell| cell.trim().trim_matches('`'));
        for (cell, source) in cells.zip(&sources) {
            assert!(source.contains(cell), "no package has {cell:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wheel_verifies_transactions() {
    package("python").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_npm_package_verifies_transactions() {
    package("npm").await;
}

/// Go fetches modules from repositories, so this one contains the code generated from the proto files.
#[test]
fn the_go_module_has_the_proto_files_as_they_are() {
    let (folder, clients) =
        (tempfile::tempdir().unwrap(), Path::new(env!("CARGO_MANIFEST_DIR")).join("../clients"));
    let Some(()) = make("go-code", folder.path()) else { return };
    let (made, kept) = (folder.path().join("antaresv1"), clients.join("go/antaresv1"));
    let names = |folder: &Path| {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(names(&made), names(&kept));
    for name in names(&made) {
        let is_same = std::fs::read(made.join(&name)).unwrap() == std::fs::read(kept.join(&name)).unwrap();
        assert!(is_same, "{name:?} is of other proto files: clients/make.sh go-code clients/go");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_go_module_verifies_transactions() {
    package("go").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_crate_verifies_transactions() {
    let program = worker_path("examples/lines").unwrap();
    every_json_has_the_answer_of_the_server(&program).await;
    servers_take_turns(&program);
}

//! `antares serve` as a process: its arguments and life cycle.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, mpsc},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    command::{self, ANTARES, end, json, start},
    elf,
};

/// The smallest script: `li a7, 93; li a0, 0; ecall`, as words after the headers.
const EXIT_0: [u32; 3] = [0x05d0_0893, 0x0000_0513, 0x73];
/// Longest time for a process to start or stop.
const PATIENCE: Duration = Duration::from_secs(60);

fn antares(words: &[&str]) -> Command {
    command::command(Path::new("."), words)
}

pub(crate) fn run(words: &[&str]) -> (Option<i32>, String, String) {
    command::run(&mut antares(words))
}

/// A running server; dropping it kills the process.
pub(crate) struct Server {
    process: Child,
    pub(crate) grpc: String,
    metrics: String,
    log: Arc<Mutex<Vec<String>>>,
    _folder: tempfile::TempDir,
}

impl Server {
    fn start() -> Self {
        Self::start_program("antares", &["serve"], "[admin]\nloopback = true\n")
    }

    /// Starts a program from the folder of `antares`, with a store and free ports.
    #[track_caller]
    pub(crate) fn start_program(name: &str, words: &[&str], sections: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("antares.toml");
        let always = format!(
            "[listen]\naddress = \"127.0.0.1:0\"\n[metrics]\naddress = \"127.0.0.1:0\"\n[log]\nformat = \"json\"\n\
             [cache]\ndir = {:?}\n{sections}",
            folder.path().join("data")
        );
        fs::write(&config, always).unwrap();
        let mut command = Command::new(Path::new(ANTARES).with_file_name(name));
        command.args(words).arg("--config").arg(&config).stdout(Stdio::piped());
        // No object store is reachable.
        command.env("AWS_ENDPOINT_URL", "http://127.0.0.1:1");
        let mut process = command
            .spawn()
            .unwrap_or_else(|error| panic!("{name}: {error}; cargo build --workspace builds it"));
        let log = process.stdout.take().expect("stdout is piped");
        let (found, addresses) = mpsc::channel();
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = lines.clone();
        // Reads to the end, so that the server never blocks on its log.
        thread::spawn(move || {
            for line in BufReader::new(log).lines().map_while(Result::ok) {
                kept.lock().unwrap().push(line.clone());
                if let Some(addresses) = addresses_in(&line) {
                    let _ = found.send(addresses);
                }
            }
        });
        let (grpc, metrics) = addresses.recv_timeout(PATIENCE).expect("the log says where it serves");
        Self { process, grpc, metrics, log: lines, _folder: folder }
    }

    /// Response of the metrics address to `GET path`, including headers.
    pub(crate) fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.metrics).expect("the metrics address answers");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Exit status and report of `antares run --server`.
    fn run(&self, words: &[&str]) -> (Option<i32>, Value) {
        let words = [&["run", "-", "--json", "--server", self.grpc.as_str()], words].concat();
        let (status, stdout, _) = end(start(&mut antares(&words), &elf::of(&EXIT_0)));
        (status, json(&stdout))
    }

    /// Sends SIGTERM and returns the exit status.
    #[track_caller]
    fn stop(mut self) -> Option<i32> {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill starts").success());
        let mut ended = None;
        until("the server stops", || {
            ended = self.process.try_wait().expect("the process can be asked");
            ended.is_some()
        });
        ended.and_then(|status| status.code())
    }
}

/// Waits for a condition, with a deadline.
#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "waited {PATIENCE:?} until {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Addresses of gRPC and metrics, if this log line contains them.
fn addresses_in(line: &str) -> Option<(String, String)> {
    let value: Value = serde_json::from_str(line).ok()?;
    let fields = value.get("fields").unwrap_or(&value);
    Some((fields.get("address")?.as_str()?.to_owned(), fields.get("metrics")?.as_str()?.to_owned()))
}

#[test]
fn a_server_lives_from_start_to_sigterm() {
    let server = Server::start();
    until("healthz says that all serves", || server.get("/healthz").starts_with("HTTP/1.1 200"));
    let (status, first) = server.run(&["--tier", "native"]);
    assert_eq!(
        (status, &first["outcome"], &first["cache"]),
        (Some(0), &"exit".into(), &"miss".into()),
        "{first}"
    );
    let (_, second) = server.run(&["--tier", "native"]);
    assert_eq!((&second["cache"], &second["compile_ms"]), (&"hit".into(), &0.into()), "{second}");
    assert_eq!(first["cycles"], second["cycles"]);
    // The full compile may finish before the second run.
    assert_eq!(first["code_tier"], "baseline");
    assert!(["baseline", "full"].contains(&second["code_tier"].as_str().unwrap()), "{second}");
    let (_, interpreted) = server.run(&["--tier", "interpreter"]);
    assert_eq!((&interpreted["cache"], &interpreted["cycles"]), (&"none".into(), &first["cycles"]));
    // The first log line and a metric identify the build.
    let line: Value = serde_json::from_str(&server.log.lock().unwrap()[0]).unwrap();
    let (facts, page) = (line.get("fields").unwrap_or(&line), server.get("/metrics"));
    let info = page.lines().find(|line| line.starts_with("antares_build_info{")).unwrap();
    for name in ["version", "revision", "engine"] {
        assert!(info.contains(&format!("{name}={}", facts[name])), "{name} of {line} is not in {info}");
    }
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_server_tells_what_it_has_seen() {
    let server = Server::start();
    let (_, report) = server.run(&["--tier", "native"]);
    let url = format!("http://{}", server.grpc);
    let show = |words: &[&str]| {
        let (status, stdout, _) = run(&[&["profile", "--server", &url], words].concat());
        (status, stdout)
    };
    let (status, table) = show(&[]);
    let cycles = format!("{} cycles of all runs", report["cycles"]);
    assert!(status == Some(0) && table.starts_with(&cycles), "{table}");
    // An unknown script, and a window without a run.
    assert_eq!(show(&[&"0".repeat(64)]).0, Some(3));
    assert_eq!(show(&["--max-cycles", "7"]).0, Some(2));
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_wrong_configuration_ends_with_2_and_all_mistakes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("antares.toml");
    fs::write(&path, "[listen]\ncalls_max = 0\n[runner]\nworkers_max = 0\n").unwrap();
    let words = ["serve", "--check-config", "--config", path.to_str().unwrap()];
    let (status, _, stderr) = run(&words);
    assert_eq!(status, Some(2), "{stderr}");
    assert!(stderr.contains("listen.calls_max") && stderr.contains("runner.workers_max"), "{stderr}");
    fs::write(&path, "[listen]\nspeed = \"high\"\n").unwrap();
    let (status, _, stderr) = run(&words);
    assert!(status == Some(2) && stderr.contains("speed"), "{stderr}");
}

/// Output of doctor on a layer, for both kinds of workers, with these configuration sections.
fn doctor(folder: &Path, sections: &str, layer: &str) -> Vec<String> {
    let config = folder.join("doctor.toml");
    fs::write(&config, sections).unwrap();
    let (status, text, stderr) = run(&["doctor", "--config", config.to_str().unwrap()]);
    // Required layers may be missing on this machine.
    assert!(matches!(status, Some(0 | 1)), "{text}{stderr}");
    let of_layer = text.lines().filter(|line| line.split_whitespace().nth(1) == Some(layer));
    of_layer.map(ToOwned::to_owned).collect()
}

#[test]
fn doctor_tries_what_the_configuration_asks_for() {
    let folder = tempfile::tempdir().unwrap();
    let group = folder.path().join("group");
    let asked = format!("[sandbox]\ncgroup = {:?}\n[compiler]\nmemory_bytes_max = 1073741824\n", group);
    let lines = |sections: &str| doctor(folder.path(), sections, "control_group");
    assert!(lines("").iter().all(|line| line.ends_with("not asked for")), "{:?}", lines(""));
    // The group does not exist.
    let [runs, compiles] = &lines(&asked)[..] else { panic!("a line for each kind") };
    for line in [runs, compiles] {
        assert!(line.contains("MISSING") && line.contains(group.to_str().unwrap()), "{line}");
    }
    // Files of this folder accept writes, so it passes for a group.
    fs::create_dir(&group).unwrap();
    fs::write(group.join("cgroup.controllers"), "memory\n").unwrap();
    let [runs, compiles] = &lines(&asked)[..] else { panic!("a line for each kind") };
    assert!(runs.contains("stands") && runs.ends_with("2048 MiB for each worker"), "{runs}");
    assert!(compiles.contains("stands") && compiles.ends_with("1024 MiB for each worker"), "{compiles}");
    // A runner alone has a configuration that is invalid for a combined process.
    assert_eq!(lines("[runner]\ncompiler_url = \"http://compiler:50051\"\n").len(), 2);
    let wrong = folder.path().join("doctor.toml");
    fs::write(&wrong, "[sandbox]\ncgroup = \"relative\"\n").unwrap();
    let (status, _, stderr) = run(&["doctor", "--config", wrong.to_str().unwrap()]);
    assert_eq!(status, Some(2), "{stderr}");
}

#[test]
fn a_server_of_another_kind_is_reported() {
    let compiler = Server::start_program("antares-compiler-svc", &[], "");
    let file = compiler._folder.path().join("script");
    fs::write(&file, elf::of(&EXIT_0)).unwrap();
    let words = ["run", file.to_str().unwrap(), "--server", &compiler.grpc];
    let (status, _, stderr) = run(&words);
    let reported = "is a compiler service alone; this needs the address of a runner service";
    assert!(status == Some(3) && stderr.contains(reported), "{stderr}");
}

#[test]
fn a_server_can_be_asked_about_itself() {
    let server = Server::start();
    until("healthz says that all serves", || server.get("/healthz").starts_with("HTTP/1.1 200"));
    let ask = |words: &[&str]| {
        let (status, stdout, stderr) = command::run(antares(words).env("ANTARES_SERVER", &server.grpc));
        (status, stdout + &stderr)
    };
    let file = server._folder.path().join("script");
    fs::write(&file, elf::of(&EXIT_0)).unwrap();
    let file = file.to_str().unwrap();
    assert_eq!(ask(&["stat", file]).0, Some(1));
    let (status, text) = ask(&["upload", file]);
    assert!(status == Some(0) && text.ends_with("stored\n"), "{text}");
    let (status, text) = ask(&["stat", file]);
    assert!(status == Some(0) && text.contains("stored  132 bytes"), "{text}");
    // The variable selects the server.
    let (status, text) = ask(&["run", file, "--json"]);
    assert!(status == Some(0) && text.contains("\"cache\":\"miss\""), "{text}");
    let (status, text) = ask(&["ls"]);
    let digest = text.lines().nth(1).expect("a script").split(' ').next().expect("its digest");
    assert!(status == Some(0) && digest.len() == 64, "{text}");
    assert_eq!(ask(&["stat", digest]).0, Some(0));
    let (status, text) = ask(&["pin", digest]);
    assert!(status == Some(0) && text.ends_with("pinned\n"), "{text}");
    let (status, text) = ask(&["ls", "--stored"]);
    assert!(status == Some(0) && text.contains(digest) && text.ends_with("pinned, used\n"), "{text}");
    // The full compile follows the baseline's; if it ended later, it would restore removed artifacts.
    until("both artifacts are listed", || {
        let (status, text) = ask(&["ls", "--stored", "--artifacts"]);
        assert_eq!(status, Some(0), "{text}");
        text.lines().count() == 3
    });
    assert_eq!(ask(&["unpin", digest]).0, Some(0));
    let (status, text) = ask(&["rm", digest]);
    assert!(status == Some(0) && text.contains("removed, "), "{text}");
    assert_eq!(ask(&["rm", digest]).0, Some(1));
    assert_eq!(ask(&["stat", digest]).0, Some(1));
    let (status, text) = ask(&["health"]);
    assert!(status == Some(0) && text.lines().count() == 7 && !text.contains("not serving"), "{text}");
    let (status, text) = ask(&["capabilities"]);
    assert!(status == Some(0) && text.contains("llvm") && text.contains("script_bytes_max"), "{text}");
    let (status, text) = ask(&["top", digest]);
    assert!(status == Some(0) && text.contains("function"), "{text}");
    assert_eq!(run(&["ls"]).0, Some(2), "no server is named");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn failed_calls_are_logged_with_their_particulars() {
    let server = Server::start();
    let words = ["profile", &"0".repeat(64), "--server", server.grpc.as_str()];
    assert_eq!(run(&words).0, Some(3));
    // The first call sends the digest, which the server does not have.
    server.run(&[]);
    let line = |reason: &str| {
        let log = server.log.lock().unwrap();
        log.iter().find(|line| line.contains("call done") && line.contains(reason)).cloned()
    };
    until("the log has both", || line("SCRIPT_NOT_FOUND").is_some() && line("PROFILE_NOT_FOUND").is_some());
    let line = line("SCRIPT_NOT_FOUND").unwrap();
    for part in [
        "\"reason\":\"SCRIPT_NOT_FOUND\"",
        "\"execution_id\":\"",
        "\"peer\":\"127.0.0.1\"",
        "\"code\":\"NOT_FOUND\"",
    ] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    assert_eq!(server.stop(), Some(0));
}

//! The environment of a service: the reader of its output, its parent, its children, and failing system
//! calls. Some tests need root for process-id namespaces and limits; without root they print why they are
//! skipped.

use std::{
    fs::{self, File},
    io::{BufRead as _, Read as _},
    path::Path,
    process::Command,
    thread,
};

use antares_pool::worker_path;
use antares_proto::v1::{self, Tier};
use antares_tests::guests;
use tonic::Code;
use tonic_types::StatusExt as _;

use crate::{
    client::{Client, exit_code, inline, is, serving},
    server::{PATIENCE, Server, child_named, children, found, signal, until},
};

/// A refused call, which is logged.
async fn refused(client: &Client) -> tonic::Status {
    let request = v1::CompileRequest { script_sha256: "zz".repeat(32), ..Default::default() };
    client.compiler.clone().compile(request).await.unwrap_err()
}

#[track_caller]
fn runs(answer: Result<v1::ExecuteResponse, tonic::Status>) {
    assert_eq!(exit_code(&answer.unwrap()), Some(5));
}

fn script() -> v1::ExecuteRequest {
    inline(&guests::bytes("exit-imc").unwrap(), &["5"], Tier::Auto)
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("skipped: needs root, for namespaces and limits of other processes");
    }
    is_root
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_of_the_log_that_stalls_stops_nothing() {
    let data = tempfile::tempdir().unwrap();
    // Enough to fill the queue soon.
    let (server, mut log) = Server::start_unread(&[], &data, "filter = \"trace\"\n");
    let client = Client::connect(&server).await;
    let end = tokio::time::Instant::now() + PATIENCE;
    while server.metric("antares_log_lost_total") == 0.0 {
        assert_eq!(refused(&client).await.code(), Code::InvalidArgument);
        assert!(tokio::time::Instant::now() < end, "no line was lost");
    }
    runs(client.execute(script()).await);
    assert!(server.is_live() && server.is_ready());
    // Once read again, the log reports its lost lines in time.
    let mut lines = log.by_ref().lines().map_while(Result::ok);
    let reported = lines.find(|line| line.contains("lines of the log were lost")).unwrap();
    let reported: serde_json::Value = serde_json::from_str(&reported).unwrap();
    assert!(reported["lines"].as_u64() > Some(0), "{reported}");
    // The process ends although its log is unread.
    for _ in 0..200 {
        refused(&client).await;
    }
    assert_eq!(server.stop(), Some(0));
    drop(log);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audit_pipe_is_never_waited_for() {
    let data = tempfile::tempdir().unwrap();
    let pipe = data.path().join("audit");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let target = format!("[audit]\ntarget = {:?}\n", pipe.display().to_string());
    // Without a reader, it starts, reports it, and answers.
    let server = Server::start_with(&data, &target);
    until("the audit log is broken", || server.metric("antares_audit_broken") == 1.0);
    runs(Client::connect(&server).await.execute(script()).await);
    assert_eq!(server.stop(), Some(0));
    // If the operator requires the log, calls are refused until someone reads it.
    let server = Server::start_with(&data, &format!("{target}required = true\n"));
    let client = Client::connect(&server).await;
    let refused = client.execute(script()).await.unwrap_err();
    is(&refused, Code::Unavailable, "AUDIT_UNAVAILABLE");
    let mut reader = File::open(&pipe).unwrap();
    until("the audit log is read", || server.metric("antares_audit_broken") == 0.0);
    runs(client.execute(script()).await);
    let mut line = [0; 1];
    reader.read_exact(&mut line).unwrap();
    // The reader stalls with unread data: the end does not wait for it.
    assert_eq!(server.stop(), Some(0));
}

/// The first process of a namespace, which `unshare` may not end itself; killed on drop.
struct First(u32);

impl First {
    #[track_caller]
    fn of(server: &Server) -> Self {
        Self(children(server.pid())[0])
    }
}

impl Drop for First {
    fn drop(&mut self) {
        signal("-KILL", self.0);
    }
}

/// Processes that have ended and were not waited for.
fn zombies(parent: u32) -> usize {
    let is_zombie = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
    };
    children(parent).iter().filter(|pid| is_zombie(pid)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn as_the_first_process_of_a_container_it_reaps_everybody() {
    if !is_root() {
        return;
    }
    let data = tempfile::tempdir().unwrap();
    let sections = "[tuned]\nzygote_workers_max = 3\n[runner]\nidle_workers_max = 0\n";
    let before = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"];
    let server = Server::start_under(&before, &data, sections);
    let first = First::of(&server);
    let init = first.0;
    let client = Client::connect(&server).await;
    let zygote = || child_named(init, "antares-run-worker");
    for _ in 0..4 {
        // Renewals, and orphaned workers.
        for _ in 0..4 {
            runs(client.execute(script()).await);
        }
        until("there is a zygote", || zygote().is_some());
        let killed = zygote().unwrap();
        signal("-KILL", killed);
        until("it is reaped and replaced", || !children(init).contains(&killed) && server.is_ready());
    }
    // Their owner observed their ends: no other code took a status.
    let count = |name: &str| server.metric(&format!("antares_zygote_{name}_total{{role=\"run\"}}"));
    assert!(count("restarts") >= 1.0 && count("renewals") >= 1.0);
    for _ in 0..10 {
        let orphan = ["-t", &init.to_string(), "-p", "-m", "sh", "-c", "(sleep 0.01 &)"];
        assert!(Command::new("nsenter").args(orphan).status().unwrap().success());
    }
    until("nobody is left unreaped", || zombies(init) == 0);
    runs(client.execute(script()).await);
    assert!(server.is_live());
    // The process that unshare started ends as usual.
    signal("-TERM", init);
    let mut server = server;
    assert_eq!(server.wait(), Some(0));
    // It is gone, and its number may be reused.
    std::mem::forget(first);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_cannot_be_forked_is_reported_and_comes_back() {
    if !is_root() {
        return;
    }
    let (_data, server, client) = serving("[runner]\nidle_workers_max = 0\n").await;
    runs(client.execute(script()).await);
    let zygote = server.zygote("antares-run-worker").unwrap();
    let limits = fs::read_to_string(format!("/proc/{zygote}/limits")).unwrap();
    let before = limits.lines().find_map(|line| line.strip_prefix("Max processes")).unwrap();
    let before = before.split_whitespace().next().unwrap();
    // Setting limits of another user's process requires a capability.
    let limit = |soft: &str| {
        let words = ["--reuid=65534", "--regid=65534", "--clear-groups", "prlimit", "--pid"];
        let more = [zygote.to_string(), format!("--nproc={soft}:")];
        assert!(Command::new("setpriv").args(words).args(more).status().unwrap().success());
    };
    limit("1");
    // A spare worker may still exist.
    let status = found("no worker is made", async || client.execute(script()).await.err()).await;
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert!(status.get_error_details().retry_info().is_some(), "{status:?}");
    assert!(server.metric("antares_workers_not_forked_total{role=\"run\"}") >= 1.0);
    limit(before);
    runs(client.execute(script()).await);
}

#[test]
fn a_proc_that_hides_processes_is_reported() {
    if !is_root() {
        return;
    }
    let data = tempfile::tempdir().unwrap();
    let hide = "mount -o remount,hidepid=2 /proc || exit 7; exec \"$@\"";
    let user = ["setpriv", "--reuid=64123", "--regid=64123", "--clear-groups"];
    let program = worker_path("antares").unwrap();
    let may = Command::new(user[0]).args(&user[1..]).args(["test", "-x"]).arg(&program).status().unwrap();
    if !may.success() {
        return println!("skipped: another user may not execute {}", program.display());
    }
    assert!(Command::new("chown").args(["-R", "64123:64123"]).arg(data.path()).status().unwrap().success());
    let before = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", hide, "sh"];
    let own = "mkdir -p \"$0\" && chown -R 64123:64123 \"$0\" && exec \"$@\"";
    let folder = data.path().display().to_string();
    let before = [&before[..], &["sh", "-c", own, &folder], &user].concat();
    let server = Server::start_under(&before, &data, "");
    let _first = First::of(&server);
    until("it is told that nothing is seen", || {
        server.metric("antares_workers_blind_total{role=\"run\"}") > 0.0
    });
    assert_eq!(server.metric("antares_workers_inspected_total{role=\"run\"}"), 0.0);
}

/// State that a service may inherit: a name, and shell commands before `exec`.
const INHERITED: [(&str, &str); 30] = [
    ("SIGCHLD is ignored", "trap '' CHLD; exec \"$@\""),
    ("SIGHUP is ignored", "trap '' HUP; exec \"$@\""),
    ("SIGTERM is ignored", "trap '' TERM; exec \"$@\""),
    ("SIGINT and SIGQUIT are ignored", "trap '' INT QUIT; exec \"$@\""),
    ("SIGPIPE has its default", "exec env --default-signal=PIPE \"$@\""),
    ("SIGPIPE is ignored", "trap '' PIPE; exec \"$@\""),
    ("SIGALRM, SIGUSR1 and SIGUSR2 are ignored", "trap '' ALRM USR1 USR2; exec \"$@\""),
    ("SIGTERM is blocked", "exec env --block-signal=TERM \"$@\""),
    ("all signals are blocked", "exec env --block-signal \"$@\""),
    ("all signals are ignored", "exec env --ignore-signal \"$@\""),
    ("SIGCHLD is blocked", "exec env --block-signal=CHLD \"$@\""),
    ("standard input is closed", "exec \"$@\" <&-"),
    ("standard error is closed", "exec \"$@\" 2>&-"),
    ("standard error is a full disk", "exec \"$@\" 2>/dev/full"),
    ("descriptors are left open", "exec 3</dev/null 7>/dev/null 9<.; exec \"$@\""),
    ("umask 000", "umask 000; exec \"$@\""),
    ("umask 777", "umask 777; exec \"$@\""),
    ("a soft limit of file sizes", "ulimit -S -f 8; exec \"$@\""),
    ("a soft limit of processor time", "ulimit -S -t 1; exec \"$@\""),
    ("a soft limit of address space", "ulimit -S -v 4000000; exec \"$@\""),
    ("a soft limit of open files", "ulimit -S -n 64; exec \"$@\""),
    ("a soft limit of the stack", "ulimit -S -s unlimited; exec \"$@\""),
    ("the kernel is asked to take it first", "echo 1000 > /proc/self/oom_score_adj; exec \"$@\""),
    ("it is the nicest", "exec nice -n 19 \"$@\""),
    ("a timer goes off", "exec perl -MTime::HiRes=ualarm -e 'ualarm 300_000; exec @ARGV' \"$@\""),
    ("TOKIO_WORKER_THREADS is empty", "TOKIO_WORKER_THREADS= exec \"$@\""),
    ("RUST_MIN_STACK makes no sense", "RUST_MIN_STACK=many exec \"$@\""),
    ("addresses are not random", "exec setarch -R \"$@\""),
    ("memory that can be read can be executed", "exec setarch -X \"$@\""),
    ("its folder is gone", "cd \"$(mktemp -d)\" && rmdir \"$PWD\"; exec \"$@\""),
];

/// SIGHUP never ends it, SIGTERM always does, and a script runs.
#[test]
fn what_it_inherits_changes_nothing() {
    let rows: Vec<_> = INHERITED.iter().collect();
    thread::scope(|scope| {
        // As many at once as start in less time than sequentially.
        for rows in rows.chunks(rows.len().div_ceil(3)) {
            scope.spawn(move || rows.iter().for_each(|(name, words)| settles(name, words)));
        }
    });
}

fn settles(name: &str, words: &str) {
    println!("{name}");
    let data = tempfile::tempdir().unwrap();
    let own = tempfile::tempdir().unwrap();
    let at = own.path().display();
    let sections = format!("[admin]\nsocket = \"{at}/admin.sock\"\n[audit]\ntarget = \"{at}/audit.log\"\n");
    let server = Server::start_under(&["bash", "-c", words, "bash"], &data, &sections);
    signal("-HUP", server.pid());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { runs(Client::connect(&server).await.execute(script()).await) });
    // All files that it created are private: the store, the keys, logs, sockets.
    let find = |folder: &Path, words: &[&str]| {
        let found = Command::new("find").arg(folder).args(["-mindepth", "1"]).args(words).output();
        String::from_utf8(found.unwrap().stdout).unwrap()
    };
    for folder in [Server::store(&data).as_path(), own.path()] {
        assert_eq!(find(folder, &["-perm", "/077"]), "", "{name}");
    }
    assert_eq!(find(own.path(), &["-maxdepth", "1"]).lines().count(), 2, "{name}");
    assert_eq!(server.stop(), Some(0), "{name}");
}

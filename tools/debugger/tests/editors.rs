//! `antares debug` with the debug adapters of editors, without an editor: the test speaks the adapters'
//! protocols, with the launch configurations of docs/debugging.md.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::Path,
    process::{ChildStdin, ChildStdout, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

use antares_guests::{DEBUGGED, debugged, source_folder};
use gdb::{Ends, folder, waiting};
use serde_json::{Value, json};
use tempfile::TempDir;

#[path = "debug/gdb.rs"]
#[allow(dead_code, reason = "no files of commands here")]
mod gdb;

/// Far longer than any test takes.
const PATIENCE: Duration = Duration::from_secs(600);

/// Source folder according to the guest's build.
const BUILT: &str = "/guests/debugged";

/// The number of the line of `debugged.c` with this mark.
fn line(mark: &str) -> u64 {
    let text = fs::read_to_string(source_folder().join(DEBUGGED)).unwrap();
    let found = text.lines().position(|line| line.contains(&format!("/* {mark} */")));
    found.unwrap() as u64 + 1
}

/// The launch configuration of this type in the docs, for a script in `folder` and a debugger at `address`.
fn configuration(kind: &str, folder: &Path, address: &str) -> Value {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/debugging.md");
    let docs = fs::read_to_string(docs).unwrap();
    let mut blocks = docs.split("```json\n").skip(1).filter_map(|rest| rest.split("```").next());
    let block = blocks.find(|block| block.contains(&format!("\"type\": \"{kind}\""))).unwrap();
    let block = block.replace("${workspaceFolder}/lock.elf", "${workspaceFolder}/script.elf");
    let block = block.replace("${workspaceFolder}", folder.to_str().unwrap());
    serde_json::from_str(&block.replace("127.0.0.1:9999", address)).unwrap()
}

/// An adapter's process, and its messages.
struct Adapter<T> {
    child: Ends,
    stdin: ChildStdin,
    heard: Receiver<T>,
    /// Whether to store a message for later.
    is_kept: fn(&T) -> bool,
    kept: Vec<T>,
    log: Vec<String>,
}

impl<T: Send + ToString + 'static> Adapter<T> {
    fn start(
        mut command: Command,
        read: fn(&mut BufReader<ChildStdout>) -> Option<T>,
        is_kept: fn(&T) -> bool,
    ) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (send, heard) = channel();
        thread::spawn(move || {
            let mut stdout = BufReader::new(stdout);
            while let Some(message) = read(&mut stdout) {
                if send.send(message).is_err() {
                    return;
                }
            }
        });
        Self { child: Ends(child), stdin, heard, is_kept, kept: Vec::new(), log: Vec::new() }
    }

    /// The next wanted message.
    #[track_caller]
    fn hear(&mut self, what: &str, is_wanted: impl Fn(&T) -> bool) -> T {
        if let Some(at) = self.kept.iter().position(&is_wanted) {
            return self.kept.remove(at);
        }
        loop {
            let Ok(message) = self.heard.recv_timeout(PATIENCE) else {
                panic!("no {what} in:\n{}", self.log.join("\n"))
            };
            self.log.push(message.to_string());
            if is_wanted(&message) {
                return message;
            }
            if (self.is_kept)(&message) {
                self.kept.push(message);
            }
        }
    }
}

/// A message of the Debug Adapter Protocol.
fn read_message(from: &mut BufReader<ChildStdout>) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        from.read_line(&mut line).ok().filter(|read| *read > 0)?;
        match line.trim_end().split_once(": ") {
            Some(("Content-Length", bytes)) => length = bytes.parse().ok()?,
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}

impl Adapter<Value> {
    /// Sends a request, and returns its number.
    fn send(&mut self, command: &str, arguments: Value) -> u64 {
        let number = self.log.len() as u64 + 1;
        let request = json!({"seq": number, "type": "request", "command": command, "arguments": arguments});
        let body = request.to_string();
        write!(self.stdin, "Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        self.stdin.flush().unwrap();
        self.log.push(format!("> {body}"));
        number
    }

    #[track_caller]
    fn request(&mut self, command: &str, arguments: Value) -> Value {
        let number = self.send(command, arguments);
        let mut answer = self.hear(command, |message| message["request_seq"] == number);
        assert_eq!(answer["success"], true, "{answer}");
        answer["body"].take()
    }

    #[track_caller]
    fn event(&mut self, name: &str) -> Value {
        self.hear(name, |message| message["event"] == name)["body"].take()
    }

    /// Replaces the breakpoints of the file by those at these marks.
    #[track_caller]
    fn break_at(&mut self, folder: &Path, marks: &[&str]) {
        let source = json!({"name": "debugged.c", "path": folder.join("debugged.c")});
        let lines: Vec<_> = marks.iter().map(|mark| json!({"line": line(mark)})).collect();
        let reported = self.request("setBreakpoints", json!({"source": source, "breakpoints": lines}));
        let reported = reported["breakpoints"].as_array().unwrap();
        let are_verified = reported.iter().all(|it| it["verified"] == true);
        assert!(reported.len() == marks.len() && are_verified, "{reported:?}");
    }

    /// Functions and lines of the active calls, and the innermost one's number.
    #[track_caller]
    fn stack(&mut self) -> (Vec<String>, Value) {
        let frames = self.request("stackTrace", json!({"threadId": 1, "startFrame": 0, "levels": 20}));
        let frames = frames["stackFrames"].as_array().unwrap().clone();
        let reported = |frame: &Value| format!("{} {}", frame["name"].as_str().unwrap(), frame["line"]);
        (frames.iter().map(reported).collect(), frames[0]["id"].clone())
    }

    /// Attaches with the docs' configuration. lldb-dap answers after the breakpoints are set.
    fn attach(&mut self, configuration: Value, set: impl FnOnce(&mut Self)) {
        let client = json!({"clientID": "vscode", "adapterID": "lldb-dap", "pathFormat": "path",
                            "linesStartAt1": true, "columnsStartAt1": true});
        self.request("initialize", client);
        let number = self.send("attach", configuration);
        self.event("initialized");
        set(self);
        self.request("configurationDone", json!({}));
        let answer = self.hear("attach", |message| message["request_seq"] == number);
        assert_eq!(answer["success"], true, "{answer}");
    }
}

/// lldb-dap, started like VS Code's extension "LLDB DAP" does.
fn lldb_dap() -> Adapter<Value> {
    // A stop may arrive before the answer to the request that caused it.
    let is_kept =
        |message: &Value| matches!(message["event"].as_str(), Some("stopped" | "exited" | "terminated"));
    Adapter::start(Command::new("lldb-dap-22"), read_message, is_kept)
}

/// The guest's configuration, with its original source folder.
fn of_guest(folder: &TempDir, address: &str) -> Value {
    let folder = folder.path();
    fs::copy(source_folder().join(DEBUGGED), folder.join("debugged.c")).unwrap();
    let mut reported = configuration("lldb-dap", folder, address);
    reported["sourceMap"] = json!([[BUILT, folder]]);
    reported
}

#[test]
fn an_editor_goes_forward_by_lldb_s_adapter() {
    let folder = folder(&debugged("SPOILED").unwrap());
    let (mut server, address) = waiting(&folder, &["script.elf"]);
    let mut adapter = lldb_dap();
    let configuration = of_guest(&folder, &address);
    adapter.attach(configuration, |adapter| adapter.break_at(folder.path(), &["spoils", "checks"]));
    assert_eq!(adapter.event("stopped")["reason"], "breakpoint");
    let (stack, _) = adapter.stack();
    let spoils = line("spoils");
    assert_eq!(stack[0], format!("store {spoils}"));
    assert!(stack[1].starts_with("fill ") && stack[2].starts_with("script "), "{stack:?}");
    adapter.request("next", json!({"threadId": 1}));
    assert_eq!(adapter.event("stopped")["reason"], "step");
    assert_eq!(adapter.stack().0[0], format!("store {}", spoils + 1));
    adapter.break_at(folder.path(), &["checks"]);
    adapter.request("continue", json!({"threadId": 1}));
    assert_eq!(adapter.event("stopped")["reason"], "breakpoint");
    let (stack, frame) = adapter.stack();
    assert_eq!(stack[0], format!("check {}", line("checks")));
    let watched = json!({"expression": "kept.balance", "context": "watch", "frameId": frame});
    assert_eq!(adapter.request("evaluate", watched)["result"], "12");
    adapter.request("stepOut", json!({"threadId": 1}));
    assert_eq!(adapter.event("stopped")["reason"], "step");
    assert!(adapter.stack().0[0].starts_with("script "));
    adapter.request("continue", json!({"threadId": 1}));
    assert_eq!(adapter.event("exited")["exitCode"], 5);
    adapter.event("terminated");
    adapter.request("disconnect", json!({}));
    assert!(server.0.wait().unwrap().success());
}

#[test]
fn an_editor_pauses_a_script() {
    let folder = folder(&debugged("SPINS").unwrap());
    let (_server, address) = waiting(&folder, &["script.elf", "--max-cycles", "1000G", "--", "100000000000"]);
    let mut adapter = lldb_dap();
    let configuration = of_guest(&folder, &address);
    adapter.attach(configuration, |adapter| adapter.break_at(folder.path(), &["calls"]));
    adapter.event("stopped");
    // The answer may arrive before or after the script runs.
    adapter.send("continue", json!({"threadId": 1}));
    adapter.event("continued");
    adapter.request("pause", json!({"threadId": 1}));
    adapter.event("stopped");
    let (stack, _) = adapter.stack();
    assert!(stack[0].starts_with("spin ") && stack[1].starts_with("script "), "{stack:?}");
    adapter.request("disconnect", json!({"terminateDebuggee": false}));
}

/// A line of gdb's machine interface.
fn read_line(from: &mut BufReader<ChildStdout>) -> Option<String> {
    let mut line = String::new();
    from.read_line(&mut line).ok().filter(|read| *read > 0)?;
    Some(line.trim_end().to_owned())
}

impl Adapter<String> {
    /// Sends a command, and returns its result.
    #[track_caller]
    fn command(&mut self, command: &str) -> String {
        let number = 1000 + self.log.len();
        writeln!(self.stdin, "{number}{command}").unwrap();
        self.log.push(format!("> {command}"));
        self.hear(command, |line| line.starts_with(&format!("{number}^")))
    }

    #[track_caller]
    fn done(&mut self, command: &str) -> String {
        let answer = self.command(command);
        let is_done = ["^done", "^running", "^connected"].iter().any(|word| answer.contains(word));
        assert!(is_done, "{command}: {answer}");
        answer
    }

    #[track_caller]
    fn stopped(&mut self) -> String {
        self.hear("stop", |line| line.starts_with("*stopped"))
    }
}

/// The commands that Microsoft's extension sends to gdb for a launch by `miDebuggerServerAddress`, according to
/// its source. The extension itself is not used.
#[test]
fn an_editor_goes_forward_by_gdb_s_machine_interface() {
    let folder = folder(&debugged("SPOILED").unwrap());
    let (mut server, address) = waiting(&folder, &["script.elf"]);
    let reported = configuration("cppdbg", folder.path(), &address);
    let word = |key: &str| reported[key].as_str().unwrap();
    let mut command = Command::new(word("miDebuggerPath"));
    command.arg("--interpreter=mi").stderr(Stdio::null());
    let mut gdb = Adapter::start(command, read_line, |_| false);
    gdb.done("-interpreter-exec console \"set pagination off\"");
    gdb.done("-gdb-set target-async on");
    gdb.done(&format!("-environment-cd {}", word("cwd")));
    gdb.done(&format!("-file-exec-and-symbols {}", word("program")));
    gdb.done("-interpreter-exec console \"show architecture\"");
    // There is no `main`, which the extension tolerates.
    gdb.command("-break-insert main");
    gdb.done(&format!("-target-select remote {}", word("miDebuggerServerAddress")));
    let [spoils, checks] = ["spoils", "checks"].map(line);
    let first = gdb.done(&format!("-break-insert -f {BUILT}/debugged.c:{spoils}"));
    assert!(first.contains("func=\"store\"") && first.contains(&format!("line=\"{spoils}\"")), "{first}");
    gdb.done(&format!("-break-insert -f {BUILT}/debugged.c:{checks}"));
    gdb.done("-exec-continue");
    let stop = gdb.stopped();
    assert!(stop.contains("reason=\"breakpoint-hit\"") && stop.contains("func=\"store\""), "{stop}");
    gdb.done("-break-delete 1");
    gdb.done("-exec-continue");
    let stop = gdb.stopped();
    assert!(stop.contains("func=\"check\""), "{stop}");
    assert!(gdb.done("-data-evaluate-expression \"kept.balance\"").contains("value=\"12\""));
    gdb.done("-exec-next");
    let stop = gdb.stopped();
    assert!(stop.contains("end-stepping-range"), "{stop}");
    // Like `-exec reverse-next` in the debug console.
    gdb.done("-interpreter-exec console \"reverse-next\"");
    let back = gdb.stopped();
    let is_back = back.contains("func=\"check\"") && back.contains(&format!("line=\"{checks}\""));
    assert!(is_back, "{stop}\n{back}");
    gdb.done("-exec-continue");
    let stop = gdb.stopped();
    assert!(stop.contains("reason=\"exited\",exit-code=\"05\""), "{stop}");
    gdb.command("-gdb-exit");
    assert!(server.0.wait().unwrap().success());
    assert!(gdb.child.0.wait().unwrap().success());
}

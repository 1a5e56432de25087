//! `antares debug` and `ckb-debugger --mode gdb`: transactions with several programs, system calls, and fused
//! instructions.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{ChildStdout, Command, Stdio},
};

use antares_guests::{debugged, loaded_library, loading_lock};
use gdb::{Ends, assert_in_order, folder, said, waiting};
use goldens::examples;

#[path = "debug/gdb.rs"]
mod gdb;

#[path = "ckb_debugger/goldens.rs"]
#[allow(dead_code, reason = "ckb_debugger.rs uses all of it")]
mod goldens;

#[test]
fn symbols_follow_exec_forwards_and_backwards() {
    let commands = "break main\ncontinue\nbt 1\ncontinue\nbt 1\nreverse-stepi\nreverse-continue\nbt 1\n\
                    continue\nbt 1\ncontinue\n";
    let text = said(&examples(), &["--tx", "exec.json", "--group", "lock", "--cell", "input.0"], commands);
    let parts = "#0  main () at exec_caller.c:4\n#0  main (argc=3, argv=0x\nat exec_callee.c:4\n\
                 #0  main () at exec_caller.c:4\n#0  main (argc=3, argv=0x\nexited normally";
    assert_in_order(&text, parts);
}

#[test]
fn symbols_are_those_of_the_vm_that_stopped() {
    let commands = "break main\ncontinue\nbt 1\ncontinue\nbt 1\ninfo threads\n\
                    reverse-continue\nbt 1\ncontinue\nbt 1\n";
    let text = said(&examples(), &["--tx", "spawn.json", "--group", "lock", "--cell", "input.0"], commands);
    let parts = "#0  main () at spawn_caller_strcat.c\n#0  main (argc=2, argv=0x\nat spawn_callee_strcat.c\n\
                 VM 1, runs\n#0  main () at spawn_caller_strcat.c\n#0  main (argc=2, argv=0x";
    assert_in_order(&text, parts);
}

/// A lock that loads a library from its second cell dep. The library's functions have names only while it is
/// loaded, forwards and backwards.
#[test]
fn symbols_of_loaded_code_are_found() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("lock"), loading_lock(2).unwrap()).unwrap();
    fs::write(folder.path().join("library"), loaded_library("-O1").unwrap()).unwrap();
    let transaction = include_str!("../../../cli/tests/transaction.json").replace("HASH_TYPE", "data1");
    let dep = r#"{"out_point": {"tx_hash": "0x2222222222222222222222222222222222222222222222222222222222222222", "index": "0x0"}, "dep_type": "code"}"#;
    let other = dep.replace("0x2222", "0x3333");
    let cell = transaction
        .find(
            r#"{
      "cell_dep""#,
        )
        .unwrap();
    let end = transaction.find("}],\n    \"header_deps").unwrap() + 1;
    let library = transaction[cell..end].replace("0x2222", "0x3333").replace("data lock", "data library");
    let transaction = format!("{}, {library}{}", &transaction[..end], &transaction[end..]);
    let last = transaction.rfind(dep).unwrap() + dep.len();
    let transaction = format!("{}, {other}{}", &transaction[..last], &transaction[last..]);
    fs::write(folder.path().join("tx.json"), transaction).unwrap();
    let commands = "set breakpoint pending on\nbreak fold\ncontinue\ninfo symbol $pc\ncontinue\n\
                    reverse-continue\nreverse-continue\ninfo sharedlibrary\ncontinue\ninfo symbol $pc\n\
                    delete\ncontinue\n";
    let text = said(&folder, &["--tx", "tx.json"], commands);
    let parts = "Breakpoint 1 (fold) pending\nBreakpoint 1, \nfold in section\n/loaded-\nBreakpoint 1, \n\
                 Breakpoint 1, \nNo more reverse-execution history\nBreakpoint 1, \nfold in section\n\
                 exited normally";
    assert_in_order(&text, parts);
}

#[test]
fn system_calls_are_caught_by_name_for_a_gdb_that_cannot() {
    let folder = folder(&debugged("WRITTEN").unwrap());
    let commands = "monitor catch load_script 2177\nmonitor catch nonsense\ncontinue\nmonitor call\nstepi\n\
                    monitor call\nreverse-continue\nmonitor call\nmonitor catch none\ncontinue\n";
    let text = said(&folder, &["--as-lock", "script.elf"], commands);
    let parts = "SIGTRAP\nSIGTRAP\nexited normally\nstops before load_script [2052], debug [2177]\n\
                 there is no system call nonsense\nVM 0: load_script [2052](0x\nnone: VM 0 computes\n\
                 VM 0: load_script [2052](0x\nstops before no system call";
    assert_in_order(&text, parts);
}

/// A client that only supports gdb's protocol.
struct Client(TcpStream);

impl Client {
    fn request(&mut self, packet: &str) -> String {
        let sum = packet.bytes().fold(0_u8, u8::wrapping_add);
        write!(self.0, "${packet}#{sum:02x}").unwrap();
        let mut answer = Vec::new();
        let mut byte = [0];
        while !answer.ends_with(b"#") {
            self.0.read_exact(&mut byte).unwrap();
            answer.push(byte[0]);
        }
        self.0.read_exact(&mut [0; 2]).unwrap();
        self.0.write_all(b"+").unwrap();
        let answer = String::from_utf8(answer).unwrap();
        answer.trim_start_matches(['+', '$']).trim_end_matches('#').to_owned()
    }
}

#[test]
fn lldb_goes_forward_and_back_to_a_breakpoint() {
    let folder = folder(&debugged("SPOILED").unwrap());
    let (_server, address) = waiting(&folder, &["script.elf"]);
    let commands = format!(
        "gdb-remote {address}\nbreakpoint set --name fill\nbreakpoint set --name check\nprocess continue\n\
         process continue\nbt 2\nprint kept.balance\nprocess continue --reverse\n\
         watchpoint set expression -- &kept.balance\nprocess continue --forward\nbt 2\nframe variable\n\
         thread step-out\nbreakpoint delete --force\nwatchpoint delete --force\nprocess continue --forward"
    );
    let mut lldb = Command::new("lldb-22");
    lldb.current_dir(folder.path()).args(["--batch", "--no-lldbinit"]).stdin(Stdio::null());
    for command in commands.lines() {
        lldb.args(["-o", command]);
    }
    let output = lldb.arg("script.elf").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let parts = "stop reason = breakpoint 1.1\nfill(count=5)\nstop reason = breakpoint 2.1\n`check at debugged.c\n\
                 frame #1: \n`script(\n(u64) 12\nstop reason = breakpoint 1.1\nWatchpoint created\n\
                 new value: 0x000000000000000c\nstop reason = watchpoint 1\n(u64) at = 4\n\
                 stop reason = step out\nexited with status = 5";
    assert_in_order(&text, parts);
}

/// The requests of newer gdbs for `catch syscall`.
#[test]
fn system_calls_are_caught_by_the_protocol() {
    let folder = folder(&debugged("WRITTEN").unwrap());
    let (_server, address) = waiting(&folder, &["--as-lock", "script.elf"]);
    let mut client = Client(TcpStream::connect(address).unwrap());
    assert!(client.request("qSupported:multiprocess+").contains("QCatchSyscalls+"));
    assert_eq!(client.request("QCatchSyscalls:1;804"), "OK");
    let stop = client.request("vCont;c");
    assert!(stop.starts_with("T05") && stop.contains("syscall_entry:0804;"), "{stop}");
    assert_eq!(client.request("QCatchSyscalls:0"), "OK");
    assert_eq!(client.request("vCont;c"), "W00");
}

/// ckb-vm fuses `lui` and `addiw` of one register. A breakpoint on the second stops before both, unless the
/// first also has one.
#[test]
fn a_breakpoint_inside_of_two_instructions_in_one_stops_before_them() {
    // nop; lui a0, 0x12; addiw a0, a0, 5; li a0, 0; li a7, 93; ecall
    let code: [u32; 6] = [0x13, 0x0001_2537, 0x0055_051b, 0x0000_0513, 0x05d0_0893, 0x0000_0073];
    let folder = folder(&antares_chain::elf(&code));
    let commands = "break *0x10080\ncontinue\nprint $pc\nstepi\nprint $pc\nprint $a0\nreverse-continue\n\
                    print $pc\ncontinue\n";
    let text = said(&folder, &["script.elf"], commands);
    assert_in_order(
        &text,
        "SIGTRAP\n= (void (*)()) 0x1007c\n0x10084\n= 73733\nSIGTRAP\n0x1007c\nexited normally",
    );
}

/// `ckb-debugger --mode gdb`, its output up to the start of listening, and its address.
fn mode_gdb(folder: &Path, words: &[&str]) -> (Ends, BufReader<ChildStdout>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ckb-debugger"));
    command.env("ANTARES_CACHE", "off").current_dir(folder).stdout(Stdio::piped());
    let mut child =
        command.args(["--mode", "gdb", "--gdb-listen", "127.0.0.1:0"]).args(words).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let child = Ends(child);
    let (mut said, mut line) = (String::new(), String::new());
    loop {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "{said}");
        if let Some(address) = line.strip_prefix("Listening for gdb remote connection on ") {
            return (child, lines, said, address.trim().to_owned());
        }
        said += &line;
    }
}

/// gdb without files, as in ckb-debugger's guide.
fn gdb_at(folder: &Path, address: &str, commands: &str) -> String {
    let settings = "set pagination off\nset confirm off\nset width 0\n";
    fs::write(folder.join("commands"), format!("{settings}target remote {address}\n{commands}")).unwrap();
    let mut gdb = Command::new("gdb-multiarch");
    let output = gdb.current_dir(folder).args(["-q", "-batch", "-x", "commands"]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The next lines, each without the peer's address.
fn next_lines(from: &mut BufReader<ChildStdout>, count: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for _ in 0..count {
        let mut line = String::new();
        from.read_line(&mut line).unwrap();
        let line = line.trim_end();
        let line = match line.strip_prefix("Accepted connection from: ") {
            Some(peer) => format!("Accepted, {}", peer.split_once(", ").unwrap().1),
            None => line.to_owned(),
        };
        lines.push(line);
    }
    lines
}

/// Lines from ckb-debugger 1.1.1's source.
#[test]
fn mode_gdb_serves_one_gdb_after_another() {
    let folder = examples();
    let (_program, mut lines, said, address) = mode_gdb(folder.path(), &["--bin", "fib"]);
    let pass = "Run result: 0\nAll cycles: 3364(3.3K)\n";
    let gathered = format!("Pre gather: collect vm creation\n{pass}Pre gather: collect syscalls\n{pass}");
    assert_eq!(said, gathered + "Actual run: start\n");
    let commands = "break fib\ncontinue\nbt 1\nreverse-continue\ncontinue\ndelete\ncontinue\n";
    let text = gdb_at(folder.path(), &address, commands);
    assert_in_order(&text, "Breakpoint 1, fib\nNo more reverse\nBreakpoint 1, fib\nexited normally");
    let ended = ["Run result: 0", "All cycles: 1361(1.3K)"];
    let next = next_lines(&mut lines, 3);
    assert_eq!(next, [&["Accepted, booting VM"], &ended[..]].concat());
    gdb_at(folder.path(), &address, "stepi\ndetach\n");
    let left = ["Accepted, booting VM", "GDB client has disconnected. Running to completion..."];
    assert_eq!(next_lines(&mut lines, 4), [&left[..], &ended[..]].concat());
    gdb_at(folder.path(), &address, "kill\n");
    let killed = ["Accepted, booting VM", "Error: external error: GDB sent a kill command!"];
    assert_eq!(next_lines(&mut lines, 2), killed);
}

#[test]
fn mode_gdb_begins_at_the_vm_that_is_asked_for_and_has_a_script_that_fails() {
    for (words, reported, commands, parts) in [
        (
            &["--tx-file", "spawn.json", "--vm-id", "1"][..],
            "Spawn tree: └── 1",
            "info threads\nbreak main\ncontinue\nbt 1\ncontinue\n",
            "VM 1, runs\n#0  main (argc=2\nspawn_callee_strcat.c\nexited normally",
        ),
        (&["--bin", "out_of_memory"], "Run result: ", "continue\n", "Program received signal"),
    ] {
        let folder = examples();
        let (_program, _lines, said, address) = mode_gdb(folder.path(), words);
        assert!(said.contains(reported), "{said}");
        assert_in_order(&gdb_at(folder.path(), &address, commands), parts);
    }
}

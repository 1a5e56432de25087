//! `antares debug` with gdb-multiarch and gdb scripts: an author's view, forwards and backwards.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    net::TcpStream,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use antares_guests::{DEBUGGED, debugged, failing, source_folder};
use gdb::{antares, assert_in_order, folder, said, waiting};

#[path = "debug/gdb.rs"]
mod gdb;

/// Far longer than any test takes.
const PATIENCE: Duration = Duration::from_secs(600);

/// The number of the line of `debugged.c` with this mark, among those of one case.
fn line(case: &str, mark: &str) -> usize {
    let text = fs::read_to_string(source_folder().join(DEBUGGED)).unwrap();
    let case = format!("CASE_{case})");
    let from = text.lines().position(|line| line.contains(&case)).unwrap();
    let lines: Vec<_> = text.lines().enumerate().collect();
    let marked = |(_, line): &&(usize, &str)| line.contains(&format!("/* {mark} */"));
    let found = lines[from..].iter().find(marked).or_else(|| lines.iter().find(marked));
    found.unwrap().0 + 1
}

#[test]
fn lines_are_stepped_over_forwards_and_backwards() {
    let folder = folder(&debugged("SPINS").unwrap());
    let [before, calls, behind] = ["before", "calls", "behind"].map(|mark| line("SPINS", mark));
    let commands = format!(
        "break {before}\ncontinue\nnext\nmonitor cycles\nnext\nmonitor cycles\nprint spun != 0\nreverse-next\n\
         monitor cycles\nprint spun\nnext\nmonitor cycles\nreverse-step\ninfo symbol $pc\n"
    );
    let text = said(&folder, &["script.elf", "--", "250000"], &commands);
    let lines: Vec<_> = text.lines().collect();
    let cycles: Vec<u64> = lines.iter().filter_map(|line| line.parse().ok()).collect();
    assert_eq!(cycles.len(), 4, "{text}");
    assert!(cycles[1] - cycles[0] > 1_000_000, "the call takes a million instructions: {cycles:?}");
    assert_eq!((cycles[2], cycles[3]), (cycles[0], cycles[1]), "{text}");
    let parts = format!("{calls}\t\n{behind}\t\n$1 = 1\n{calls}\t\n$2 = 0\n{behind}\t\nspin ");
    assert_in_order(&text, &parts);
}

#[test]
fn arguments_and_cycles_reach_the_script_and_its_debugger() {
    let folder = folder(&debugged("SPOILED").unwrap());
    let commands = "break store\ncontinue\nmonitor cycles\nmonitor help\nmonitor nonsense\n\
                    monitor vms\n";
    let text = said(&folder, &["script.elf", "--", "first", "second"], commands);
    let parts = "VM 0: begins\nVM 0: second\nbreak-at-cycles N\nthere is no such command\nVM 0 runs at 0x";
    assert_in_order(&text, parts);
    let commands = "monitor cycles\ncontinue\nmonitor cycles\n";
    let text = said(&folder, &["--break-at-cycles", "1k", "script.elf"], commands);
    let cycles: Vec<u64> = text.lines().filter_map(|line| line.parse().ok()).collect();
    assert!(cycles[0] < 1_000 && (1_000..1_600).contains(&cycles[1]), "{text}");
}

#[test]
fn a_failure_is_stopped_at_and_gone_back_from() {
    let folder = folder(&failing("STORE_INTO_CODE", false).unwrap());
    let commands = "continue\nbt 2\nx/i $pc\nreverse-stepi\ncontinue\ncontinue\n";
    let text = said(&folder, &["script.elf"], commands);
    assert_in_order(&text, "SIGSEGV\nfailing.c\n#0 \n=> 0x\nSIGSEGV\nterminated with signal SIGSEGV");
    // By default, a nonzero exit is the end.
    let folder = self::folder(&debugged("SPOILED").unwrap());
    assert_in_order(&said(&folder, &["script.elf"], "continue\n"), "exited with code 05");
    let commands = "continue\nprint $a0\nprint $a7\nreverse-stepi\ncontinue\ncontinue\n";
    let text = said(&folder, &["--break-on-error", "script.elf"], commands);
    assert_in_order(&text, "SIGABRT\n$1 = 5\n$2 = 93\nSIGABRT\nexited with code 05");
}

#[test]
fn spawned_vms_are_threads() {
    let folder = folder(&debugged("SPAWNS").unwrap());
    let commands = "break child\ncontinue\ninfo threads\nwatch kept.balance\ncontinue\nbt 2\nreverse-continue\n\
                    thread 1\ninfo symbol $pc\nprint kept.balance\nthread 2\nprint kept.balance\ndelete\n\
                    watch word\ncontinue\nprint word\nreverse-continue\nprint word\ncontinue\ncontinue\n";
    let text = said(&folder, &["--as-lock", "script.elf"], commands);
    let parts = "hit Breakpoint 1, child\nVM 1, runs\nOld value = 100\nNew value = 12\nfill (\nNew value = 100\n\
                 Switching to thread 1\nscript + \n$1 = 100\n$2 = 100\nNew value = 12\n$3 = 12\n$4 = 0\n\
                 exited with code 05";
    assert_in_order(&text, parts);
}

#[test]
fn a_transaction_s_script_has_symbols_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("lock"), debugged("WRITTEN").unwrap()).unwrap();
    let transaction = include_str!("../../../cli/tests/transaction.json").replace("HASH_TYPE", "data1");
    fs::write(folder.path().join("tx.json"), &transaction).unwrap();
    let commands = "watch buffer[0]\ncontinue\nprint length\nreverse-continue\nprint buffer[0]\n";
    let parts = "Hardware watchpoint 1: buffer[0]\nNew value\n$1 = \n$2 = 0";
    let named = ["--tx", "tx.json", "--group", "lock", "--cell", "input.0"];
    assert_in_order(&said(&folder, &named, commands), parts);
    // A single group needs no name; several are listed.
    assert_in_order(&said(&folder, &named[..2], commands), parts);
    let lock = r#""type": null},
      "data": "0x", "header""#;
    let both = transaction.replacen(
        lock,
        r#""type": {"code_hash": "0x{{ hash lock }}", "hash_type": "data1", "args": "0x"}},
      "data": "0x", "header""#,
        1,
    );
    fs::write(folder.path().join("tx.json"), both).unwrap();
    let output = antares(folder.path(), &["debug", "--tx", "tx.json"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert_in_order(&errors, "which script?\n--group lock --cell input.0\n--group type --cell input.0");
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn it_ends_with_its_only_client() {
    let folder = folder(&debugged("SPINS").unwrap());
    let (mut server, address) = waiting(&folder, &["script.elf", "--", "100000000000"]);
    let client = TcpStream::connect(&address).unwrap();
    // Other clients are not served.
    wait_for("the door is shut", || TcpStream::connect(&address).is_err().then_some(()));
    drop(client);
    let status = wait_for("it ends", || server.0.try_wait().unwrap());
    assert!(status.success());
}

#[test]
fn a_run_is_interrupted() {
    use std::io::Write as _;
    let folder = folder(&debugged("SPINS").unwrap());
    let (_server, address) = waiting(&folder, &["--max-cycles", "1000G", "script.elf", "--", "100000000000"]);
    let mut client = TcpStream::connect(&address).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.write_all(b"+$vCont;c#a8").unwrap();
    let mut byte = [0];
    client.read_exact(&mut byte).unwrap();
    assert_eq!(byte, *b"+");
    client.write_all(&[3]).unwrap();
    let mut answer = [0; 4];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer, *b"$T02");
}

#[test]
fn what_is_of_no_use_is_refused() {
    let folder = folder(b"no script");
    let refused = |words: &[&str]| {
        let output = antares(folder.path(), &[&["debug"], words].concat()).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (status, errors) = refused(&["script.elf"]);
    assert_eq!(status, Some(2), "{errors}");
    assert!(errors.contains("the script cannot begin"), "{errors}");
    assert_eq!(refused(&["missing.elf"]).0, Some(2));
    assert_eq!(refused(&[]).0, Some(2));
    assert_eq!(refused(&["--gdb", "script.elf"]).0, Some(2));
}

/// Becomes a program that has no Landlock.
const WITHOUT_LANDLOCK: &str = "
import ctypes, os, struct, sys
code = [(0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x50026), (0x06, 0, 0, 0x7FFF0000)]
program = ctypes.create_string_buffer(b''.join(struct.pack('<HBBI', *one) for one in code))
head = struct.pack('<HxxxxxxQ', len(code), ctypes.addressof(program))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, head, 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
";

#[test]
fn without_a_layer_of_the_sandbox_it_takes_an_explicit_yes() {
    let folder = folder(&debugged("SPOILED").unwrap());
    let script = folder.path().join("script.elf");
    let start = |program: &str, words: &[&str], accepted: &str| {
        let mut command = Command::new("python3");
        command.args(["-c", WITHOUT_LANDLOCK, program]).args(words).env("ANTARES_ALLOW_DEGRADED", accepted);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let script = script.to_str().unwrap();
    let (debug, listen) = (env!("CARGO_BIN_EXE_antares-debug"), [script, "--listen", "127.0.0.1:0"]);
    for (program, words, status) in
        [(debug, &listen[..], 3), (env!("CARGO_BIN_EXE_ckb-debugger"), &["--bin", script], 1)]
    {
        let refused = start(program, words, "").wait_with_output().unwrap();
        let said = String::from_utf8(refused.stderr).unwrap();
        let reason = "ANTARES_ALLOW_DEGRADED=landlock ";
        assert!(said.contains("landlock absent") && said.contains(reason), "{said}");
        assert_eq!(refused.status.code(), Some(status), "{said}");
    }
    let mut served = start(debug, &listen, "landlock");
    let mut line = String::new();
    BufReader::new(served.stdout.take().unwrap()).read_line(&mut line).unwrap();
    drop(served.kill());
    drop(served.wait());
    assert!(line.starts_with("waiting for gdb on "), "{line}");
}

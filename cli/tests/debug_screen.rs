//! `antares debug --tui` in tmux, whose screens are kept: what somebody at a terminal sees, forwards and
//! backwards. `BLESS=1` writes the screens.
#![allow(clippy::unwrap_used, reason = "a test")]
#![forbid(unsafe_code)]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
    time::{Duration, Instant},
};

use antares_guests::{DEBUGGED, debugged, source_folder};
use tempfile::TempDir;

/// Far beyond what anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// Columns and rows of the terminal.
const SIZE: [&str; 4] = ["-x", "140", "-y", "46"];
/// What stands at the top while something is under way.
const BUSY: &str = "runs ...";

/// A terminal in which the command runs.
struct Terminal {
    /// tmux's socket is in here.
    folder: TempDir,
}

impl Terminal {
    fn new(words: &str, elf: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("script.elf"), elf).unwrap();
        fs::copy(source_folder().join(DEBUGGED), folder.path().join("debugged.c")).unwrap();
        let terminal = Self { folder };
        let command = format!("{} debug {words}; read -r", env!("CARGO_BIN_EXE_antares"));
        let begin = ["-f", "/dev/null", "new-session", "-d", "-c", terminal.folder.path().to_str().unwrap()];
        let output = terminal.tmux(&[&begin[..], &SIZE, &[&command]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        terminal
    }

    fn tmux(&self, words: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(self.folder.path().join("socket")).args(words);
        command.env("ANTARES_CACHE", "off").env("LC_ALL", "C.UTF-8").output().unwrap()
    }

    /// Presses keys, as tmux names them.
    fn press(&self, keys: &[&str]) {
        assert!(self.tmux(&[&["send-keys"], keys].concat()).status.success());
    }

    /// Types a command.
    fn command(&self, text: &str) {
        assert!(self.tmux(&["send-keys", "-l", &format!(":{text}")]).status.success());
        self.press(&["Enter"]);
    }

    fn text(&self) -> String {
        let output = self.tmux(&["capture-pane", "-p"]);
        let text = String::from_utf8_lossy(&output.stdout);
        text.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
    }

    /// The screen as soon as nothing is under way, and all of these stand on it.
    #[track_caller]
    fn wait(&self, parts: &[&str]) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let text = self.text();
            if !text.contains(BUSY) && parts.iter().all(|part| text.contains(part)) {
                return text;
            }
            assert!(Instant::now() < end, "{parts:?} never stood on:\n{text}");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.tmux(&["kill-server"]);
    }
}

/// Asserts that `terminal` comes to show the kept screen `name`; `screen` may be of a moment in which it is
/// drawn.
#[track_caller]
fn assert_screen(terminal: &Terminal, name: &str, screen: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/screens").join(name);
    if env::var_os("BLESS").is_some() {
        fs::write(path, screen).unwrap();
        return;
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    let (end, mut screen) = (Instant::now() + PATIENCE, screen.to_owned());
    while kept != screen && Instant::now() < end {
        thread::sleep(Duration::from_millis(20));
        screen = terminal.text();
    }
    assert!(kept == screen, "{} is kept as\n{kept}\nand is now\n{screen}", path.display());
}

#[test]
fn a_watch_leads_back_to_who_spoiled_it() {
    let terminal = Terminal::new("script.elf --tui", &debugged("SPOILED").unwrap());
    assert_screen(&terminal, "begin.txt", &terminal.wait(&["begins", "_start"]));
    terminal.command("break check");
    terminal.wait(&["breakpoint at 0x"]);
    terminal.press(&["c"]);
    assert_screen(
        &terminal,
        "check.txt",
        &terminal.wait(&["check at 0x", "VM 0: filled", "| breakpoint at"]),
    );
    terminal.command("memory kept");
    terminal.command("watch kept+32 8");
    terminal.wait(&["watches 8 bytes at"]);
    terminal.press(&["C"]);
    assert_screen(&terminal, "spoils.txt", &terminal.wait(&["is about to be written", "store at 0x"]));
    // Over the write, out of the function that made it, and on again.
    terminal.press(&["i"]);
    terminal.wait(&["was written"]);
    terminal.press(&["f"]);
    terminal.wait(&["fill at 0x"]);
    terminal.press(&["c"]);
    terminal.wait(&["check at 0x", "| breakpoint at"]);
    terminal.press(&["c"]);
    assert_screen(&terminal, "ended.txt", &terminal.wait(&["exited with 5"]));
    terminal.press(&["C"]);
    terminal.wait(&["check at 0x", "| breakpoint at"]);
    terminal.press(&["q"]);
}

#[test]
fn lines_and_calls_are_stepped_over_both_ways() {
    let terminal = Terminal::new("script.elf --tui -- 200000", &debugged("SPINS").unwrap());
    let at = |mark: &str| {
        let text = fs::read_to_string(source_folder().join(DEBUGGED)).unwrap();
        let line = text.lines().position(|line| line.contains(&format!("/* {mark} */"))).unwrap() + 1;
        format!("debugged.c:{line} ")
    };
    terminal.wait(&["begins"]);
    terminal.command(&format!("break {}", at("before").trim()));
    terminal.wait(&["breakpoint"]);
    terminal.press(&["c"]);
    terminal.wait(&[&at("before"), "script at"]);
    terminal.press(&["n"]);
    let calls = terminal.wait(&[&at("calls")]);
    terminal.press(&["n"]);
    terminal.wait(&[&at("behind"), "script at"]);
    terminal.press(&["N"]);
    let again = terminal.wait(&[&at("calls")]);
    let cycles = |screen: &str| screen.split(" | ").nth(1).unwrap().to_owned();
    assert_eq!(cycles(&again), cycles(&calls));
    // Into the function, and out of it.
    terminal.press(&["s"]);
    terminal.wait(&["spin at"]);
    terminal.press(&["F"]);
    let before = terminal.wait(&[&at("calls"), "script at"]);
    terminal.press(&["s"]);
    terminal.wait(&["spin at"]);
    terminal.press(&["f"]);
    terminal.wait(&["script at"]);
    assert!(before.contains("#0 script debugged.c"), "{before}");
    terminal.press(&["I"]);
    terminal.wait(&["spin at"]);
    terminal.command("nonsense");
    terminal.wait(&["break PLACE"]);
    terminal.press(&["q"]);
}

#[test]
fn what_takes_long_is_stopped() {
    let words = "script.elf --tui --max-cycles 1000G -- 100000000000";
    let terminal = Terminal::new(words, &debugged("SPINS").unwrap());
    terminal.wait(&["begins"]);
    for key in ["c", "n"] {
        terminal.press(&[key]);
        let end = Instant::now() + PATIENCE;
        while !terminal.text().contains(BUSY) {
            assert!(Instant::now() < end, "it never ran:\n{}", terminal.text());
            thread::sleep(Duration::from_millis(20));
        }
        terminal.press(&["Escape"]);
        terminal.wait(&["spin at", "| stopped"]);
    }
    terminal.press(&["q"]);
}

#[test]
fn system_calls_and_vms_are_shown() {
    let terminal = Terminal::new("script.elf --as-lock --tui", &debugged("SPAWNS").unwrap());
    terminal.wait(&["begins"]);
    terminal.command("break child");
    terminal.wait(&["breakpoint at 0x"]);
    terminal.press(&["c"]);
    assert_screen(&terminal, "spawned.txt", &terminal.wait(&["VM 1 of 0 1", "child at 0x"]));
    terminal.command("vm 0");
    terminal.wait(&["VM 0 of 0 1"]);
    terminal.command("catch read");
    terminal.press(&["c"]);
    terminal.press(&["c"]);
    terminal.wait(&["exited with 5"]);
    terminal.press(&["C"]);
    assert_screen(&terminal, "read.txt", &terminal.wait(&["| before read"]));
    terminal.press(&["q"]);
}

#[test]
fn a_terminal_is_needed() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("script.elf"), debugged("SPOILED").unwrap()).unwrap();
    let output = debug(folder.path(), &["--tui", "script.elf"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("--tui needs a terminal"), "{errors}");
}

fn debug(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_antares"));
    command.env("ANTARES_CACHE", "off").current_dir(folder).arg("debug").args(words).output().unwrap()
}

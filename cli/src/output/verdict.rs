//! Outcome of a verification: one shape for JSON and for people, with the exit status.

use std::{fmt::Write as _, process::ExitCode};

use antares_pool::job::{self, VerifyOutcome};
use serde::Serialize;

use crate::{
    local::system_calls::{self, RunLocation},
    output::color::{Mood, paint},
    output::printable,
    output::report::{ServerDiagnosis, debug_text, grouped, left_text},
};

/// Outcome of a transaction, or of one of its groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Accepted.
    Ok,
    /// A script rejected it.
    Failed,
    /// The group did not run.
    NotRun,
    /// It exceeded its wall time.
    DeadlineExceeded,
    /// Its worker violated the sandbox policy and was killed.
    SandboxViolation,
    /// Its worker died for another reason.
    WorkerLost,
}

/// Outcome of one script group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Group {
    /// Hash of the script, with `0x`.
    pub script_hash: String,
    /// Lock or type.
    pub kind: job::GroupKind,
    pub outcome: Outcome,
    /// The script's exit code, if it exited.
    pub exit_code: Option<i8>,
    /// With [`Outcome::Failed`].
    pub error: Option<job::GroupError>,
    /// Cycles, up to the failure if there was one.
    pub cycles: u64,
    pub native_cycles: u64,
    pub interpreted_cycles: u64,
    /// Why native code bailed out and the group ran again.
    pub restarted: Option<String>,
    /// Lines of debug output, in order.
    pub debug: Vec<String>,
    /// Omitted debug lines: the first beyond the limit, and all after it.
    pub debug_lines_left_out: u64,
    /// Bytes of the omitted lines, plus one for the end of each.
    pub debug_bytes_left_out: u64,
    /// First input, or else first output, with the script.
    #[serde(skip)]
    pub cell: String,
}

/// A slow program without native code, run by the interpreter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Interpreted {
    /// Digest of its bytes; for code loaded at run time, of its pages and their address.
    pub sha256: String,
    /// Address of the first page of code loaded at run time.
    pub loaded_at: Option<u64>,
    /// Length of its bytes.
    pub size_bytes: u64,
    /// Cycles in the interpreter.
    pub cycles: u64,
    /// Why it had no native code.
    pub why: String,
}

/// Output of `antares verify --json`: these keys, in this order. A contract.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    pub outcome: Outcome,
    /// Cycles of all groups that ran.
    pub cycles: u64,
    /// All groups, in the order in which they run.
    pub groups: Vec<Group>,
    /// Why it was not accepted.
    pub error: Option<String>,
    /// Slow programs without native code, most cycles first.
    pub interpreted: Vec<Interpreted>,
    /// Time to read and check the transaction, and to run its scripts, microseconds.
    #[serde(skip)]
    pub took_us: Option<(u64, u64)>,
    /// The server's diagnosis, if requested and received.
    #[serde(skip)]
    pub reported: Option<ServerDiagnosis>,
}

impl Verdict {
    /// A verdict of a verification without statistics.
    pub fn without_figures(outcome: Outcome, error: String) -> Self {
        let (groups, interpreted) = (Vec::new(), Vec::new());
        Self { outcome, cycles: 0, groups, error: Some(error), interpreted, took_us: None, reported: None }
    }

    /// A worker's answer.
    pub fn of_worker(
        outcome: VerifyOutcome,
        cycles: u64,
        groups: Vec<job::GroupReport>,
        took_us: (u64, u64),
    ) -> Self {
        let groups: Vec<Group> = groups.into_iter().map(Group::of_worker).collect();
        let failed = groups.iter().find_map(|group| group.error.as_ref());
        let error = failed.map(ToString::to_string);
        let outcome = of_worker(outcome);
        let (interpreted, took_us) = (Vec::new(), Some(took_us));
        Self { outcome, cycles, groups, error, interpreted, took_us, reported: None }
    }

    /// 0: accepted. 1: ended otherwise. 3: the worker was lost, so the transaction's outcome is unknown.
    pub fn exit_status(&self) -> ExitCode {
        ExitCode::from(match self.outcome {
            Outcome::Ok => 0,
            Outcome::WorkerLost => 3,
            _ => 1,
        })
    }

    /// Name of the VM error that ended it, if one did.
    pub fn vm_error(&self) -> Option<&str> {
        let error = self.groups.iter().find_map(|group| group.error.as_ref())?;
        error.vm_error.as_deref()
    }

    /// The verdict for people: debug lines and result of each group, then the summary.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for group in &self.groups {
            text += &debug_text(&group.debug, group.debug_lines_left_out, group.debug_bytes_left_out);
            let _ = writeln!(text, "{}", group.to_text());
        }
        self.interpreted.iter().for_each(|program| text += &program.to_text());
        let word = match self.outcome {
            Outcome::Ok => "ok",
            Outcome::DeadlineExceeded => "deadline exceeded; the worker was killed",
            Outcome::SandboxViolation => "violated the sandbox policy; the worker was killed",
            Outcome::WorkerLost => "the worker was lost",
            Outcome::Failed | Outcome::NotRun => "failed",
        };
        let word = paint(word, if self.outcome == Outcome::Ok { Mood::Good } else { Mood::Bad });
        let _ = write!(text, "{word}, {} cycles", grouped(self.cycles));
        if let Some((read_us, run_us)) = self.took_us {
            let _ = write!(text, ", read in {read_us} us, run in {run_us} us");
        }
        text.push('\n');
        if let Some(error) = &self.error {
            let _ = writeln!(text, "  {}", printable(&without_dead_link(error)));
        }
        if let Some(call) = self.error.as_deref().and_then(system_calls::number_in) {
            let _ = writeln!(text, "  {}", system_calls::explain(call, RunLocation::Transaction));
        }
        text
    }
}

impl Interpreted {
    /// Text line of the group.
    fn to_text(&self) -> String {
        let loaded = self.loaded_at.map(|address| format!(", loaded at {address:#x}"));
        format!(
            "interpreted: {} cycles of {}… ({} bytes{}): {}\n",
            grouped(self.cycles),
            self.sha256.get(..16).unwrap_or_default(),
            grouped(self.size_bytes),
            loaded.unwrap_or_default(),
            printable(&self.why)
        )
    }
}

impl Group {
    fn of_worker(group: job::GroupReport) -> Self {
        let cell = match (group.inputs.first(), group.outputs.first()) {
            (Some(input), _) => format!("input.{input}"),
            (None, Some(output)) => format!("output.{output}"),
            (None, None) => String::new(),
        };
        Self {
            script_hash: format!("0x{}", hex::encode(group.script_hash)),
            kind: group.kind,
            outcome: of_worker(group.outcome),
            exit_code: group.exit_code,
            error: group.error,
            cycles: group.cycles,
            native_cycles: group.native_cycles,
            interpreted_cycles: group.interpreted_cycles,
            restarted: group.restarted,
            debug_lines_left_out: group.debug.omitted().lines,
            debug_bytes_left_out: group.debug.omitted().bytes,
            debug: group.debug.into(),
            cell,
        }
    }

    /// One row of the table.
    fn to_text(&self) -> String {
        let ended = match (self.outcome, self.exit_code, &self.error) {
            (Outcome::NotRun, ..) => "not run".to_owned(),
            (_, Some(code), _) => format!("exit {code}"),
            (_, None, Some(error)) => {
                format!("error {}", printable(error.vm_error.as_deref().unwrap_or(&error.kind)))
            }
            (_, None, None) => "ok".to_owned(),
        };
        format!(
            "{} {:<10} {}…  {ended:<28} {:>15} cycles, {} native, {} interpreted{}",
            self.kind.name(),
            self.cell,
            &self.script_hash[..18],
            grouped(self.cycles),
            grouped(self.native_cycles),
            grouped(self.interpreted_cycles),
            left_text(self.restarted.as_deref())
        )
    }
}

/// Scripts with a page on error codes: the system scripts, by type hash.
const PAGES: [&str; 3] = [
    "/by-type-hash/9bd7e06f3ecf4be0f2fcd2188b23f1b9fcc88e5d4b65a8637b17723bbda3cce8.html",
    "/by-type-hash/5c5069eb0857efc65e1bca0c07df34c31663b3622fd3876c876320fc9634e2a8.html",
    "/by-type-hash/82d76d1b75fe2fd9a27dfbaa65a039221a380d76c926f378d3f81cf3e7e13f2e.html",
];

/// ckb-script's message without its link to a page on error codes, which custom scripts do not have.
pub fn without_dead_link(error: &str) -> String {
    let link = error.split_once("see error code ").and_then(|(before, rest)| {
        let (code, rest) = rest.split_once(" on page ")?;
        let (page, after) = rest.split_once(' ')?;
        Some((before, code, page, after))
    });
    match link {
        Some((before, code, page, after)) if !PAGES.iter().any(|known| page.contains(known)) => {
            format!("{before}error code {code} {after}")
        }
        _ => error.to_owned(),
    }
}

fn of_worker(outcome: VerifyOutcome) -> Outcome {
    match outcome {
        VerifyOutcome::Ok => Outcome::Ok,
        VerifyOutcome::Failed => Outcome::Failed,
        VerifyOutcome::NotRun => Outcome::NotRun,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(outcome: VerifyOutcome) -> job::GroupReport {
        let error = job::GroupError {
            kind: "VMInternalError".to_owned(),
            vm_error: Some("ElfBits".to_owned()),
            source: "Inputs[1].Lock".to_owned(),
            detail: "VM Internal Error: ElfBits".to_owned(),
        };
        let left_out = job::Omitted { lines: 3, bytes: 30 };
        job::GroupReport {
            script_hash: [0xab; 32],
            kind: job::GroupKind::Lock,
            outcome,
            exit_code: None,
            error: (outcome == VerifyOutcome::Failed).then_some(error),
            cycles: 1234,
            native_cycles: 1200,
            interpreted_cycles: 34,
            restarted: None,
            debug: job::Lines::from(vec!["\u{1b}[2J".to_owned()]).and_omitted(left_out),
            inputs: vec![1],
            outputs: vec![],
        }
    }

    fn program() -> Interpreted {
        let (sha256, loaded_at, why) = ("ab".repeat(32), Some(0x1000), "new".to_owned());
        Interpreted { sha256, loaded_at, size_bytes: 1200, cycles: 2_345_678, why }
    }

    #[test]
    fn json_is_the_contract_s() {
        let groups = vec![group(VerifyOutcome::Failed), group(VerifyOutcome::NotRun)];
        let interpreted = vec![program()];
        let verdict =
            Verdict { interpreted, ..Verdict::of_worker(VerifyOutcome::Failed, 1234, groups, (1, 2)) };
        let hash = "ab".repeat(32);
        let rest = "\"exit_code\":null,\"error\":";
        let tail = "\"cycles\":1234,\"native_cycles\":1200,\"interpreted_cycles\":34,\"restarted\":null,\"debug\":[\"\\u001b[2J\"],\
                    \"debug_lines_left_out\":3,\"debug_bytes_left_out\":30";
        let expected = format!(
            "{{\"outcome\":\"failed\",\"cycles\":1234,\"groups\":[{{\"script_hash\":\"0x{hash}\",\"kind\":\"lock\",\
             \"outcome\":\"failed\",{rest}{{\"kind\":\"VMInternalError\",\"vm_error\":\"ElfBits\",\"source\":\
             \"Inputs[1].Lock\",\"detail\":\"VM Internal Error: ElfBits\"}},{tail}}},{{\"script_hash\":\"0x{hash}\",\
             \"kind\":\"lock\",\"outcome\":\"not_run\",{rest}null,{tail}}}],\"error\":\"TransactionScriptError {{ \
             source: Inputs[1].Lock, cause: VM Internal Error: ElfBits }}\",\"interpreted\":[{{\"sha256\":\"{hash}\",\"loaded_at\":4096,\"size_bytes\":1200,\
             \"cycles\":2345678,\"why\":\"new\"}}]}}\n"
        );
        assert_eq!(serde_json::to_string(&verdict).unwrap() + "\n", expected);
    }

    #[test]
    fn links_lead_somewhere() {
        let text = |page: &str| {
            format!("X {{ cause: ValidationFailure: see error code 9 on page https://x{page}#9 }}")
        };
        let without = without_dead_link(&text("/by-data-hash/1c.html"));
        assert_eq!(without, "X { cause: ValidationFailure: error code 9 }");
        assert_eq!(without_dead_link(&text(PAGES[0])), text(PAGES[0]));
        assert_eq!(without_dead_link("no link"), "no link");
    }

    #[test]
    fn text_is_harmless() {
        let groups = vec![group(VerifyOutcome::Failed)];
        let program = Interpreted { why: "\u{1b}[2J".to_owned(), ..program() };
        let verdict = Verdict::of_worker(VerifyOutcome::Failed, 1234, groups, (1, 2));
        let text = Verdict { interpreted: vec![program], ..verdict }.to_text();
        let line = "\ninterpreted: 2,345,678 cycles of abababababababab… (1,200 bytes, loaded at 0x1000): \\u001b[2J\n";
        assert!(text.contains(line), "{text}");
        let begin = "| \\u001b[2J\n| … 3 more lines left out (30 bytes)\nlock input.1    0xabababababababab…  error ElfBits ";
        assert!(text.starts_with(begin), "{text}");
        let sum = "failed, 1,234 cycles, read in 1 us, run in 2 us\n  TransactionScriptError";
        assert!(text.contains(sum), "{text}");
    }
}

//! Modes full and probe: runs a script step by step, and observes its VMs, one of them in detail.
//!
//! The original runs everything twice to find the VMs and the results of their system calls, and then runs
//! one VM with these results. Here, one run collects all data and prints the lines of three.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufWriter, Write as _},
    mem,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::mpsc::{Sender, channel},
};

use antares_hosted::job::{
    CallNode, HostAnswer, HostedEnd, HostedJob, HostedNews, StoppedVm, Watch, Watched, WatchedVm,
};
use antares_profile_view::{DebuggerNames, Sources, limits::COVERAGE_LINES_MAX};

use super::{
    Hears,
    fast::status,
    host::Host,
    lines::{self, Cycles, say},
    runner::Request,
    stopped::Ending,
    words::{Mode, Words},
};

/// Width of the tree column before a program's location.
const TREE_COLUMNS: usize = 32;
/// Maximum bytes of debug output to store for printing it three times.
const LOG_BYTES_MAX: usize = 64 << 20;

/// The collected data.
pub(crate) struct Seen {
    pub(crate) end: HostedEnd,
    records: Records,
    /// The observed program.
    elf: Vec<u8>,
}

/// What is recorded during a run.
#[derive(Default)]
struct Records {
    /// Debug output with its VM.
    log: Vec<(u64, String)>,
    calls: Vec<CallNode>,
    reached: Vec<u64>,
}

/// The observations during a run.
struct Observations {
    host: Host,
    records: Records,
    log_bytes: usize,
    steps: Option<BufWriter<File>>,
    /// Path of the step log.
    path: PathBuf,
    /// Receives everything at the end.
    ended: Sender<Seen>,
}

impl Observations {
    fn hear(&mut self, news: HostedNews) -> Result<Option<HostAnswer>, Ending> {
        match news {
            HostedNews::Line { vm, text } => {
                self.log_bytes += text.len();
                if self.log_bytes > LOG_BYTES_MAX {
                    return Err(Ending::Error(format!("more than {LOG_BYTES_MAX} bytes of debug output")));
                }
                self.records.log.push((vm, text));
            }
            HostedNews::Call(call) => return Ok(Some(self.host.answer(call))),
            HostedNews::Watched(Watched::Calls(nodes)) => self.records.calls.extend(nodes),
            HostedNews::Watched(Watched::Reached(addresses)) => self.records.reached.extend(addresses),
            HostedNews::Watched(Watched::Steps(text)) => {
                if let Some(steps) = &mut self.steps {
                    steps.write_all(text.as_bytes()).map_err(Ending::file(&self.path))?;
                }
            }
            HostedNews::Ended(end) => {
                if let Some(steps) = &mut self.steps {
                    steps.flush().map_err(Ending::file(&self.path))?;
                }
                let elf = self.host.watched.take().unwrap_or_default();
                let _ = self.ended.send(Seen { end, records: mem::take(&mut self.records), elf });
            }
            HostedNews::Refused(why) => return Err(Ending::Error(why)),
            _ => {}
        }
        Ok(None)
    }
}

/// Runs the script step by step.
pub(crate) fn run(request: Request<'_>) -> Result<ExitCode, Ending> {
    let (words, cycles_max) = (request.words, request.cycles_max);
    let vm = words.vm().unwrap_or_default();
    let watch = Watch {
        vm,
        calls: words.enable_flamegraph,
        reached: words.enable_coverage,
        steps: words.enable_steplog,
        overlap: words.enable_overlapping_detection,
        cycles_max,
    };
    // The observed VM may stop earlier, by its own cycles; the rest continues.
    let seen = gather(request, u64::MAX, watch)?;
    let Ok((code, _)) = seen.end.result else { return Ok(ExitCode::from(254)) };
    say("Actual run: start");
    let of_vm = seen.records.log.iter().filter(|(of, _)| *of == vm);
    of_vm.for_each(|(_, line)| lines::log(line));
    let watched = seen.end.vms.iter().find(|seen| seen.vm == vm && seen.generation == 0);
    let Some(watched) = watched else {
        return Err(Ending::senseless(format!("there was no VM {vm}")));
    };
    if let Some(stopped) = &seen.end.stopped {
        return Ok(print_stopped(stopped, &seen.elf, words.enable_flamegraph));
    }
    // A replaced program has the exit code of its replacement.
    let last = seen.end.vms.iter().rev().find(|seen| seen.vm == vm);
    let code = last.and_then(|seen| seen.exit_code).unwrap_or(code);
    if words.mode() == Mode::Probe {
        say(format_args!("Run result: Ok({code})"));
        say(format_args!("All cycles: {}", Cycles(watched.cycles)));
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(path) = &words.flamegraph_output {
        write_calls(path, &seen).map_err(Ending::file(path))?;
    }
    if let Some(path) = &words.coverage_output {
        write_coverage(path, &seen, words).map_err(Ending::file(path))?;
    }
    lines::result(code, watched.cycles);
    Ok(ExitCode::from(status(code)))
}

/// Runs the script with at most this many cycles, prints the lines of the first two runs, and returns the
/// collected data.
pub(crate) fn gather(request: Request<'_>, cycles_max: u64, watch: Watch) -> Result<Seen, Ending> {
    say("Pre gather: collect vm creation");
    let Request { words, target, begin, host, .. } = request;
    let job = target.job(words, cycles_max, Some(watch));
    let path = &words.steplog_output;
    let create = || File::create(path).map(BufWriter::new).map_err(Ending::file(path));
    let steps = watch.steps.then(create).transpose()?;
    let (ended, seen) = channel();
    let (records, path) = (Records::default(), path.clone());
    let mut looks = Observations { host, records, log_bytes: 0, steps, path, ended };
    let mut hears: Hears = Box::new(move |news| looks.hear(news));
    begin(HostedJob::Run(Box::new(job)))?.hear(&mut hears, None)?;
    let seen: Seen = seen.try_recv().map_err(|_| Ending::lost())?;
    print_pass(&seen);
    if seen.end.result.is_ok() {
        print_tree(&seen.end.vms);
        say("Pre gather: collect syscalls");
        print_pass(&seen);
    }
    Ok(seen)
}

/// Prints the lines of one complete run.
fn print_pass(seen: &Seen) {
    seen.records.log.iter().for_each(|(_, line)| lines::log(line));
    lines::end(&seen.end.result);
}

/// Prints the tree of programs, if there is more than one.
fn print_tree(vms: &[WatchedVm]) {
    if vms.len() > 1 {
        let mut below: BTreeMap<Option<(u64, u64)>, Vec<&WatchedVm>> = BTreeMap::new();
        vms.iter().for_each(|vm| below.entry(vm.parent).or_default().push(vm));
        print_children(&below, None, "");
    }
}

/// Prints the children of `parent`, each after `stem`, and their descendants.
fn print_children(
    below: &BTreeMap<Option<(u64, u64)>, Vec<&WatchedVm>>,
    parent: Option<(u64, u64)>,
    stem: &str,
) {
    let children = below.get(&parent).map(Vec::as_slice).unwrap_or_default();
    for (index, vm) in children.iter().enumerate() {
        let is_last = index + 1 == children.len();
        let (branch, rest) = match (parent, is_last) {
            (None, _) => ("", ""),
            (_, true) => ("└── ", "    "),
            (_, false) => ("├── ", "│   "),
        };
        let name =
            if vm.generation == 0 { vm.vm.to_string() } else { format!("{}/{}", vm.vm, vm.generation) };
        let place = format!("{}[{}][{}..{}]", list(vm.source), vm.index, vm.offset, vm.offset + vm.length);
        let left = format!("Spawn tree: {stem}{branch}{name}");
        say(format_args!("{left:<TREE_COLUMNS$} {place}"));
        print_children(below, Some((vm.vm, vm.generation)), &format!("{stem}{rest}"));
    }
}

/// ckb's names of the lists of cells.
fn list(source: u64) -> &'static str {
    match source {
        1 => "input",
        2 => "output",
        3 => "cell_dep",
        4 => "header_dep",
        0x0100_0000_0000_0001 => "group_input",
        0x0100_0000_0000_0002 => "group_output",
        _ => "unknown",
    }
}

/// Prints the state of a VM that was stopped before its end.
fn print_stopped(stopped: &StoppedVm, elf: &[u8], has_names: bool) -> ExitCode {
    lines::error(&stopped.error);
    let names = has_names.then(|| DebuggerNames::of(elf));
    for address in &stopped.stack {
        let place = names.as_ref().map(|names| names.detail(*address));
        say(place.unwrap_or_else(|| "??:??:??".to_owned()));
    }
    say("");
    say(&stopped.registers);
    eprintln!("Error: {}", stopped.name);
    ExitCode::FAILURE
}

/// Writes each call on a line, after its callers.
fn write_calls(path: &Path, seen: &Seen) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    let names = DebuggerNames::of(&seen.elf);
    let mut known: BTreeMap<u64, String> = BTreeMap::new();
    let mut stack = String::new();
    let mut ends: Vec<usize> = Vec::new();
    for CallNode { depth, address, cycles } in &seen.records.calls {
        ends.truncate(usize::try_from(*depth).unwrap_or(usize::MAX));
        stack.truncate(ends.last().copied().unwrap_or(0));
        if !stack.is_empty() {
            stack.push_str("; ");
        }
        stack.push_str(known.entry(*address).or_insert_with(|| names.simple(*address)));
        ends.push(stack.len());
        writeln!(file, "{stack} {cycles}")?;
    }
    file.flush()
}

/// Writes the reached lines of existing files as LCOV.
fn write_coverage(path: &Path, seen: &Seen, words: &Words) -> io::Result<()> {
    let sources = Sources::below(std::env::current_dir().into_iter().chain(words.allow_path.iter().cloned()));
    let mut file = BufWriter::new(File::create(path)?);
    let lines = DebuggerNames::of(&seen.elf).lines(seen.records.reached.iter().copied());
    for (name, hit) in lines {
        // LCOV contains full names, so a suffix must not match another file.
        let source = Path::new(&name).exists().then(|| sources.read(&name));
        let Some(source) = source.flatten() else { continue };
        let (mut lines, mut lines_hit) = (0, 0);
        writeln!(file, "SF:{name}")?;
        for (line, _) in (1_u32..).zip(source.lines()).take(COVERAGE_LINES_MAX) {
            let is_hit = hit.contains(&line);
            (lines, lines_hit) = (line, lines_hit + u32::from(is_hit));
            writeln!(file, "DA:{line},{}", u8::from(is_hit))?;
        }
        writeln!(file, "LF:{lines}\nLH:{lines_hit}\nend_of_record")?;
    }
    file.flush()
}

//! `antares fuzz`: runs a script or a transaction with mutated fields in sandboxed processes. Starts them,
//! stores their findings, and distributes new inputs among them.

mod folder;
mod target;

use std::{
    env,
    path::Path,
    process::ExitCode,
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread,
    time::{Duration, Instant},
};

use antares_cli::{
    args::FuzzArgs,
    failure::Failure,
    local::workers::{failed, ours},
    output,
};
use antares_fuzz::job::{FuzzJob, FuzzNews, FuzzProgress, FuzzRequest};
use antares_pool::StandaloneWorker;
use anyhow::{Context as _, anyhow};
use serde::Serialize;
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};

use folder::{Folder, StoredFinding};
use target::Target;

/// Interval of progress messages.
const PROGRESS: Duration = Duration::from_secs(5);
/// Maximum time for processes to end.
const LAST_WORDS: Duration = Duration::from_secs(30);

/// The result. Keys are only added.
#[derive(Debug, Default, Serialize)]
struct FuzzReport {
    runs: u64,
    runs_per_second: u64,
    /// Runs that native code did not complete.
    interpreted_runs: u64,
    accepted: u64,
    /// Reached counters, of the process with the most.
    edges: u64,
    /// Inputs that this session added to the corpus.
    new_inputs: u64,
    cycles: u64,
    seconds: f64,
    findings: Vec<StoredFinding>,
}

/// Runs the command.
pub(crate) fn fuzz(args: &FuzzArgs) -> Result<ExitCode, Failure> {
    let target = Target::of(args)?;
    let folder = Folder::open(&args.output, &target)?;
    let job = target.job(args, folder.seeds()?)?;
    let mut session = Session::start(args, &job, &folder)?;
    session.lead()?;
    let report = session.report();
    let text = match args.json {
        true => serde_json::to_string(&report).unwrap_or_default() + "\n",
        false => summary(&report, &args.output),
    };
    output::print(output::printable(&text).as_bytes())?;
    Ok(if report.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Events from the threads that read from processes.
enum Heard {
    News(FuzzNews),
    /// The process closed its pipe.
    Silence,
    /// The user requested an end, from the Ctrl-C thread; the process index is irrelevant.
    Interrupted,
}

/// The running processes.
struct Session<'a> {
    args: &'a FuzzArgs,
    folder: &'a Folder<'a>,
    processes: Vec<Process>,
    heard: mpsc::Receiver<(usize, Heard)>,
    began: Instant,
    last_reported: Instant,
    new_inputs: u64,
    findings: Vec<StoredFinding>,
    is_stopping: bool,
}

struct Process {
    worker_process: StandaloneWorker,
    progress: FuzzProgress,
    is_over: bool,
}

impl<'a> Session<'a> {
    fn start(args: &'a FuzzArgs, job: &FuzzJob, folder: &'a Folder<'a>) -> Result<Self, Failure> {
        let program = env::current_exe().context("no path of this program").map_err(Failure::Service)?;
        let (sender, heard) = mpsc::channel();
        let interrupted = sender.clone();
        let mut signals =
            Signals::new([SIGINT, SIGTERM]).context("cannot listen to Ctrl-C").map_err(Failure::Service)?;
        thread::spawn(move || {
            signals.forever().for_each(|_| drop(interrupted.send((0, Heard::Interrupted))));
        });
        let jobs = u64::from(args.jobs);
        let mut processes = Vec::new();
        for index in 0..args.jobs {
            let number = u64::from(index);
            let job = FuzzJob {
                seed: args.seed.wrapping_mul(jobs).wrapping_add(number),
                runs_max: args.runs.map(|runs| (runs / jobs + u64::from(number < runs % jobs)).max(1)),
                ..job.clone()
            };
            let worker_process = start_one(&program, &job, usize::from(index), sender.clone())?;
            processes.push(Process { worker_process, progress: FuzzProgress::default(), is_over: false });
        }
        let now = Instant::now();
        Ok(Self {
            args,
            folder,
            processes,
            heard,
            began: now,
            last_reported: now,
            new_inputs: 0,
            findings: Vec::new(),
            is_stopping: false,
        })
    }

    /// Runs until all processes end, the time is over, or the user interrupts. A second Ctrl-C does not wait.
    fn lead(&mut self) -> Result<(), Failure> {
        let mut end = self.args.time.map(|seconds| self.began + Duration::from_secs(seconds));
        while self.processes.iter().any(|process| !process.is_over) {
            let now = Instant::now();
            let next = [end, Some(self.last_reported + PROGRESS)].into_iter().flatten().min();
            let wait = next.map_or(PROGRESS, |next| next.saturating_duration_since(now));
            match self.heard.recv_timeout(wait) {
                Ok((index, Heard::News(news))) => self.hear(index, news)?,
                Ok((_, Heard::Interrupted)) => end = Some(Instant::now()),
                Ok((index, Heard::Silence)) if self.processes[index].is_over => {}
                Ok((_, Heard::Silence)) | Err(RecvTimeoutError::Disconnected) => {
                    return Err(ours("a process that fuzzes was lost"));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            let is_late = end.is_some_and(|end| Instant::now() >= end);
            let has_enough = self.findings.len() >= usize::try_from(self.args.findings).unwrap_or(usize::MAX);
            if is_late && self.is_stopping {
                return Err(ours("processes that fuzz do not end"));
            }
            if (is_late || has_enough) && !self.is_stopping {
                self.is_stopping = true;
                end = Some(Instant::now() + LAST_WORDS);
                // A process that has ended does not receive it.
                self.processes
                    .iter_mut()
                    .for_each(|process| drop(process.worker_process.notify(&FuzzRequest::Stop)));
            }
            self.report_progress();
        }
        Ok(())
    }

    fn hear(&mut self, index: usize, news: FuzzNews) -> Result<(), Failure> {
        match news {
            FuzzNews::Ready(end) if index == 0 => {
                eprintln!("antares: as it is: {}", output::printable(&end));
            }
            FuzzNews::Ready(_) => {}
            FuzzNews::Progress(progress) => self.processes[index].progress = progress,
            FuzzNews::StoredFinding(fields) => {
                if self.folder.keep(&fields)? {
                    self.new_inputs += 1;
                }
                let others = self.processes.iter_mut().enumerate().filter(|(other, _)| *other != index);
                for (_, process) in others.filter(|(_, process)| !process.is_over) {
                    let _ = process.worker_process.notify(&FuzzRequest::Input(fields.clone()));
                }
            }
            FuzzNews::Found(found) => {
                if self.findings.iter().all(|kept| kept.kind != found.kind) {
                    let kept = self.folder.keep_finding(&found)?;
                    eprintln!("antares: {}: {}", kept.kind, output::printable(&kept.file));
                    self.findings.push(kept);
                }
            }
            FuzzNews::Done(progress) => {
                self.processes[index].progress = progress;
                self.processes[index].is_over = true;
            }
            FuzzNews::Refused(why) => return Err(Failure::Usage(anyhow!(why))),
        }
        Ok(())
    }

    fn report(&self) -> FuzzReport {
        let sum = |part: fn(&FuzzProgress) -> u64| -> u64 {
            self.processes.iter().map(|process| part(&process.progress)).sum()
        };
        let seconds = self.began.elapsed().as_secs_f64();
        let runs = sum(|progress| progress.runs);
        FuzzReport {
            runs,
            runs_per_second: per_second(runs, self.began.elapsed()),
            interpreted_runs: sum(|progress| progress.interpreted_runs),
            accepted: sum(|progress| progress.accepted),
            edges: self.processes.iter().map(|process| process.progress.edges).max().unwrap_or(0),
            new_inputs: self.new_inputs,
            cycles: sum(|progress| progress.cycles),
            seconds: (seconds * 1000.0).round() / 1000.0,
            findings: self.findings.clone(),
        }
    }

    fn report_progress(&mut self) {
        if self.last_reported.elapsed() < PROGRESS {
            return;
        }
        self.last_reported = Instant::now();
        let FuzzReport { seconds, runs, runs_per_second, edges, new_inputs, findings, .. } = self.report();
        eprintln!(
            "antares: {seconds:.0} s, {runs} runs ({runs_per_second} a second), {edges} edges, {new_inputs} new inputs, {} findings",
            findings.len(),
        );
    }
}

fn start_one(
    program: &Path,
    job: &FuzzJob,
    index: usize,
    sender: Sender<(usize, Heard)>,
) -> Result<StandaloneWorker, Failure> {
    let silence = sender.clone();
    let hear = move |news: FuzzNews| {
        let is_last = matches!(news, FuzzNews::Done(_) | FuzzNews::Refused(_));
        sender.send((index, Heard::News(news))).is_ok() && !is_last
    };
    let (worker_process, reader) = StandaloneWorker::start(program, job, hear).map_err(failed)?;
    // The reader's result does not matter: there is nothing more to receive.
    thread::spawn(move || {
        let _ = reader.join();
        let _ = silence.send((index, Heard::Silence));
    });
    Ok(worker_process)
}

fn per_second(runs: u64, elapsed: Duration) -> u64 {
    let micros = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX).max(1);
    runs.saturating_mul(1_000_000) / micros
}

fn summary(report: &FuzzReport, out: &Path) -> String {
    let FuzzReport { runs, runs_per_second, accepted, edges, new_inputs, seconds, .. } = report;
    let corpus = out.join(folder::CORPUS);
    let mut text =
        format!("{runs} runs in {seconds:.1} s ({runs_per_second} a second), {accepted} accepted, ");
    text += &format!("{edges} edges, {new_inputs} new inputs in {}\n", corpus.display());
    if report.interpreted_runs > 0 {
        text += &format!("{} of them not to the end in native code\n", report.interpreted_runs);
    }
    for finding in &report.findings {
        text += &format!("{}: {}\n  {}\n", finding.kind, finding.file, finding.what);
    }
    if report.findings.is_empty() {
        text += "no finding\n";
    }
    text
}

//! Programs that are not whole cells (slices for exec or spawn, code from witnesses, code loaded at run time)
//! and that a run found hot. They are compiled in the background, and remembered for their tenant with the
//! transactions that used them.
//!
//! Workers report which bytes are hot. That needs no trust: a library is used only for the bytes that it was
//! compiled from, whoever chose them.

use std::{collections::VecDeque, sync::Arc};

use antares_abi::{CompileOptions, LoadedCode, Seen, Sha256Digest};
use antares_pool::{
    Sealed,
    job::{HOT_BYTES_MAX, HOT_PROGRAMS_MAX, HotProgram},
};
use antares_serve::{Account, Namespace};
use bytes::Bytes;
use parking_lot::Mutex;

use crate::{
    artifacts::{Artifacts, seal::seal},
    limits::{HOT_BYTES_REMEMBERED_MAX, HOT_CELLS_MAX, HOT_QUEUE_MAX, HOT_REMEMBERED_MAX},
    metrics::{HotResult, RunnerMetrics},
    source::{Fallback, Wanted},
    tenant_cache::{Hot, TenantCache},
    verify::programs::FILES_MAX,
};

/// Hot programs of each tenant, and those waiting for a compile.
pub(crate) struct HotPrograms {
    known: TenantCache<ProgramKey, Known>,
    queue: FairQueue<Waiting>,
    artifacts: Arc<Artifacts>,
    metrics: Arc<RunnerMetrics>,
}

type ProgramKey = (Sha256Digest, CompileOptions);

/// State of a hot program.
#[derive(Clone, Debug)]
enum Known {
    /// It has native code.
    Native(Remembered),
    /// It has none, with the reason.
    Failed(Fallback),
}

impl Hot for Known {
    fn bytes(&self) -> u64 {
        match self {
            Self::Native(program) => program.elf.len(),
            Self::Failed(_) => 0,
        }
    }
}

/// A program with native code at the source.
#[derive(Clone, Debug)]
pub(crate) struct Remembered {
    pub(crate) elf: Arc<Sealed>,
    /// The same file, mapped.
    pub(crate) bytes: Bytes,
    pub(crate) options: CompileOptions,
    /// Data hashes of programs in transactions that used it.
    cells: Vec<[u8; 32]>,
}

/// A hot program, for the response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interpreted {
    /// Digest of its bytes; for loaded code, including its address.
    pub(crate) digest: Sha256Digest,
    /// Address where a script loaded it at run time.
    pub(crate) loaded_at: Option<u64>,
    pub(crate) bytes: u64,
    /// Cycles in the interpreter.
    pub(crate) cycles: u64,
    pub(crate) why: Why,
}

/// Why a hot program had no native code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The tenant had not run it before. It is being compiled.
    New,
    /// The compile queue is full.
    QueueFull,
    /// It was known but not included: it came too late, there was no capacity, or it cannot be entered.
    PassedOver,
    /// It was known, and its native code is unavailable.
    Failed(Fallback),
}

impl Why {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::QueueFull => "queue_full",
            Self::PassedOver => "passed_over",
            Self::Failed(fallback) => fallback.into_str(),
        }
    }
}

/// Transaction in which programs were found hot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Met {
    /// Data hashes of the transaction's programs.
    pub(crate) cells: Vec<[u8; 32]>,
    /// Digests of these programs: they are compiled separately.
    pub(crate) digests: Vec<Sha256Digest>,
    /// Programs of the transaction, and remembered ones, without native code, with reasons.
    pub(crate) without: Vec<(Sha256Digest, Fallback)>,
    /// Versions in which its callees may run.
    pub(crate) options: Vec<CompileOptions>,
}

impl Met {
    /// Why a program lacks native code without needing a compile: it is one of the transaction's own, or its
    /// code does not help.
    fn why(&self, digest: Sha256Digest) -> Option<Why> {
        let without = self.without.iter().find_map(|(of, fallback)| (*of == digest).then_some(*fallback));
        let is_settled = without == Some(Fallback::LeavesEarly) || self.digests.contains(&digest);
        is_settled.then(|| without.map_or(Why::PassedOver, Why::Failed))
    }
}

/// A program waiting for its compile.
struct Waiting {
    account: Account,
    bytes: Bytes,
    seen: Seen,
    met: Met,
}

impl HotPrograms {
    pub(crate) fn new(artifacts: &Arc<Artifacts>, metrics: &Arc<RunnerMetrics>) -> Self {
        Self {
            known: TenantCache::new(HOT_BYTES_REMEMBERED_MAX, HOT_REMEMBERED_MAX),
            queue: FairQueue::new(HOT_QUEUE_MAX),
            artifacts: artifacts.clone(),
            metrics: metrics.clone(),
        }
    }

    /// The tenant's hot programs of transactions with one of the programs `cells`.
    pub(crate) fn find(&self, account: &Account, cells: &[[u8; 32]]) -> Vec<Remembered> {
        let is_met = |known: &Known| match known {
            Known::Native(program) => program.cells.iter().any(|cell| cells.contains(cell)),
            Known::Failed(_) => false,
        };
        let found = self.known.find(account.owner(), is_met).into_iter();
        let native = found.filter_map(|(_, known)| match known {
            Known::Native(program) => Some(program),
            Known::Failed(_) => None,
        });
        // Each takes two files.
        native.take(FILES_MAX / 2).collect()
    }

    /// Compiles `programs` in the background if the queue has capacity. Returns their states.
    pub(crate) fn take(
        self: &Arc<Self>,
        account: &Account,
        programs: Vec<HotProgram>,
        met: &Met,
    ) -> Vec<Interpreted> {
        let mut reported = Vec::new();
        for HotProgram { elf, cycles, seen } in programs.into_iter().take(HOT_PROGRAMS_MAX) {
            if elf.len() > HOT_BYTES_MAX {
                continue;
            }
            let digest = Sha256Digest::of(&elf);
            let loaded_at = LoadedCode::read(&elf).map(|code| code.start);
            let size = elf.len() as u64;
            let why = met.why(digest).unwrap_or_else(|| {
                let why = self.why(account.owner(), digest, &met.options);
                let (account, bytes, met) = (account.clone(), elf.into(), met.clone());
                if self.compile_later(Waiting { account, bytes, seen, met }) { why } else { Why::QueueFull }
            });
            reported.push(Interpreted { digest, loaded_at, bytes: size, cycles, why });
        }
        reported
    }

    /// Why the program had no native code in an earlier run in one of these versions.
    fn why(&self, namespace: Namespace, digest: Sha256Digest, options: &[CompileOptions]) -> Why {
        let mut why = Why::PassedOver;
        for options in options {
            match self.known.get(namespace, (digest, *options)) {
                Some(Known::Failed(fallback)) => return Why::Failed(fallback),
                Some(Known::Native(_)) => {}
                None => why = Why::New,
            }
        }
        why
    }

    /// Queues a compile of the program; returns whether it did. Tenants take turns per program.
    fn compile_later(self: &Arc<Self>, waiting: Waiting) -> bool {
        let namespace = waiting.account.owner();
        let pushed = self.queue.push(namespace, waiting);
        if !pushed.is_in {
            self.metrics.record_hot(HotResult::Dropped);
        }
        if pushed.is_idle {
            let programs = self.clone();
            tokio::spawn(async move {
                while let Some(waiting) = programs.queue.next() {
                    // A separate task: a panic loses only one program.
                    let programs = programs.clone();
                    let _ = tokio::spawn(async move { programs.compile(waiting).await }).await;
                }
            });
        }
        pushed.is_in
    }

    async fn compile(&self, Waiting { account, bytes, seen, met }: Waiting) {
        let namespace = account.owner();
        let Ok(elf) = seal("antares-program", bytes.clone()).await else { return };
        let (digest, elf) = (elf.digest(), Arc::new(elf));
        let Ok(mapped) = elf.map() else { return };
        for options in met.options.clone() {
            let key = (digest, options);
            let cells = match self.known.get(namespace, key) {
                Some(Known::Native(known)) if !met.without.contains(&(digest, Fallback::CompileFailed)) => {
                    let program = Remembered { cells: joined(known.cells, &met.cells), ..known };
                    self.known.put(namespace, key, Known::Native(program));
                    continue;
                }
                Some(Known::Native(known)) => joined(known.cells, &met.cells),
                Some(Known::Failed(_)) | None => joined(Vec::new(), &met.cells),
            };
            let wanted = Wanted::best(digest, options, Some(bytes.clone()));
            let known = match self.artifacts.library(&account, wanted, None).await {
                Ok(native) => {
                    // Loaded code does not declare its entry points.
                    if !seen.hints.is_empty() {
                        self.artifacts.learn_seen(&account, &native, seen.clone());
                    }
                    self.metrics.record_hot(HotResult::Compiled);
                    Known::Native(Remembered { elf: elf.clone(), bytes: mapped.clone(), options, cells })
                }
                Err(error) => {
                    tracing::debug!(script = %digest, %error, "a hot program has no native code");
                    self.metrics.record_hot(HotResult::Failed);
                    Known::Failed(error.fallback().unwrap_or(Fallback::CompileFailed))
                }
            };
            self.known.put(namespace, key, known);
        }
    }
}

/// `cells` and `more`, up to the remembered number.
fn joined(mut cells: Vec<[u8; 32]>, more: &[[u8; 32]]) -> Vec<[u8; 32]> {
    let new: Vec<_> = more.iter().filter(|cell| !cells.contains(cell)).copied().collect();
    cells.extend(new);
    cells.drain(..cells.len().saturating_sub(HOT_CELLS_MAX));
    cells
}

// Tenants' background work, in turns. When the queue is full, the tenant with the most work loses some: a
// tenant that adds work without end loses its own.

/// The queue of one worker.
pub(crate) struct FairQueue<T> {
    waiting_max: usize,
    line: Mutex<Line<T>>,
}

struct Line<T> {
    /// In the order of turns; none is empty.
    tenants: VecDeque<(Namespace, VecDeque<T>)>,
    is_worked: bool,
}

/// Result of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pushed {
    /// The work is in the queue.
    pub(crate) is_in: bool,
    /// No worker is active: the caller must work until [`FairQueue::next`] returns nothing.
    pub(crate) is_idle: bool,
}

impl<T> FairQueue<T> {
    pub(crate) fn new(waiting_max: usize) -> Self {
        Self { waiting_max, line: Mutex::new(Line { tenants: VecDeque::new(), is_worked: false }) }
    }

    /// Adds `work`. A full queue drops the latest work of another tenant that has more than this one.
    pub(crate) fn push(&self, namespace: Namespace, work: T) -> Pushed {
        let mut line = self.line.lock();
        let own = line.tenants.iter().find(|(of, _)| *of == namespace).map_or(0, |(_, works)| works.len());
        let all: usize = line.tenants.iter().map(|(_, works)| works.len()).sum();
        if all >= self.waiting_max {
            let most = line.tenants.iter_mut().max_by_key(|(_, works)| works.len());
            match most.filter(|(_, works)| works.len() > own + 1) {
                Some((_, works)) => drop(works.pop_back()),
                None => return Pushed { is_in: false, is_idle: false },
            }
        }
        match line.tenants.iter_mut().find(|(of, _)| *of == namespace) {
            Some((_, works)) => works.push_back(work),
            None => line.tenants.push_back((namespace, VecDeque::from([work]))),
        }
        Pushed { is_in: true, is_idle: !std::mem::replace(&mut line.is_worked, true) }
    }

    /// The next work; none if the queue is empty, and then no worker is active.
    pub(crate) fn next(&self) -> Option<T> {
        let mut line = self.line.lock();
        let next = line.tenants.pop_front().and_then(|(namespace, mut works)| {
            let work = works.pop_front();
            if !works.is_empty() {
                line.tenants.push_back((namespace, works));
            }
            work
        });
        line.is_worked = next.is_some();
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_code_that_does_not_help_is_not_compiled_again() {
        let digest = |number: u8| Sha256Digest::of(&[number]);
        let without = vec![
            (digest(1), Fallback::CompileRefused),
            (digest(3), Fallback::LeavesEarly),
            (digest(4), Fallback::CompileFailed),
        ];
        let met = Met { digests: vec![digest(1), digest(2)], without, ..Met::default() };
        assert_eq!(met.why(digest(1)), Some(Why::Failed(Fallback::CompileRefused)));
        assert_eq!(met.why(digest(2)), Some(Why::PassedOver));
        assert_eq!(met.why(digest(3)), Some(Why::Failed(Fallback::LeavesEarly)));
        // Their code may be available by now.
        assert_eq!((met.why(digest(4)), met.why(digest(5))), (None, None));
    }

    #[test]
    fn few_cells_are_remembered_the_latest() {
        let cells: Vec<_> = (0..=u8::try_from(HOT_CELLS_MAX).unwrap()).map(|number| [number; 32]).collect();
        let first = joined(Vec::new(), &cells[..2]);
        assert_eq!(joined(first.clone(), &cells[1..3]), cells[..3]);
        assert_eq!(joined(first, &cells), cells[1..]);
    }

    #[test]
    fn a_flood_waits_for_itself() {
        let queue = FairQueue::new(4);
        let push = |tenant: u8, work: u32| queue.push([tenant; 32], work);
        assert_eq!(push(1, 0), Pushed { is_in: true, is_idle: true });
        let pushed: Vec<_> = (1..10).map(|work| push(1, work)).collect();
        assert!(pushed.iter().all(|pushed| !pushed.is_idle));
        assert_eq!(pushed.iter().filter(|pushed| pushed.is_in).count(), 3);
        assert!(push(2, 20).is_in && push(2, 21).is_in);
        assert!(!push(2, 22).is_in && !push(1, 10).is_in, "each has half");
        let order: Vec<_> = std::iter::from_fn(|| queue.next()).collect();
        assert_eq!(order, [0, 20, 1, 21]);
        assert!(push(3, 30).is_idle, "somebody has to work again");
    }
}

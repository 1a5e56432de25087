//! Verifies a transaction in a sandboxed child. Libraries are loaded first; the child enters the run stage
//! before it processes hostile bytes.

use std::{
    cell::RefCell, cmp::Reverse, collections::HashMap, mem::MaybeUninit, os::fd::AsFd, rc::Rc, sync::Arc,
    time::Instant,
};

use antares_abi::{Seen, Sha256Digest};
use antares_pool::{
    Files, NativeEnd, cut_text, describe,
    job::{
        self, DEBUG_BYTES_LEAST, DOCUMENT_BYTES_MAX, HOT_BYTES_MAX, HOT_PROGRAMS_MAX, HotProgram, LibraryOf,
        Rules, SharedCell, Tier, TransactionForm, VerifyJob, VerifyReport,
    },
};
use antares_transaction::{Environment, Mock, MockError, SharedData};
use antares_verifier::{
    CallsOf, DataPieceId, Engine, PageSources, Prepared, StopHandle, TierCycles, TransactionLimits,
    TransactionReport, Verifier, VerifyError,
};
use antares_vm::{
    CellLoads, Library, MachineSession, NativeMachine, Program, Recording, Sampling, Unknown, count_unknown,
    limits::UNKNOWN_PROGRAMS_MAX, prepare_thread, reserve_heap, reserve_machines,
};
use bytes::Bytes;

use crate::{DEBUG_HEAP_BYTES, HEAP_PER_DEBUG_BYTE, profile};

/// Heap of a verification, excluding its transaction: thirteen suspended VMs with all their memory, a debug
/// line that fills a VM's memory in the four forms in which an error holds it, ELF headers, tables.
const VERIFY_HEAP_BYTES: usize = 192 << 20;
/// Heap for the values of a JSON document, whatever their length: 524,288 of them, in three forms.
const VALUES_HEAP_BYTES: usize = 96 << 20;
/// Heap bytes per byte of a transaction: the document, its parsed bytes, and parts that ckb-types copies when
/// it assembles them.
const HEAP_PER_TRANSACTION_BYTE: usize = 6;

/// Maximum peak memory of earlier verifications, excluding mapped files, for the worker to be reused. Two
/// machines take less; an idle worker is accounted with this amount.
const WARM_BYTES_MAX: u64 = 32 << 20;

/// Heap for the reported hot programs, their bytes and their frame, and for all code that scripts loaded, in
/// the current group and in earlier ones.
const HOT_HEAP_BYTES: usize = (4 * HOT_PROGRAMS_MAX + 2 * UNKNOWN_PROGRAMS_MAX) * HOT_BYTES_MAX;
/// Minimum cycles of a program worth compiling: some milliseconds of interpretation.
const HOT_CYCLES_MIN: u64 = 1_000_000;

/// Resources of a verification that must be acquired before the run stage. Later verifications of the same
/// tenant can reuse them.
pub(crate) struct Loaded {
    /// The transaction of the only verification, if it is in a file.
    document: Option<Vec<u8>>,
    libraries: Vec<Loadable>,
    /// Cell data by ckb's hash of it.
    cells: HashMap<[u8; 32], Bytes>,
    /// Bytes of mapped files.
    mapped_bytes: u64,
    /// Peak memory of the process before it verified anything.
    base_bytes: u64,
    /// Maximum bytes of debug output that the heap is sized for.
    debug_bytes_max: u64,
    /// Whether the worker can be reused.
    pub(crate) stays: bool,
}

/// A library and, once known, its ELF.
struct Loadable {
    digest: Sha256Digest,
    /// The ELF, if it is not a cell.
    elf: Option<Bytes>,
    code: LibraryOrProgram,
}

enum LibraryOrProgram {
    /// `None` if ckb-vm cannot load its ELF.
    Library(Option<Library>),
    Program(Arc<Program>),
}

/// Reads the files, loads the libraries, reserves memory. The run stage follows.
pub(crate) fn load(job: &VerifyJob, files: &Files) -> Result<Loaded, String> {
    let debug_bytes_max = job.debug_bytes_max.max(DEBUG_BYTES_LEAST);
    reserve(job, debug_bytes_max)?;
    let document = match &*job.document {
        [] => Some(files.elf().map_err(|error| format!("cannot read the transaction: {error}"))?),
        _ => None,
    };
    let length = document.as_ref().map_or(job.document.len(), Vec::len) as u64;
    if length != job.transaction_bytes {
        return Err("the transaction has not the length that the job says".to_owned());
    }
    // The supervisor verified each library's digest and shape after sealing it: these are the same bytes.
    let beside = job.libraries.iter().filter(|of| matches!(of, LibraryOf::Beside)).count();
    let count = job.libraries.len();
    if files.extras().len() != count + beside + job.cells.len() || job.library_digests.len() != count {
        return Err("there are not as many files as the job says".to_owned());
    }
    let map = |index| files.map_extra(index).map_err(|error| format!("cannot map a file: {error}"));
    let (mut libraries, mut beside) = (Vec::new(), count..);
    for ((of, digest), file) in job.libraries.iter().zip(&job.library_digests).zip(files.extras()) {
        let library = Library::load(file.as_fd()).and_then(|library| library.with_frames(file));
        let code = LibraryOrProgram::Library(Some(library.map_err(|error| describe(&error))?));
        let elf = match of {
            LibraryOf::Cell { .. } => None,
            LibraryOf::Beside => beside.next().map(map).transpose()?,
        };
        libraries.push(Loadable { digest: *digest, elf, code });
    }
    let mut cells = HashMap::new();
    for (cell, index) in job.cells.iter().zip(beside) {
        let data = map(index)?;
        if data.len() as u64 != cell.bytes {
            return Err("a cell has not the length that the job says".to_owned());
        }
        cells.insert(cell.data_hash, data);
    }
    let mapped_bytes = files.extras().filter_map(|file| Some(file.metadata().ok()?.len())).sum();
    let base_bytes = peak_bytes().unwrap_or(0);
    Ok(Loaded { document, libraries, cells, mapped_bytes, base_bytes, debug_bytes_max, stays: false })
}

/// Reserves memory for parsing, running and reporting a verification.
fn reserve(job: &VerifyJob, debug_bytes_max: u64) -> Result<(), String> {
    let debug_bytes = usize::try_from(debug_bytes_max).unwrap_or(usize::MAX);
    let document_bytes = usize::try_from(job.transaction_bytes).unwrap_or(usize::MAX);
    let heap = [
        VERIFY_HEAP_BYTES + VALUES_HEAP_BYTES + DEBUG_HEAP_BYTES + HOT_HEAP_BYTES,
        HEAP_PER_DEBUG_BYTE.saturating_mul(debug_bytes.min(antares_pool::REPORT_BYTES_MAX)),
        // The next document may have the maximum length of a job.
        HEAP_PER_TRANSACTION_BYTE.saturating_mul(document_bytes.max(DOCUMENT_BYTES_MAX)),
    ];
    if !reserve_heap(heap.into_iter().fold(0, usize::saturating_add)) {
        return Err("cannot reserve heap".to_owned());
    }
    reserve_machines().map_err(|error| describe(&error))?;
    prepare_thread().map_err(|error| describe(&error))
}

/// Reads the transaction and resolves its cells, or reports why it cannot.
pub(crate) fn prepare(job: &VerifyJob, loaded: &mut Loaded) -> Result<Prepared, Box<VerifyReport>> {
    read_and_prepare(job, loaded).map(|(_, prepared)| prepared)
}

/// Like [`prepare`], and returns the transaction itself.
pub(crate) fn read_and_prepare(
    job: &VerifyJob,
    loaded: &mut Loaded,
) -> Result<(Mock, Prepared), Box<VerifyReport>> {
    let refused = |error: MockError| {
        let path = error.path().map(|path| cut_text(path.to_owned()));
        Box::new(VerifyReport::Refused { path, detail: cut_text(error.to_string()) })
    };
    let shared = |cell: &SharedCell| {
        let data = loaded.cells.get(&cell.data_hash)?.clone();
        Some(SharedData { data, data_hash: cell.data_hash })
    };
    let shared: Vec<_> = job.cells.iter().map_while(shared).collect();
    let file = loaded.document.take();
    let document = file.as_deref().unwrap_or(&job.document);
    let mock = read(job.form, document, &shared).map_err(refused)?;
    drop(file);
    let prepared = Prepared::new(&mock, &environment(job.rules));
    Ok((mock, prepared.map_err(|error| Box::new(self::refused(&error)))?))
}

/// Reads the transaction and runs its scripts.
pub(crate) fn verify(job: &VerifyJob, loaded: &mut Loaded) -> Result<VerifyReport, String> {
    if job.debug_bytes_max > loaded.debug_bytes_max {
        // The supervisor never sends such a job.
        return Err("no memory for so much debug output".to_owned());
    }
    if job.cells.iter().any(|cell| !loaded.cells.contains_key(&cell.data_hash)) {
        // Nor this one.
        return Err("a cell is not there".to_owned());
    }
    loaded.stays = false;
    let start = Instant::now();
    let prepared = match prepare(job, loaded) {
        Ok(prepared) => prepared,
        Err(refused) => return Ok(*refused),
    };
    let programs = loaded.programs(job, &prepared);
    let libraries = programs.clone();
    let read_us = micros(start);
    let unknown = Rc::new(RefCell::new(Vec::new()));
    let samples = Rc::new(RefCell::new(Vec::new()));
    let engine = Native {
        session: session(job, programs.into_iter().map(|(_, program)| program).collect()),
        unknown: unknown.clone(),
        samples: (job.sample_cycles > 0).then(|| samples.clone()),
    };
    let limits = TransactionLimits { cycles_max: job.cycles_max, debug_bytes_max: job.debug_bytes_max };
    let session = engine.session.clone();
    let start = Instant::now();
    let report = match Verifier::new(prepared, limits, engine, StopHandle::default()).verify(job.group) {
        Ok(report) => report,
        Err(error) => return Ok(refused(&error)),
    };
    let hot = if job.tier == Tier::Interpreter { Vec::new() } else { hot(unknown.take()) };
    let run_us = micros(start);
    let samples = profile::samples_of_groups(&report, samples.take()).map(Box::new);
    let found = Found { hot, seen: seen(&session, &libraries), ran: ran(&session, &libraries), samples };
    loaded.stays = !job.is_alone && !job.document.is_empty() && loaded.is_small();
    Ok(to_report(report, found, read_us, run_us))
}

impl Loaded {
    /// The programs of the job's libraries, by library number. A library is skipped if its cell is missing or
    /// is not an ELF that ckb-vm loads.
    fn programs(&mut self, job: &VerifyJob, prepared: &Prepared) -> Vec<(u32, Arc<Program>)> {
        let mut programs = Vec::new();
        for ((of, digest), number) in job.libraries.iter().zip(&job.library_digests).zip(0..) {
            let loadable = self.libraries.iter_mut().find(|loadable| loadable.digest == *digest);
            let Some(Loadable { elf, code, .. }) = loadable else { continue };
            if let LibraryOrProgram::Library(library) = code {
                let elf = match of {
                    LibraryOf::Cell { data_hash } => {
                        self.cells.get(data_hash).cloned().or_else(|| prepared.find_data(data_hash))
                    }
                    LibraryOf::Beside => elf.clone(),
                };
                let Some(elf) = elf else { continue };
                let program = library.take().and_then(|library| Program::new(elf, library).ok());
                let Some(program) = program else { continue };
                *code = LibraryOrProgram::Program(Arc::new(program));
            }
            if let LibraryOrProgram::Program(program) = code {
                programs.push((number, program.clone()));
            }
        }
        programs
    }

    /// Whether the process's peak memory is small enough to keep the process for reuse.
    fn is_small(&self) -> bool {
        let beside = self.base_bytes.saturating_add(self.mapped_bytes);
        peak_bytes().is_some_and(|peak| peak.saturating_sub(beside) <= WARM_BYTES_MAX)
    }
}

/// Peak memory of this process. `None` if the query fails.
fn peak_bytes() -> Option<u64> {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel fills the structure, which consists of plain numbers.
    let usage = unsafe {
        if libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) != 0 {
            return None;
        }
        usage.assume_init()
    };
    u64::try_from(usage.ru_maxrss).ok().map(|kibibytes| kibibytes << 10)
}

/// By-products of a verification.
#[derive(Default)]
pub(crate) struct Found {
    hot: Vec<HotProgram>,
    seen: Vec<(u32, Seen)>,
    ran: Vec<(u32, NativeEnd)>,
    samples: Option<Box<job::Samples>>,
}

/// Jump targets of `programs` that their native code does not know, by library number.
fn seen(session: &MachineSession, programs: &[(u32, Arc<Program>)]) -> Vec<(u32, Seen)> {
    let seen = session.take_seen().into_iter();
    seen.filter_map(|(program, seen)| Some((number(&program, programs)?, seen))).collect()
}

/// Which of `programs` completed natively, and which bailed out although their script continued.
fn ran(session: &MachineSession, programs: &[(u32, Arc<Program>)]) -> Vec<(u32, NativeEnd)> {
    let ran = session.take_ran().into_iter();
    let end = |is_whole| if is_whole { NativeEnd::Whole } else { NativeEnd::Left };
    ran.filter_map(|(program, is_whole)| Some((number(&program, programs)?, end(is_whole)))).collect()
}

/// The library number of a program.
fn number(of: &Arc<Program>, programs: &[(u32, Arc<Program>)]) -> Option<u32> {
    programs.iter().find_map(|(number, program)| Arc::ptr_eq(program, of).then_some(*number))
}

fn session(job: &VerifyJob, programs: Vec<Arc<Program>>) -> Arc<MachineSession> {
    let session = MachineSession::new(job.tier, programs);
    match job.sample_cycles {
        0 => session,
        period => session.sampled(Sampling { period, seed: profile::seed(&[], job.sample_salt) }),
    }
}

/// The hottest programs without native code.
fn hot(mut unknown: Vec<Unknown>) -> Vec<HotProgram> {
    unknown.retain(|one| one.cycles > HOT_CYCLES_MIN && one.elf.len() <= HOT_BYTES_MAX);
    unknown.sort_by_key(|one| Reverse(one.cycles));
    unknown.truncate(HOT_PROGRAMS_MAX);
    let hot = |Unknown { elf, cycles, seen }| HotProgram { elf: elf.to_vec(), cycles, seen };
    unknown.into_iter().map(hot).collect()
}

/// An engine on the machine of antares-vm.
struct Native {
    session: Arc<MachineSession>,
    /// Programs without native code, with their total cycles in all groups.
    unknown: Rc<RefCell<Vec<Unknown>>>,
    /// Samples by group, if requested.
    samples: Option<Rc<RefCell<Vec<Recording>>>>,
}

impl Engine for Native {
    type Machine = NativeMachine;

    fn cell_loads(sources: PageSources, dep: fn(u32) -> DataPieceId) -> Option<CallsOf<Self>> {
        Some(Box::new(CellLoads::new(sources, dep)))
    }

    fn attempt<T>(&self, attempt: impl FnMut() -> T) -> T {
        self.session.attempt(attempt)
    }

    fn take_counts(&self) -> Option<TierCycles> {
        if let Some(samples) = &self.samples {
            samples.borrow_mut().extend(self.session.take_samples(0));
        }
        let counts = self.session.take_counts();
        let mut unknown = self.unknown.borrow_mut();
        counts.unknown.into_iter().for_each(|one| count_unknown(&mut unknown, one));
        let (native_cycles, interpreted_cycles) = (counts.native_cycles, counts.interpreted_cycles);
        let restarted = counts.restarted.map(|reason| reason.name());
        Some(TierCycles { native_cycles, interpreted_cycles, restarted })
    }
}

fn read(form: TransactionForm, document: &[u8], shared: &[SharedData]) -> Result<Mock, MockError> {
    match form {
        TransactionForm::Json => Mock::from_json(document),
        TransactionForm::Molecule => Mock::from_document(document, shared),
    }
}

pub(crate) fn environment(rules: Rules) -> Environment {
    let Rules { vm_1_epoch, vm_2_epoch, epoch } = rules;
    Environment { vm_1_epoch, vm_2_epoch, epoch }
}

pub(crate) fn refused(error: &VerifyError) -> VerifyReport {
    let path = match error {
        VerifyError::NoSuchGroup { .. } => Some("group".to_owned()),
        VerifyError::Resolve(_) | VerifyError::Cancelled => None,
    };
    VerifyReport::Refused { path, detail: cut_text(error.to_string()) }
}

pub(crate) fn to_report(
    report: TransactionReport,
    Found { hot, seen, ran, samples }: Found,
    read_us: u64,
    run_us: u64,
) -> VerifyReport {
    let TransactionReport { outcome, cycles, groups } = report;
    VerifyReport::Done { outcome, cycles, groups, hot, seen, ran, samples, read_us, run_us }
}

pub(crate) fn micros(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX)
}

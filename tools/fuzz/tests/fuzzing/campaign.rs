//! A script in a transaction, and the reports of a job with it.

use std::{io, io::Write as _, os::fd::AsFd as _, sync::Arc};

use antares_abi::{CompileLimits, CompileOptions, Hints, Isa, Stage};
use antares_fuzz::{
    FuzzError, Machines, Parent, fuzz,
    job::{FuzzFinding, FuzzJob, FuzzLibrary, FuzzNews, FuzzProgress, FuzzRequest, Invariants},
};
use antares_hosted::job::Rules;
use antares_transaction::{AsLock, Environment, Mock};
use antares_vm::{CountingSession, Library, MachineSession, Program, reserve_machines};
use bytes::Bytes;

pub(crate) const BITS: u8 = 12;

/// The bytes of the counted library of `elf`.
pub(crate) fn counted(elf: &[u8]) -> Vec<u8> {
    compiled(elf, Stage::Counted { bits: BITS })
}

pub(crate) fn compiled(elf: &[u8], stage: Stage) -> Vec<u8> {
    let options = CompileOptions { vm_version: 2, isa: Isa::of_version(2) };
    let (hints, limits) = (Hints::default(), CompileLimits::default());
    let request = antares_compiler::Request { options, stage, hints, limits };
    antares_compiler::compile(elf, &request).unwrap().bytes
}

pub(crate) fn file(bytes: &[u8]) -> std::fs::File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

/// Instrumented native code of these scripts.
pub(crate) fn native(elves: &[&[u8]]) -> Machines {
    let program = |elf: &&[u8]| {
        let library = Library::load_counted(file(&counted(elf)).as_fd()).unwrap();
        Arc::new(Program::new(Bytes::copy_from_slice(elf), library).unwrap())
    };
    // Reuse machines: mapping one takes longer than a run.
    reserve_machines().unwrap();
    Machines::Native(MachineSession::counting(elves.iter().map(program).collect(), BITS))
}

pub(crate) fn interpreter() -> Machines {
    Machines::Interpreter(CountingSession::new(BITS, false))
}

pub(crate) fn as_lock(elf: &[u8], args: &[u8], witness: &[u8]) -> Mock {
    let [elf, args, witness] = [elf, args, witness].map(Bytes::copy_from_slice);
    AsLock { elf, args, witness: Some(witness), data: Bytes::new() }.to_mock().unwrap()
}

pub(crate) fn document(mock: &Mock) -> Bytes {
    mock.document(&mut |_| None).into()
}

/// A job that mutates the fields `names` of `mock`.
pub(crate) fn job(mock: &Mock, elves: &[&[u8]], names: &[&str], invariants: Invariants) -> FuzzJob {
    let Environment { vm_1_epoch, vm_2_epoch, epoch } = Environment::default();
    let library = |elf: &&[u8]| FuzzLibrary { elf: Bytes::copy_from_slice(elf), library: Bytes::new() };
    FuzzJob {
        document: document(mock),
        other: None,
        rules: Rules { vm_1_epoch, vm_2_epoch, epoch },
        group: None,
        fields: names.iter().map(ToString::to_string).collect(),
        field_bytes_max: 256,
        libraries: elves.iter().map(library).collect(),
        counter_bits: BITS,
        interprets: false,
        invariants,
        seeds: Vec::new(),
        seed: 1,
        runs_max: Some(20_000),
        findings_max: 1,
        cycles_max: 1_000_000,
    }
}

/// The reports of a job.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Reported {
    pub(crate) ready: String,
    pub(crate) kept: Vec<Vec<Bytes>>,
    pub(crate) found: Vec<FuzzFinding>,
    pub(crate) done: FuzzProgress,
}

impl Parent for Reported {
    fn notify(&mut self, news: FuzzNews) -> io::Result<()> {
        match news {
            FuzzNews::Ready(text) => self.ready = text,
            FuzzNews::StoredFinding(fields) => self.kept.push(fields),
            FuzzNews::Found(found) => self.found.push(*found),
            FuzzNews::Done(progress) => self.done = progress,
            FuzzNews::Progress(_) | FuzzNews::Refused(_) => {}
        }
        Ok(())
    }

    fn asks(&mut self) -> io::Result<Option<FuzzRequest>> {
        Ok(None)
    }
}

pub(crate) fn run(job: &FuzzJob, machines: &Machines) -> Result<Reported, FuzzError> {
    let mut reported = Reported::default();
    fuzz(job, machines, &mut reported)?;
    Ok(reported)
}

//! The fuzzing target: the transaction, its fields, and instrumented native code.

use antares_abi::{CompileOptions, Hints, Isa};
use antares_cli::{
    args::{Content, FuzzArgs, FuzzTier, LockArgs},
    commands::verify::read_transaction,
    failure::Failure,
    input::parsed_transaction,
    local::workers::{compile_in, seal, start},
};
use antares_fuzz::job::{FieldBytes, FuzzJob, FuzzLibrary, Invariants};
use antares_hosted::job::{CellName, GroupKind, Rules};
use antares_pool::{Cancel, executable_bytes, job::Stage};
use antares_transaction::{Environment, FieldName, Mock, programs};
use anyhow::anyhow;
use bytes::Bytes;

/// Default cycles of a run: the limit of a node's transaction pool.
const CYCLES_MAX: u64 = 70_000_000;
/// Bits of counter numbers by total code bytes: few keep runs short, many keep edges distinct.
const COUNTER_BITS: [(u64, u8); 3] = [(32 << 10, 12), (96 << 10, 13), (256 << 10, 14)];
const COUNTER_BITS_MOST: u8 = 16;

/// What is fuzzed.
pub(crate) struct Target {
    pub(crate) mock: Mock,
    pub(crate) names: Vec<FieldName>,
    pub(crate) environment: Environment,
    pub(crate) group: Option<(GroupKind, CellName)>,
    /// The same transaction with another script instead of the first.
    other: Option<Mock>,
    pub(crate) cycles_max: u64,
}

impl Target {
    pub(crate) fn of(args: &FuzzArgs) -> Result<Self, Failure> {
        let mock = transaction(args)?;
        let mut names = args.fields.clone();
        if names.is_empty() {
            names = mock.field_names();
            if args.elf.is_some() {
                names.push(FieldName::InputLockArgs(0));
            }
        }
        names.sort_unstable();
        names.dedup();
        if let Some(absent) = names.iter().find(|name| mock.field(**name).is_none()) {
            return Err(Failure::Usage(anyhow!("the transaction has no {absent}")));
        }
        if names.is_empty() {
            return Err(Failure::Usage(anyhow!("the transaction has no field that could change")));
        }
        let other = args.same_as.as_deref().map(|path| {
            let elf = antares_cli::input::read_script(path)?;
            let mut other = mock.clone();
            let group = antares_transaction::groups(&mock).into_iter().next();
            let code = group.and_then(|group| mock.code_of(&group.script_hash));
            let code =
                code.ok_or_else(|| Failure::Usage(anyhow!("--same-as: no cell has the first script")))?;
            other.replace_data(code, elf.into());
            Ok(other)
        });
        let environment = Environment::default();
        let group = args.group.zip(args.cell);
        let cycles_max = args.max_cycles.unwrap_or(CYCLES_MAX);
        Ok(Self { mock, names, environment, group, other: other.transpose()?, cycles_max })
    }

    /// The job of one process.
    pub(crate) fn job(&self, args: &FuzzArgs, seeds: Vec<FieldBytes>) -> Result<FuzzJob, Failure> {
        let Environment { vm_1_epoch, vm_2_epoch, epoch } = self.environment;
        let document = |mock: &Mock| Bytes::from(mock.document(&mut |_| None));
        let (libraries, counter_bits) = self.libraries(args)?;
        Ok(FuzzJob {
            document: document(&self.mock),
            other: self.other.as_ref().map(document),
            rules: Rules { vm_1_epoch, vm_2_epoch, epoch },
            group: self.group,
            fields: self.names.iter().map(ToString::to_string).collect(),
            field_bytes_max: args.field_bytes.max(1),
            libraries,
            counter_bits,
            interprets: args.tier == FuzzTier::Interpreter,
            invariants: Invariants {
                fails: !args.no_fails,
                exits: args.exits.clone(),
                accepts: args.never_accepts,
                accepts_other: args.binding,
            },
            seeds,
            seed: args.seed,
            runs_max: args.runs,
            findings_max: args.findings.max(1),
            cycles_max: self.cycles_max,
        })
    }

    /// Instrumented libraries of all programs, and the bits of a counter's number.
    fn libraries(&self, args: &FuzzArgs) -> Result<(Vec<FuzzLibrary>, u8), Failure> {
        let mocks = [Some(&self.mock), self.other.as_ref()].into_iter().flatten();
        let mut found: Vec<(Bytes, u32)> = Vec::new();
        for mock in mocks {
            for program in programs(mock, &self.environment) {
                found.extend(program.vm_versions.iter().map(|version| (program.elf.clone(), *version)));
            }
        }
        found.sort_unstable();
        found.dedup();
        let bytes: u64 = found.iter().map(|(elf, _)| executable_bytes(elf)).sum();
        let bits = COUNTER_BITS.iter().find(|(most, _)| bytes < *most).map_or(COUNTER_BITS_MOST, |it| it.1);
        let library = |elf: Bytes, library: Bytes| FuzzLibrary { elf, library };
        if args.tier == FuzzTier::Interpreter {
            return Ok((found.into_iter().map(|(elf, _)| library(elf, Bytes::new())).collect(), bits));
        }
        let pool = start("antares-compile-worker")?;
        let (stage, hints) = (Stage::Counted { bits }, Hints::default());
        let mut libraries = Vec::new();
        for (elf, vm_version) in found {
            let options = CompileOptions { vm_version, isa: Isa::of_version(vm_version) };
            match compile_in(&pool, &seal(&elf)?, (options, &hints), stage, &Cancel::new()) {
                Ok(compiled) => {
                    let bytes = compiled.output.read().map_err(|error| Failure::Service(error.into()))?;
                    libraries.push(library(elf, bytes.into()));
                }
                // The interpreter runs it without counters.
                Err(failure @ Failure::Refused { .. }) => {
                    eprintln!("antares: a script counts nothing: {failure}")
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok((libraries, bits))
    }
}

fn transaction(args: &FuzzArgs) -> Result<Mock, Failure> {
    if let Some(path) = &args.tx {
        return parsed_transaction::read(&read_transaction(path)?);
    }
    // Clap has seen to it that there is one.
    let elf = args.elf.as_deref().ok_or_else(|| Failure::Usage(anyhow!("which script?")))?;
    let witness = args.witness.clone().or(Some(Content::Bytes(Vec::new())));
    let (args, data) = (args.args.clone(), args.data.clone());
    LockArgs { as_lock: true, args, witness, data }.to_mock(elf)
}

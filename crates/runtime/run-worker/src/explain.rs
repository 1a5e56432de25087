//! Turns evidence into a diagnosis in the process that ran the script, because names and lines are looked up
//! in its possibly hostile bytes.

use antares_abi::Sha256Digest;
use antares_diagnosis::{Diagnosis, ErrorCodes, Inputs, diagnose};
use antares_pool::job::{CellName, GroupKind, Lines, ProfiledReport, Rules, VerifyOutcome, VerifyReport};
use antares_profile::evidence::Evidence;
use antares_profile_view::Programs;
use antares_transaction::{Mock, programs};
use bytes::Bytes;

use crate::verify;

/// Lists of cells in system calls.
const INPUTS: u64 = 1;
const OUTPUTS: u64 = 2;

/// The subject of a run.
pub(crate) enum Ran {
    Script(Bytes),
    Transaction(Box<RanTransaction>),
    Nothing,
}

/// A transaction, its rules, and the group that ran.
pub(crate) struct RanTransaction {
    pub(crate) mock: Mock,
    pub(crate) rules: Rules,
    pub(crate) group: Option<(GroupKind, CellName)>,
}

/// The diagnosis as JSON of at most `bytes_max` bytes; empty if it does not fit.
pub(crate) fn explain(evidence: &Evidence, ran: &Ran, report: &ProfiledReport, bytes_max: usize) -> String {
    let mut known = Programs::default();
    let mut add = |elf: &[u8]| {
        let digest = Some(Sha256Digest::of(elf));
        if evidence.programs.iter().any(|program| program.elf == digest) {
            known.add(elf);
        }
    };
    let (mut transaction, mut code_hash) = (None, None);
    match ran {
        Ran::Script(elf) => add(elf),
        Ran::Transaction(ran) => {
            let RanTransaction { mock, rules, group } = &**ran;
            programs(mock, &verify::environment(*rules)).iter().for_each(|program| add(&program.elf));
            transaction = Some(mock);
            code_hash = group.and_then(|group| self::code_hash(mock, group));
        }
        Ran::Nothing => {}
    }
    let cells = |source, index| transaction?.cell_data(source, index).map(Into::into);
    let diagnosis = diagnose(&Inputs {
        evidence,
        programs: &known,
        cells: &cells,
        source: &|_| None,
        codes: &ErrorCodes::default(),
        error: vm_error(report),
        code_hash: code_hash.as_deref(),
    });
    let reported = |diagnosis: Diagnosis| {
        let debug = debug(report).into_iter().flat_map(Lines::iter);
        diagnosis.with_javascript(debug).into_json(bytes_max)
    };
    diagnosis.and_then(reported).unwrap_or_default()
}

/// The code hash of a script with hash type `type`, in hexadecimal digits.
fn code_hash(mock: &Mock, (kind, cell): (GroupKind, CellName)) -> Option<String> {
    let (source, index) = match cell {
        CellName::Input(index) => (INPUTS, index),
        CellName::Output(index) => (OUTPUTS, index),
    };
    let hash = mock.type_named_code(kind == GroupKind::Type, source, index)?;
    Some(Sha256Digest(hash).to_string())
}

/// Debug output of the failed run or group.
fn debug(report: &ProfiledReport) -> Option<&Lines> {
    match report {
        ProfiledReport::Run(run) => Some(&run.debug),
        ProfiledReport::Verify(VerifyReport::Done { groups, .. }) => {
            let failed = groups.iter().find(|group| group.outcome == VerifyOutcome::Failed);
            failed.map(|group| &group.debug)
        }
        ProfiledReport::Verify(_) => None,
    }
}

fn vm_error(report: &ProfiledReport) -> Option<&str> {
    let ProfiledReport::Verify(VerifyReport::Done { groups, .. }) = report else { return None };
    groups.iter().find_map(|group| group.error.as_ref()?.vm_error.as_deref())
}

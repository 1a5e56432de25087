//! Checks reports on the script groups of a transaction.

use std::time::Duration;

use antares_abi::BailoutReason;

use super::{
    Checked, KnownVerification, TEXT_BYTES_MAX, Terms, ensure, micros, profiles::check_samples,
    runs::check_lines,
};
use crate::job::{
    CellName, GroupError, GroupKind, GroupReport, HOT_BYTES_MAX, HOT_PROGRAMS_MAX, HotProgram, KnownGroup,
    Omitted, SCRIPT_ERRORS, VM_ERRORS, VerifyOutcome, VerifyReport,
};

/// The error of a script with a nonzero exit code.
const EXITED: &str = "ValidationFailure";
/// The error that contains a VM error.
const VM_FAILED: &str = "VMInternalError";

pub(super) fn check(report: &VerifyReport, known: &KnownVerification) -> Checked {
    let (outcome, cycles, groups) = match report {
        VerifyReport::Refused { path, detail } => return check_refused(path.as_deref(), detail, known),
        VerifyReport::Done { outcome, cycles, groups, .. } => (*outcome, *cycles, groups),
    };
    if let Some(known) = &known.groups {
        ensure(groups.len() == known.len(), "another number of groups than the transaction has")?;
        let mut pairs = groups.iter().zip(known.iter());
        ensure(pairs.all(|(group, known)| known.is(group)), "groups that the transaction does not have")?;
    }
    let (mut so_far, mut sum, mut ran) = (VerifyOutcome::Ok, 0_u64, 0_usize);
    for group in groups {
        let is_wanted = known.only.is_none_or(|only| has(group, only));
        if !is_wanted || so_far != VerifyOutcome::Ok {
            check_not_run(group)?;
            continue;
        }
        let left = Terms { cycles_max: known.terms.cycles_max.saturating_sub(sum), ..known.terms };
        check_ran(group, left)?;
        (so_far, sum, ran) = (group.outcome, sum.saturating_add(group.cycles), ran + 1);
    }
    ensure(ran > 0 || known.only.is_none(), "a verdict on a group that is not there")?;
    ensure(ran > 0 || known.groups.is_some(), "a verdict on no group")?;
    ensure(outcome == so_far, "a verdict that is not that of its groups")?;
    ensure(cycles == sum, "cycles that are not those of its groups")?;
    check_extras(report, known, ran)
}

/// Checks everything except the verdict.
fn check_extras(report: &VerifyReport, known: &KnownVerification, ran_groups: usize) -> Checked {
    let VerifyReport::Done { hot, seen, ran, samples, .. } = report else { return Ok(()) };
    let is_library = |number: &u32| usize::try_from(*number).is_ok_and(|number| number < known.libraries);
    ensure(hot.is_empty() || known.may_be_hot, "hot programs that nobody asked for")?;
    ensure(hot.len() <= HOT_PROGRAMS_MAX, "more hot programs than may be")?;
    let is_hot = |program: &HotProgram| {
        (1..=HOT_BYTES_MAX).contains(&program.elf.len())
            // A restarted attempt counts twice.
            && program.cycles <= known.terms.cycles_end().saturating_mul(2)
    };
    ensure(hot.iter().all(is_hot), "a hot program that cannot be")?;
    ensure(seen.iter().all(|(number, _)| is_library(number)), "places in a library that is not there")?;
    ensure(seen.len() <= known.libraries, "places in more libraries than there are")?;
    ensure(ran.iter().all(|(number, _)| is_library(number)), "the end of a library that is not there")?;
    let most = ran_groups.saturating_mul(known.libraries);
    ensure(ran.len() <= most, "the ends of more libraries than there are")?;
    check_samples(samples.as_deref(), known.terms, &known.scripts)
}

pub(super) fn time(report: &VerifyReport) -> Duration {
    match report {
        VerifyReport::Done { read_us, run_us, .. } => micros(*read_us, *run_us),
        VerifyReport::Refused { .. } => Duration::ZERO,
    }
}

fn check_refused(path: Option<&str>, detail: &str, known: &KnownVerification) -> Checked {
    let texts = [path.unwrap_or_default(), detail];
    ensure(texts.iter().all(|text| text.len() <= TEXT_BYTES_MAX), "too long a text")?;
    let (Some(groups), Some(_)) = (&known.groups, path) else { return Ok(()) };
    // The supervisor has parsed the transaction, so only the requested group can be missing.
    let is_there = |only| groups.iter().any(|group| group.has(only));
    ensure(known.only.is_some_and(|only| !is_there(only)), "a transaction refused that is sound")
}

fn check_not_run(group: &GroupReport) -> Checked {
    let cycles = [group.cycles, group.native_cycles, group.interpreted_cycles];
    let is_silent = group.debug.is_empty() && group.debug.omitted() == Omitted::default();
    let has_end = group.exit_code.is_some() || group.error.is_some() || group.restarted.is_some();
    let is_not_run = group.outcome == VerifyOutcome::NotRun && cycles == [0; 3] && is_silent && !has_end;
    ensure(is_not_run, "a run of a group that was not to run")
}

fn check_ran(group: &GroupReport, terms: Terms) -> Checked {
    match (group.outcome, group.exit_code, &group.error) {
        (VerifyOutcome::Ok, Some(0), None) => ensure(group.cycles > 0, "an exit without a cycle")?,
        (VerifyOutcome::Failed, code, Some(error)) => check_error(error, code, group)?,
        _ => return Err("a group whose parts contradict each other"),
    }
    let is_exit = group.exit_code.is_some();
    ensure(!is_exit || group.cycles <= terms.cycles_max, "an exit past the cycle limit")?;
    let cycles = [group.cycles, group.native_cycles, group.interpreted_cycles];
    ensure(cycles.into_iter().all(|cycles| cycles <= terms.cycles_end()), "more cycles than the limit")?;
    ensure(group.native_cycles == 0 || terms.may_be_native, "native cycles without native code")?;
    if let Some(name) = &group.restarted {
        ensure(terms.may_be_native, "a restart without native code")?;
        let is_reason = BailoutReason::ALL.iter().any(|reason| reason.name() == name);
        ensure(is_reason, "a restart for no reason that there is")?;
    }
    check_lines(&group.debug, terms)
}

fn check_error(error: &GroupError, code: Option<i8>, group: &GroupReport) -> Checked {
    let GroupError { kind, vm_error, source, detail } = error;
    ensure(SCRIPT_ERRORS.contains(&&**kind), "an error that no script has")?;
    ensure(code.is_some() == (kind == EXITED), "an exit code with an error")?;
    ensure(code != Some(0), "a failure with exit code 0")?;
    ensure(vm_error.is_some() == (kind == VM_FAILED), "an error of the VM with another")?;
    let is_vm_error = vm_error.as_ref().is_none_or(|name| VM_ERRORS.contains(&&**name));
    ensure(is_vm_error, "an error that no VM has")?;
    ensure(*source == source_of(group), "the error of another group")?;
    ensure(detail.len() <= TEXT_BYTES_MAX, "too long a text")
}

/// ckb-script's name for the script of a group: its first cell.
fn source_of(group: &GroupReport) -> String {
    let (place, index) = match (group.inputs.first(), group.outputs.first()) {
        (Some(input), _) => ("Inputs", input),
        (None, Some(output)) => ("Outputs", output),
        (None, None) => return "Unknown".to_owned(),
    };
    let kind = match group.kind {
        GroupKind::Lock => "Lock",
        GroupKind::Type => "Type",
    };
    format!("{place}[{index}].{kind}")
}

fn has(group: &GroupReport, (kind, cell): (GroupKind, CellName)) -> bool {
    group.kind == kind
        && match cell {
            CellName::Input(input) => group.inputs.contains(&input),
            CellName::Output(output) => group.outputs.contains(&output),
        }
}

impl KnownGroup {
    /// Whether this is the group of the report.
    fn is(&self, group: &GroupReport) -> bool {
        (self.script_hash, self.kind) == (group.script_hash, group.kind)
            && (&self.inputs, &self.outputs) == (&group.inputs, &group.outputs)
    }

    fn has(&self, (kind, cell): (GroupKind, CellName)) -> bool {
        self.kind == kind
            && match cell {
                CellName::Input(input) => self.inputs.contains(&input),
                CellName::Output(output) => self.outputs.contains(&output),
            }
    }
}

//! Lies about transactions.

use super::*;

/// `report` with other values of some fields.
macro_rules! with {
    ($report:expr, $($field:ident: $value:expr),+) => {{
        let mut report = $report;
        if let VerifyReport::Done { $($field,)+ .. } = &mut report {
            $(*$field = $value;)+
        }
        report
    }};
}

/// Lies about the groups of a transaction.
pub(crate) const VERIFICATIONS: &[Row<VerifyReport>] = &[
    ("no-groups", || verified(Vec::clear)),
    ("one-group", || verified(|groups| drop(groups.pop()))),
    ("one-group-twice", || verified(|groups| groups.push(groups[1].clone()))),
    ("many-groups", || verified(|groups| *groups = vec![groups[0].clone(); 40_000])),
    ("other-order", || verified(|groups| groups.reverse())),
    ("other-hash", || verified(|groups| groups[0].script_hash = [7; 32])),
    ("other-kind", || verified(|groups| groups[0].kind = GroupKind::Type)),
    ("other-inputs", || verified(|groups| groups[0].inputs = vec![0])),
    ("other-outputs", || verified(|groups| groups[1].outputs = vec![u32::MAX])),
    ("ok-but-failed", || with!(verified(|groups| fail_first(groups)), outcome: VerifyOutcome::Ok)),
    ("failed-but-ok", || with!(truth(), outcome: VerifyOutcome::Failed)),
    ("not-run", || with!(truth(), outcome: VerifyOutcome::NotRun)),
    ("skipped", || verified(|groups| skip(&mut groups[0]))),
    ("skipped-all", || verified(|groups| groups.iter_mut().for_each(skip))),
    ("on-after-failure", || verified(|groups| fail(&mut groups[0], 1))),
    ("skipped-with-cycles", || skipped(|group| group.cycles = 5)),
    ("skipped-with-lines", || skipped(|group| group.debug = vec!["hello".to_owned()].into())),
    ("ok-with-code", || verified(|groups| groups[0].exit_code = Some(1))),
    ("ok-without-code", || verified(|groups| groups[0].exit_code = None)),
    ("ok-with-error", || {
        verified(|groups| {
            fail(&mut groups[1], 1);
            (groups[1].outcome, groups[1].exit_code) = (VerifyOutcome::Ok, Some(0));
        })
    }),
    ("ok-without-cycles", || verified(|groups| (groups[1].cycles, groups[1].interpreted_cycles) = (0, 0))),
    ("failed-without-error", || verified(|groups| groups[1].outcome = VerifyOutcome::Failed)),
    ("failed-with-zero", || verified(|groups| fail(&mut groups[1], 0))),
    ("failed-without-code", || failed(|group| group.exit_code = None)),
    ("failed-otherwise", || failed_by(|error| error.kind = "Other".to_owned())),
    ("error-unknown", || failed_by(|error| error.kind = "\x1b[31mEVIL\u{202e}".to_owned())),
    ("error-long", || failed_by(|error| error.detail = long())),
    ("error-elsewhere", || failed_by(|error| error.source = "Inputs[0].Lock".to_owned())),
    ("error-long-source", || failed_by(|error| error.source = long())),
    ("error-of-vm", || failed_by(|error| error.vm_error = Some("MemOutOfBound".to_owned()))),
    ("error-of-no-vm", || failed_in_vm(None)),
    ("error-of-another-vm", || failed_in_vm(Some("Evil"))),
    ("sum-more", || with!(truth(), cycles: 2 * CYCLES + 1)),
    ("sum-max", || with!(truth(), cycles: u64::MAX)),
    ("sum-wraps", || with!(verified(|groups| groups[0].cycles = u64::MAX - CYCLES + 1), cycles: 0)),
    ("group-beyond", || verified(|groups| groups[0].cycles = CYCLES_MAX + 1)),
    ("groups-beyond", || {
        verified(|groups| groups.iter_mut().for_each(|group| group.cycles = CYCLES_MAX / 2 + 1))
    }),
    ("interpreted-max", || verified(|groups| groups[0].interpreted_cycles = u64::MAX)),
    ("native-without", || verified(|groups| groups[0].native_cycles = 5)),
    ("restart-without", || verified(|groups| groups[0].restarted = Some("ecall".to_owned()))),
    ("debug-bytes", || verified(|groups| groups[0].debug = vec!["y".repeat(LONG)].into())),
    ("time-max", || with!(truth(), read_us: u64::MAX, run_us: u64::MAX)),
    ("hot-many", || with_hot(vec![hot(9, 1); HOT_PROGRAMS_MAX + 1])),
    ("hot-empty", || with_hot(vec![hot(0, 1)])),
    ("hot-long", || with_hot(vec![hot((512 << 10) + 1, 1)])),
    ("hot-cycles", || with_hot(vec![hot(9, u64::MAX)])),
    ("seen-nowhere", || with!(truth(), seen: vec![(u32::MAX, Seen::default())])),
    ("ran-nothing", || with!(truth(), ran: vec![(0, NativeEnd::Left); 1000])),
    ("samples-unasked", || with!(truth(), samples: Some(Box::new(self::samples(Sha256Digest::of(SCRIPT)))))),
    ("refused-sound", || refused(Some("tx.outputs[0]"), "it makes no sense".to_owned())),
    ("refused-group", || refused(Some("group"), "there is no such group".to_owned())),
    ("refused-long", || refused(None, long())),
    ("refused-long-path", || refused(Some("tx.".repeat(LONG).leak()), String::new())),
];

/// Makes the first group fail, so that the second one is skipped.
fn fail_first(groups: &mut [GroupReport]) {
    fail(&mut groups[0], 1);
    skip(&mut groups[1]);
}

/// A failure of the first group, and a change of the second one's report.
fn skipped(change: impl FnOnce(&mut GroupReport)) -> VerifyReport {
    verified(|groups| {
        fail_first(groups);
        change(&mut groups[1]);
    })
}

fn failed(change: impl FnOnce(&mut GroupReport)) -> VerifyReport {
    verified(|groups| {
        fail(&mut groups[1], 1);
        change(&mut groups[1]);
    })
}

fn failed_by(change: impl FnOnce(&mut GroupError)) -> VerifyReport {
    failed(|group| {
        if let Some(error) = &mut group.error {
            change(error);
        }
    })
}

/// A failure of a VM with this error.
fn failed_in_vm(vm_error: Option<&str>) -> VerifyReport {
    failed(|group| {
        group.exit_code = None;
        if let Some(error) = &mut group.error {
            error.kind = "VMInternalError".to_owned();
            error.vm_error = vm_error.map(str::to_owned);
        }
    })
}

fn hot(bytes: usize, cycles: u64) -> HotProgram {
    HotProgram { elf: vec![7; bytes], cycles, seen: Seen::default() }
}

fn with_hot(programs: Vec<HotProgram>) -> VerifyReport {
    with!(truth(), hot: programs)
}

fn refused(path: Option<&str>, detail: String) -> VerifyReport {
    VerifyReport::Refused { path: path.map(ToOwned::to_owned), detail }
}

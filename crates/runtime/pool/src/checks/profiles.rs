//! Checks profiles, evidence and diagnoses in reports.

use std::time::Duration;

use antares_abi::Sha256Digest;
use antares_profile::Profile;

use super::{Checked, Known, Terms, ensure, groups, runs};
use crate::job::{
    DiagnosisReport, EVIDENCE_BYTES_MAX, PROFILE_BYTES_MAX, ProfileReport, ProfiledReport, SAMPLES_BYTES_MAX,
    Samples,
};

/// Samples may only cover scripts with native code in the job.
pub(super) fn check_samples(samples: Option<&Samples>, terms: Terms, scripts: &[Sha256Digest]) -> Checked {
    let Some(Samples { profile, claims, unseen_cycles, mismatch_cycles }) = samples else { return Ok(()) };
    ensure(terms.is_sampled, "samples that nobody asked for")?;
    ensure(profile.len() + claims.len() <= SAMPLES_BYTES_MAX, "more samples than may be")?;
    let cycles = [*unseen_cycles, *mismatch_cycles];
    ensure(cycles.into_iter().all(|cycles| cycles <= terms.cycles_end()), "samples of too many cycles")?;
    for bytes in [profile, claims] {
        let profile = Profile::decode(bytes).map_err(|_| "samples that are none")?;
        let mut named = profile.programs().iter().filter_map(|program| program.elf);
        ensure(named.all(|elf| scripts.contains(&elf)), "samples of a script that the job does not have")?;
    }
    Ok(())
}

pub(super) fn check_profile(report: &ProfileReport, known: &Known) -> Checked {
    match (known, &report.report) {
        (Known::Run(known), ProfiledReport::Run(run)) => runs::check(run, known)?,
        (Known::Verify(known), ProfiledReport::Verify(verified)) => groups::check(verified, known)?,
        _ => return Err("an answer to another kind of job"),
    }
    ensure(report.profile.len() <= PROFILE_BYTES_MAX, "too long a profile")
}

pub(super) fn check_diagnosis(report: &DiagnosisReport, known: &Known, reported_bytes_max: u32) -> Checked {
    check_profile(&report.report, known)?;
    ensure(report.evidence.len() <= EVIDENCE_BYTES_MAX, "too much evidence")?;
    ensure(report.reported.len() as u64 <= u64::from(reported_bytes_max), "too long a text")
}

pub(super) fn time(report: &ProfileReport) -> Duration {
    match &report.report {
        ProfiledReport::Run(report) => runs::time(report),
        ProfiledReport::Verify(report) => groups::time(report),
    }
}

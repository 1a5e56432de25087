//! Hints on how a script could use fewer cycles: findings in its code, ranked by its profile.
//!
//! ```text
//! insights    analyses the hot code of a view's programs and the names of its functions; most cycles first
//! ```
//! The rules recognise code by what it does, so stripped scripts have findings too. A finding is a hint for
//! people: its location, its cycles, the reason, and what to try. No IO; findings do not influence how a
//! script runs.

mod chains;
mod code;
mod finding;
mod fusions;
mod group;
mod libraries;
mod loops;
mod patterns;

use antares_profile::Frame;
use antares_profile_view::View;

pub use finding::{Finding, Rule};
pub use group::{FindingGroup, SourceFinder, markdown};
pub use libraries::{REPLACEMENTS, Replacement};

/// Maximum number of findings.
pub const FINDINGS_MAX: usize = 200;

/// Groups with less than one in `SHARE_MIN` of all cycles are not reported.
pub const SHARE_MIN: u64 = 1000;

/// Code that could take fewer cycles, by location, most cycles first.
#[must_use]
pub fn insights(view: &View<'_>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = groups(view).into_iter().flat_map(|group| group.spots).collect();
    findings.sort_by(|a, b| (b.cycles, a.rule, a.address).cmp(&(a.cycles, b.rule, b.address)));
    findings.truncate(FINDINGS_MAX);
    findings
}

/// Code that could take fewer cycles, grouped by advice, most cycles first. A group counts the sum of its
/// locations.
#[must_use]
pub fn groups(view: &View<'_>) -> Vec<FindingGroup> {
    let mut findings = libraries::named(view);
    for program in 0..u32::try_from(view.profile().programs().len()).unwrap_or(0) {
        if let Some(code) = code::Code::of(view, program) {
            findings.extend(loops::findings(&code));
            for function in &code.program.functions {
                findings.extend(patterns::of_function(&code, function));
                if code.has_mop {
                    findings.extend(fusions::of_function(&code, function));
                    findings.extend(chains::of_function(&code, function));
                }
            }
        }
    }
    findings.extend(switches(view));
    findings.retain(|finding| finding.cycles > 1);
    findings.sort_by(|a, b| (b.cycles, a.rule, a.address).cmp(&(a.cycles, b.rule, b.address)));
    // Report each location once per rule.
    let mut seen = std::collections::HashSet::new();
    findings.retain(|finding| seen.insert((finding.rule, finding.function.clone(), finding.address)));
    let least = view.profile().sum().cycles / SHARE_MIN;
    let mut groups = group::group(findings);
    groups.retain(|group| group.cycles > least.max(1));
    groups
}

/// Cycles for suspending and resuming VMs. A script controls them by how many VMs it has alive at once.
fn switches(view: &View<'_>) -> Option<Finding> {
    let nodes = view.profile().nodes().iter().filter(|node| node.frame == Frame::Switch);
    let cycles = nodes.map(|node| node.value.cycles).fold(0, u64::saturating_add);
    (cycles > 0).then(|| Finding {
        rule: Rule::VmSwitches,
        function: Frame::Switch.to_string(),
        place: None,
        address: None,
        cycles,
        saves: Some(cycles),
        why: "more than four spawned VMs are alive, and each that is put aside or brought back costs 100,000 cycles"
            .to_owned(),
        advice: "let VMs end before others are spawned, or give several pieces of work to one".to_owned(),
        measured: None,
    })
}

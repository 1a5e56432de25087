//! What a script could do with fewer cycles: findings on its code, ranked by its profile.
//!
//! ```text
//! insights    looks at the hot code of a view's programs and at the names of its functions; most cycles first
//! ```
//! Code is recognised by what it does, so stripped scripts have findings too. A finding is a hint for people:
//! it tells where, how many cycles are spent there, why, and what to try. No IO; nothing here decides how
//! anything runs.

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

/// Findings, at most.
pub const FINDINGS_MAX: usize = 200;

/// Share of all cycles, one in so many, below which a group of findings is not worth a line.
pub const SHARE_MIN: u64 = 1000;

/// What could take fewer cycles, place by place, most cycles first.
#[must_use]
pub fn insights(view: &View<'_>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = groups(view).into_iter().flat_map(|group| group.spots).collect();
    findings.sort_by(|a, b| (b.cycles, a.rule, a.address).cmp(&(a.cycles, b.rule, b.address)));
    findings.truncate(FINDINGS_MAX);
    findings
}

/// What could take fewer cycles, by what there is to try, most cycles first. Many small places count as what
/// they are together.
#[must_use]
pub fn groups(view: &View<'_>) -> Vec<FindingGroup> {
    let mut findings = libraries::named(view);
    for program in 0..u32::try_from(view.profile().programs().len()).unwrap_or(0) {
        if let Some(code) = code::Code::of(view, program) {
            findings.extend(loops::findings(&code));
            findings.extend(patterns::findings(&code));
            findings.extend(fusions::findings(&code));
            findings.extend(chains::findings(&code));
        }
    }
    findings.extend(switches(view));
    findings.retain(|finding| finding.cycles > 1);
    findings.sort_by(|a, b| (b.cycles, a.rule, a.address).cmp(&(a.cycles, b.rule, b.address)));
    // One function is one matter: what its code shows says more than its name.
    let mut seen = std::collections::HashSet::new();
    findings.retain(|finding| seen.insert((finding.rule, finding.function.clone(), finding.address)));
    let least = view.profile().sum().cycles / SHARE_MIN;
    let mut groups = group::group(findings);
    groups.retain(|group| group.cycles > least.max(1));
    groups
}

/// Cycles for VMs that are put aside, which a script decides by how many of them it has at once.
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

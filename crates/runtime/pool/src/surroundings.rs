//! Conditions around a service that weaken its documented guarantees, for its log and for `antares doctor`.

use std::{fs, path::Path};

use rustix::process::{Resource, getrlimit};

/// The score of workers: the kernel first ends the process with the highest score when memory is out.
const OOM_SCORE_OF_WORKERS: i32 = 1_000;

/// Warnings; empty if there are none.
#[must_use]
pub fn surroundings() -> Vec<String> {
    let read = |path: &Path| fs::read_to_string(path).ok();
    let group = read(Path::new("/proc/self/cgroup")).and_then(|groups| own_group(&groups));
    let ends_together = group.and_then(|group| read(&group.join("memory.oom.group")));
    let score = read(Path::new("/proc/self/oom_score_adj")).and_then(|score| score.trim().parse().ok());
    let limits = [
        ("RLIMIT_FSIZE", Resource::Fsize),
        ("RLIMIT_CPU", Resource::Cpu),
        ("RLIMIT_AS", Resource::As),
        ("RLIMIT_DATA", Resource::Data),
    ];
    let limits = limits.into_iter().filter_map(|(name, of)| Some((name, getrlimit(of).maximum?)));
    findings(ends_together.as_deref(), score, limits)
}

/// The folder of this process's control group, in version 2.
fn own_group(groups: &str) -> Option<std::path::PathBuf> {
    let path = groups.lines().find_map(|channel| channel.strip_prefix("0::/"))?;
    Some(Path::new("/sys/fs/cgroup").join(path))
}

fn findings<'a>(
    ends_together: Option<&str>,
    score: Option<i32>,
    limits: impl Iterator<Item = (&'a str, u64)>,
) -> Vec<String> {
    let mut notes = Vec::new();
    if ends_together.is_some_and(|text| text.trim() == "1") {
        notes.push(
            "memory.oom.group is 1: when memory is out the kernel ends the service with the worker that took it"
                .to_owned(),
        );
    }
    if score == Some(OOM_SCORE_OF_WORKERS) {
        notes.push(
            "oom_score_adj is 1000 already: when memory is out the kernel may end the service before a worker"
                .to_owned(),
        );
    }
    notes.extend(
        limits.map(|(name, value)| {
            format!("{name} is {value} and cannot be raised: the service can fail for it")
        }),
    );
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_weakens_a_promise_is_reported() {
        assert_eq!(findings(Some("0\n"), Some(0), std::iter::empty()), Vec::<String>::new());
        assert_eq!(findings(None, None, std::iter::empty()), Vec::<String>::new());
        let all = findings(Some("1\n"), Some(1_000), [("RLIMIT_FSIZE", 8)].into_iter());
        assert_eq!(all.len(), 3);
        for (note, word) in all.iter().zip(["memory.oom.group", "oom_score_adj", "RLIMIT_FSIZE is 8"]) {
            assert!(note.contains(word), "{note}");
        }
    }

    #[test]
    fn a_group_is_found_beside_those_of_version_1() {
        let path = own_group("12:memory:/x\n0::/kubepods/pod\n");
        assert_eq!(path.as_deref(), Some(Path::new("/sys/fs/cgroup/kubepods/pod")));
        assert_eq!(own_group("0::/\n").as_deref(), Some(Path::new("/sys/fs/cgroup/")));
        assert_eq!(own_group("12:memory:/x\n"), None);
    }
}

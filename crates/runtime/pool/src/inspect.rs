//! Inspects the sandbox of production workers from outside, according to the kernel.

use std::fs;

/// Maximum workers to inspect at once.
const INSPECTED_MAX: usize = 16;
/// Required fields of a worker's `/proc/PID/status` at any time: an active filter, no new privileges, no
/// capability, one thread.
const EXPECTED: [(&str, &str); 4] =
    [("Seccomp", "2"), ("NoNewPrivs", "1"), ("CapEff", "0000000000000000"), ("Threads", "1")];

/// Result of an inspection.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Inspected workers.
    pub(crate) looked_at: u64,
    /// Descriptions of workers with an incomplete sandbox.
    pub(crate) unfenced: Vec<String>,
}

/// Inspects the zygote and some of its children. Children that end concurrently do not count.
pub(crate) fn inspect(zygote: u32) -> Seen {
    let children = fs::read_to_string(format!("/proc/{zygote}/task/{zygote}/children")).unwrap_or_default();
    let children = children.split_whitespace().filter_map(|number| number.parse().ok());
    let mut seen = Seen::default();
    for process in std::iter::once(zygote).chain(children).take(INSPECTED_MAX) {
        let Ok(status) = fs::read_to_string(format!("/proc/{process}/status")) else { continue };
        // A process that has ended and is not reaped yet has released everything.
        if field(&status, "State").is_none_or(|state| state.starts_with(['Z', 'X'])) {
            continue;
        }
        seen.looked_at += 1;
        seen.unfenced.extend(fault(&status).map(|fault| format!("process {process}: {fault}")));
    }
    seen
}

/// The first wrong field, if any.
fn fault(status: &str) -> Option<String> {
    let wrong = EXPECTED.iter().find(|(name, expected)| field(status, name) != Some(expected));
    wrong.map(|(name, expected)| {
        format!("{name} is {}, not {expected}", field(status, name).unwrap_or("missing"))
    })
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|channel| channel.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "Name:\tx\nState:\tS (sleeping)\nThreads:\t1\nCapEff:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t3\n";

    #[test]
    fn every_hole_in_the_fence_is_seen() {
        assert_eq!(fault(GOOD), None);
        for (good, bad) in [
            ("Seccomp:\t2", "Seccomp:\t0"),
            ("NoNewPrivs:\t1", "NoNewPrivs:\t0"),
            ("CapEff:\t0000000000000000", "CapEff:\t0000000000000001"),
            ("Threads:\t1", "Threads:\t2"),
            ("Seccomp:\t2\n", ""),
        ] {
            assert!(fault(&GOOD.replace(good, bad)).is_some(), "{bad}");
        }
    }

    #[test]
    fn a_process_without_a_fence_differs_from_one_with() {
        // This very process has none.
        let seen = inspect(std::process::id());
        assert!(seen.looked_at >= 1 && !seen.unfenced.is_empty(), "{seen:?}");
    }
}

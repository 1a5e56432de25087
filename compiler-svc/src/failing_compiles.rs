//! Compiles that failed and are not tried again for now: which, why, and until when, for whoever operates the
//! server.

use std::{
    collections::HashMap,
    fmt::Write as _,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use antares_abi::{CodeTier, Sha256Digest};
use antares_serve::{Metrics, set_gauge};

use crate::{artifact::CompileError, metrics::result_of, order::Order};

/// Compiles that are listed, at most; beyond, the one whose turn comes next is left out.
const LISTED_MAX: usize = 256;

/// Characters of a reason that are listed, at most.
const WHY_CHARS_MAX: usize = 240;

/// Lines of the log about compiles that failed, a minute, at most: anybody may send scripts that cannot be
/// compiled.
const LINES_MAX: u32 = 30;

/// How they failed, of those that are listed: what a script is refused for is its author's to know.
const RESULTS: [&str; 4] = ["timeout", "worker_lost", "violation", "failed"];

/// A compile that failed.
#[derive(Clone, Debug)]
struct Failing {
    script: Sha256Digest,
    vm_version: u32,
    tier: CodeTier,
    result: &'static str,
    why: String,
    /// How often it was tried, if that was here and now.
    times: Option<u32>,
    again: Instant,
}

#[derive(Debug, Default)]
struct State {
    /// By what their artifacts would be kept under.
    listed: HashMap<Sha256Digest, Failing>,
    /// The minute of the log that is under way, its lines, and those left out.
    minute: Option<Instant>,
    lines: u32,
    left_out: u64,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct FailingCompiles {
    state: Arc<Mutex<State>>,
}

impl FailingCompiles {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists what failed, and is not tried for so long. `times` is how often it was, if that is known.
    pub(crate) fn note(&self, order: &Order, error: &CompileError, times: Option<u32>, wait: Duration) {
        let result = result_of(error);
        if !RESULTS.contains(&result) {
            return;
        }
        let now = Instant::now();
        let mut state = self.state();
        let key = order.kept_key();
        let known = state.listed.get(&key);
        // What is only met again says nothing new.
        if times.is_none() && known.is_some_and(|known| known.again > now) {
            return;
        }
        if known.is_none() && state.listed.len() >= LISTED_MAX {
            let next = state.listed.iter().min_by_key(|(_, failing)| failing.again).map(|(key, _)| *key);
            next.map(|next| state.listed.remove(&next));
        }
        let failing = Failing {
            script: order.script,
            vm_version: order.options.vm_version,
            tier: order.tier,
            result,
            why: error.to_string().escape_debug().take(WHY_CHARS_MAX).collect(),
            times,
            again: now + wait,
        };
        state.listed.insert(key, failing);
    }

    /// It was made after all.
    pub(crate) fn made(&self, order: &Order) {
        self.state().listed.remove(&order.kept_key());
    }

    /// Tells the log why there is no artifact, unless it was told too much lately.
    pub(crate) fn log(&self, order: &Order, error: &CompileError) {
        let Some(left_out) = self.line(Instant::now()) else { return };
        let tier = order.tier.name();
        tracing::warn!(script = %order.script, key = %order.key, tier, %error, left_out, "not compiled");
    }

    /// How many lines were left out before the one that may be written now, if one may.
    fn line(&self, now: Instant) -> Option<u64> {
        let mut state = self.state();
        if state.minute.is_none_or(|minute| now.duration_since(minute) >= Duration::from_secs(60)) {
            state.minute = Some(now);
            state.lines = 0;
        }
        state.lines += 1;
        if state.lines > LINES_MAX {
            state.left_out += 1;
            return None;
        }
        Some(std::mem::take(&mut state.left_out))
    }

    pub(crate) fn export(&self, metrics: &Metrics) {
        let gauge = metrics.gauges(
            "antares_compiles_failing",
            "Compiles that failed and are not tried for now, by how they failed.",
            &["result", "tier"],
        );
        let failing = self.clone();
        metrics.before_scrape(move || {
            let now = Instant::now();
            let state = failing.state();
            for (result, tier) in
                RESULTS.into_iter().flat_map(|result| CodeTier::ALL.map(|tier| (result, tier)))
            {
                let is_of = |one: &&Failing| one.result == result && one.tier == tier && one.again > now;
                let count = state.listed.values().filter(is_of).count();
                set_gauge(&gauge.with_label_values(&[result, tier.name()]), count as u64);
            }
        });
    }

    /// A line for each, the one that is tried next first.
    pub(crate) fn list(&self, now: Instant) -> String {
        let mut listed: Vec<Failing> = self.state().listed.values().cloned().collect();
        listed.sort_by_key(|failing| failing.again);
        let mut text = String::from("script\tvm_version\ttier\tresult\ttimes\tagain_in_s\twhy\n");
        for Failing { script, vm_version, tier, result, why, times, again } in listed {
            let times = times.map_or_else(|| "-".to_owned(), |times| times.to_string());
            let wait = again.saturating_duration_since(now).as_secs();
            let _ =
                writeln!(text, "{script}\t{vm_version}\t{}\t{result}\t{times}\t{wait}\t{why}", tier.name());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use antares_abi::{CompileOptions, Isa};
    use antares_serve::Account;

    use super::*;

    fn order(number: u32) -> Order {
        let options = CompileOptions { vm_version: 2, isa: Isa::of_version(2) };
        let script = Sha256Digest::of(&number.to_le_bytes());
        Order::new(&Account::nobody(), script, options, CodeTier::Full, None)
    }

    fn failed() -> CompileError {
        CompileError::Failed { detail: "a\nb".to_owned() }
    }

    #[test]
    fn what_fails_is_listed_until_it_is_made() {
        let failing = FailingCompiles::default();
        failing.note(&order(1), &failed(), Some(2), Duration::from_secs(100));
        failing.note(&order(2), &failed(), None, Duration::from_secs(50));
        failing.note(&order(1), &failed(), None, Duration::from_secs(1));
        failing.note(&order(3), &CompileError::Internal, Some(1), Duration::from_secs(1));
        let list = failing.list(Instant::now());
        let lines: Vec<&str> = list.lines().skip(1).collect();
        assert_eq!(lines.len(), 3, "{list}");
        assert!(lines[2].starts_with(&format!("{}\t2\tfull\tfailed\t2\t", order(1).script)), "{list}");
        assert!(lines[2].ends_with("a\\nb"), "{list}");
        failing.made(&order(1));
        assert_eq!(failing.list(Instant::now()).lines().count(), 3);
    }

    #[test]
    fn the_list_has_an_end() {
        let failing = FailingCompiles::default();
        for number in 0..u32::try_from(LISTED_MAX).unwrap() + 5 {
            failing.note(&order(number), &failed(), Some(1), Duration::from_secs(1000 + u64::from(number)));
        }
        let list = failing.list(Instant::now());
        assert_eq!(list.lines().count(), 1 + LISTED_MAX);
        assert!(!list.contains(&order(0).script.to_string()));
    }

    #[test]
    fn the_log_is_told_so_much_a_minute() {
        let failing = FailingCompiles::default();
        let start = Instant::now();
        let told = |at| (0..LINES_MAX + 7).filter_map(|_| failing.line(at)).collect::<Vec<_>>();
        assert_eq!(told(start), vec![0; LINES_MAX as usize]);
        assert_eq!(failing.line(start + Duration::from_secs(59)), None);
        assert_eq!(failing.line(start + Duration::from_secs(60)), Some(8));
    }
}

//! What is wrong now, and since when: signs, looked at again and again while the process lives.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use crate::{
    numbers::{Numbers, Sample},
    signs::{Only, SIGNS, Sign, When},
};

/// Between two counts of a number that are kept.
const STEP: Duration = Duration::from_secs(15);

/// A moment, by both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) at: Instant,
    pub(crate) clock: SystemTime,
}

impl Moment {
    pub(crate) fn now() -> Self {
        Self { at: Instant::now(), clock: SystemTime::now() }
    }

    /// Seconds since 1970.
    pub(crate) fn seconds(self) -> f64 {
        self.clock.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
    }
}

/// Something that is wrong.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    pub(crate) sign: &'static Sign,
    /// Of what: the labels of the number, as `name value`.
    pub(crate) of: String,
    /// By how much it grew, if that is the sign.
    pub(crate) grew: Option<f64>,
    pub(crate) since: SystemTime,
    /// Whether it lasts for so long that the alert fires.
    pub(crate) is_alert: bool,
}

/// The signs that are there, by sign and labels.
#[derive(Debug, Default)]
pub(crate) struct Troubles(Mutex<BTreeMap<(usize, String), Seen>>);

/// What was seen of a number.
#[derive(Debug, Default)]
struct Seen {
    /// Since when something is wrong with it.
    since: Option<Moment>,
    /// What it was, for as long as counts.
    counts: VecDeque<(Instant, f64)>,
}

impl Troubles {
    /// What is wrong at `now`, what pages first. Call it every quarter of a minute, and whenever somebody
    /// asks.
    pub(crate) fn look(&self, now: Moment, numbers: &Numbers) -> Vec<Trouble> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut *all);
        let mut found = Vec::new();
        for (number, sign) in SIGNS.iter().enumerate() {
            for sample in numbers.of(sign.metric).filter(|sample| fits(sample, sign.only)) {
                let key = (number, of(&sample));
                let mut seen = before.remove(&key).unwrap_or_default();
                let wrong = seen.judge(sign, &sample, now, numbers);
                seen.since = wrong.is_wrong.then(|| seen.since.unwrap_or(now));
                if let Some(since) = seen.since {
                    let lasts = now.at.saturating_duration_since(since.at);
                    let is_alert = lasts >= Duration::from_secs(60 * sign.hold_minutes);
                    let of = key.1.clone();
                    found.push(Trouble { sign, of, grew: wrong.grew, since: since.clock, is_alert });
                }
                all.insert(key, seen);
            }
        }
        found
    }
}

/// Whether something is wrong with a number, and by how much it grew.
struct Judged {
    is_wrong: bool,
    grew: Option<f64>,
}

impl Seen {
    fn judge(&mut self, sign: &Sign, sample: &Sample<'_>, now: Moment, numbers: &Numbers) -> Judged {
        let value = sample.value;
        let is_wrong = match sign.when {
            When::Above(most) => value > most,
            When::Below(least) => value < least,
            When::Ahead { from, below } => {
                let ahead = value - now.seconds();
                ahead >= from && ahead < below
            }
            When::Share { of: whole, above } => {
                let whole = numbers.of(whole).find(|whole| of(whole) == of(sample));
                whole.is_some_and(|whole| value > above * whole.value)
            }
            When::Grew { by, minutes } => {
                let grew = self.grew(value, now.at, Duration::from_secs(60 * minutes));
                return Judged { is_wrong: grew > by, grew: Some(grew) };
            }
        };
        Judged { is_wrong, grew: None }
    }

    /// By how much a number that is `value` now grew within `window`. Counters begin at 0, when the process
    /// does or something is counted for the first time.
    fn grew(&mut self, value: f64, now: Instant, window: Duration) -> f64 {
        if self.counts.is_empty() {
            self.counts.push_back((now, 0.0));
        }
        if self.counts.back().is_none_or(|(at, _)| now.saturating_duration_since(*at) >= STEP) {
            self.counts.push_back((now, value));
        }
        // The last one before the window is what it grew from.
        let is_before = |at: &Instant| now.saturating_duration_since(*at) >= window;
        while self.counts.get(1).is_some_and(|(at, _)| is_before(at)) {
            self.counts.pop_front();
        }
        value - self.counts.front().map_or(value, |(_, first)| *first)
    }
}

fn fits(sample: &Sample<'_>, only: &[Only]) -> bool {
    only.iter().all(|only| {
        let value = sample.label(only.label).unwrap_or_default();
        only.values.split('|').any(|one| one == value) == only.has
    })
}

/// The labels of a number, as a text.
fn of(sample: &Sample<'_>) -> String {
    let label = |label: &prometheus::proto::LabelPair| format!("{} {}", label.name(), label.value());
    sample.labels.iter().map(label).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    fn later(now: Moment, seconds: u64) -> Moment {
        let time = Duration::from_secs(seconds);
        Moment { at: now.at + time, clock: now.clock + time }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_begin_until_it_is_over() {
        let metrics = Metrics::default();
        let serving = metrics.gauges("antares_serving", "Test.", &["service"]).with_label_values(&["a"]);
        let (troubles, now) = (Troubles::default(), Moment::now());
        serving.set(1);
        assert!(troubles.look(now, &metrics.numbers()).is_empty());
        serving.set(0);
        let begun = later(now, 15);
        let found = troubles.look(begun, &metrics.numbers());
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].sign.alert, &*found[0].of), ("AntaresNotServing", "service a"));
        assert!(!found[0].is_alert && found[0].since == begun.clock);
        let found = troubles.look(later(begun, 180), &metrics.numbers());
        assert!(found[0].is_alert && found[0].since == begun.clock);
        serving.set(1);
        assert!(troubles.look(later(begun, 200), &metrics.numbers()).is_empty());
        serving.set(0);
        assert_eq!(troubles.look(later(begun, 300), &metrics.numbers())[0].since, later(begun, 300).clock);
    }

    #[test]
    fn what_grew_is_told_for_as_long_as_the_window_is() {
        let metrics = Metrics::default();
        let lost = metrics.counters("antares_workers_lost_total", "Test.", &["role"]);
        let lost = lost.with_label_values(&["run"]);
        let (troubles, now) = (Troubles::default(), Moment::now());
        let found = |seconds| troubles.look(later(now, seconds), &metrics.numbers());
        lost.inc_by(5);
        assert!(found(0).is_empty());
        lost.inc();
        let one = found(15);
        assert_eq!((one.len(), one[0].grew, one[0].since), (1, Some(6.0), later(now, 15).clock));
        // Whoever asks often changes nothing.
        (16..600).for_each(|second| assert_eq!(found(second).len(), 1, "{second}"));
        assert!(found(700).is_empty());
        let kept = troubles.0.lock().unwrap().values().map(|seen| seen.counts.len()).max();
        assert!(kept.is_some_and(|kept| kept <= 43), "{kept:?}");
    }

    #[test]
    fn shares_and_times_are_judged_by_what_belongs_to_them() {
        let metrics = Metrics::default();
        let [busy, most] = ["antares_workers_busy", "antares_workers_max"]
            .map(|name| metrics.gauges(name, "Test.", &["role"]));
        for (role, of_four) in [("run", 4), ("compile", 3)] {
            busy.with_label_values(&[role]).set(of_four);
            most.with_label_values(&[role]).set(4);
        }
        let now = Moment::now();
        let ends = metrics.gauges("antares_certificate_expiry_timestamp_seconds", "Test.", &["file"]);
        #[expect(clippy::cast_possible_truncation, reason = "a time of today")]
        let at = now.seconds() as i64;
        for (file, ahead) in [("ended", -9), ("today", 3_600), ("soon", 90_000), ("later", 700_000)] {
            ends.with_label_values(&[file]).set(at + ahead);
        }
        let layer = metrics.gauges("antares_sandbox_info", "Test.", &["layer"]);
        ["seccomp", "namespaces"].iter().for_each(|name| layer.with_label_values(&[name]).set(0));
        let found = Troubles::default().look(now, &metrics.numbers());
        let told: Vec<(&str, &str)> = found.iter().map(|one| (one.sign.alert, &*one.of)).collect();
        let expected = [
            ("AntaresCertificateLastDay", "file ended"),
            ("AntaresCertificateLastDay", "file today"),
            ("AntaresSandboxLayerMissing", "layer seccomp"),
            ("AntaresCertificateEnds", "file soon"),
            ("AntaresWorkersSaturated", "role run"),
        ];
        assert_eq!(told, expected);
        assert!(!found[4].is_alert && found[0].is_alert);
    }
}

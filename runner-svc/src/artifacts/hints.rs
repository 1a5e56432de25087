//! Branches of scripts that runs saw and native code did not know. Reports reach the artifact source, which
//! then compiles better artifacts.

use antares_abi::{CompileOptions, Sha256Digest};
use antares_serve::Account;
use parking_lot::Mutex;

use crate::{
    artifacts::recent::Recent,
    limits::{LEARNT_SCRIPTS_MAX, LEARNT_VAIN_MAX},
};

/// A script as compiled for all tenants or for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Subject {
    script: Sha256Digest,
    options: CompileOptions,
}

impl Subject {
    /// For this tenant, if it has its own native code.
    pub(crate) fn of(account: &Account, script: Sha256Digest, options: CompileOptions) -> Self {
        Self { script: Sha256Digest(account.salt().apply(script.0)), options }
    }
}

/// The hints with which known scripts are compiled.
#[derive(Debug, Default)]
pub(crate) struct KnownHints(Mutex<Recent<Subject, Known, LEARNT_SCRIPTS_MAX>>);

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Digest of the hints, if any.
    hints: Option<Sha256Digest>,
    /// Consecutive reports without new information.
    vain: u32,
    /// A report is in flight.
    is_telling: bool,
}

impl KnownHints {
    /// The current hints of a script.
    pub(crate) fn find(&self, subject: Subject) -> Option<Sha256Digest> {
        self.0.lock().get(&subject)?.hints
    }

    /// Records the hints with which a script is compiled.
    pub(crate) fn record(&self, subject: Subject, hints: Option<Sha256Digest>) {
        let mut state = self.0.lock();
        if hints.is_none() && state.get(&subject).is_none() {
            return;
        }
        let known = state.entry(subject);
        if known.hints != hints {
            (known.hints, known.vain) = (hints, 0);
        }
    }

    /// Whether a report on a script is worth sending. If so, marks one as in flight.
    pub(crate) fn begin(&self, subject: Subject) -> bool {
        let mut state = self.0.lock();
        let known = state.entry(subject);
        let is_worth_it = !known.is_telling && known.vain < LEARNT_VAIN_MAX;
        known.is_telling |= is_worth_it;
        is_worth_it
    }

    /// Records the outcome of a report: the new hints, if it succeeded.
    pub(crate) fn end(&self, subject: Subject, hints: Option<Option<Sha256Digest>>) {
        let mut state = self.0.lock();
        let known = state.entry(subject);
        known.is_telling = false;
        match hints {
            Some(hints) if hints != known.hints => (known.hints, known.vain) = (hints, 0),
            _ => known.vain = known.vain.saturating_add(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use antares_abi::Isa;

    use super::*;

    const OPTIONS: CompileOptions = CompileOptions { vm_version: 2, isa: Isa(3) };

    fn digest(number: usize) -> Sha256Digest {
        Sha256Digest::of(&number.to_le_bytes())
    }

    fn subject(number: usize, options: CompileOptions) -> Subject {
        Subject::of(&Account::nobody(), digest(number), options)
    }

    #[test]
    fn reports_end_when_they_bring_nothing_new() {
        let hints = KnownHints::default();
        let subject = subject(1, OPTIONS);
        assert!(hints.begin(subject) && !hints.begin(subject));
        hints.end(subject, Some(Some(digest(2))));
        assert_eq!(hints.find(subject), Some(digest(2)));
        for _ in 0..LEARNT_VAIN_MAX {
            assert!(hints.begin(subject));
            hints.end(subject, Some(Some(digest(2))));
        }
        assert!(!hints.begin(subject));
        hints.record(subject, Some(digest(3)));
        assert!(hints.begin(subject));
    }
}

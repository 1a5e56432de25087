//! Profile feedback from runs: branches that native code did not know, and native code that bails out.

use std::sync::Arc;

use antares_abi::Seen;
use antares_pool::{
    NativeEnd,
    job::{RunReport, Tier},
};
use antares_serve::{Account, chain};

use crate::{
    artifacts::{
        Artifacts,
        bailouts::TenantsCode,
        hints::Subject,
        native::{Native, Origin},
        prepare::NativeOrNot,
    },
    ended::Ended,
    source::Fallback,
};

impl Artifacts {
    /// Reports what a run of `native` saw for the first time to the source, in the background.
    pub(crate) fn learn_from(
        self: &Arc<Self>,
        account: &Account,
        native: Option<&Native>,
        ended: &Ended<RunReport>,
    ) {
        if let (Some(native), Ended::Reported(RunReport { seen: Some(seen), .. })) = (native, ended) {
            self.learn_seen(account, native, seen.clone());
        }
    }

    pub(crate) fn learn_seen(self: &Arc<Self>, account: &Account, native: &Native, seen: Seen) {
        let (script, options) = (native.script, native.options);
        let subject = Subject::of(account, script, options);
        if !self.hints.begin(subject) {
            return;
        }
        let (artifacts, source) = (self.clone(), self.source.of(account));
        tokio::spawn(async move {
            let reported = source.learn(script, options, seen).await;
            if let Err(error) = &reported {
                tracing::info!(%script, error = chain(error), "the compiler does not learn where a script goes");
            }
            artifacts.hints.end(subject, reported.ok());
        });
    }

    /// Records how a run's native code ended.
    pub(crate) fn record_end(&self, account: &Account, native: Option<Origin>, report: &RunReport) {
        if let Some(native) = native {
            self.bailouts.record(TenantsCode::of(account, native.key), report.into());
        }
    }

    /// Records the same for a transaction's libraries, by their number in its job, for each group.
    pub(crate) fn record_ends(&self, account: &Account, libraries: &[Native], ran: Vec<(u32, NativeEnd)>) {
        for (number, end) in ran {
            if let Some(native) = usize::try_from(number).ok().and_then(|number| libraries.get(number)) {
                self.bailouts.record(TenantsCode::of(account, native.key), end);
            }
        }
    }

    /// Whether a run skips this native code because it is known to bail out.
    pub(crate) fn bails_out_early(&self, account: &Account, tier: Tier, native: &Native) -> bool {
        tier == Tier::Auto && self.bailouts.begins_interpreted(TenantsCode::of(account, native.key))
    }

    /// Native code, unless it is known to bail out.
    pub(crate) fn unless_early_bailout(
        &self,
        account: &Account,
        tier: Tier,
        (native, fallback): NativeOrNot,
    ) -> NativeOrNot {
        match native {
            Some(native) if self.bails_out_early(account, tier, &native) => {
                self.metrics.record_fallback(Fallback::LeavesEarly);
                (None, Some(Fallback::LeavesEarly))
            }
            native => (native, fallback),
        }
    }
}

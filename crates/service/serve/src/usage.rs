//! What tenants used, kept by the hour where the configuration says so.

use std::{sync::Arc, time::Duration};

use antares_config::UsageSection;
use antares_usage::{Amounts, Ledger, LedgerConfig, NO_TENANT, UNPROVEN, UsageError};

use crate::{
    duties::{blocking, keep},
    metrics::{Metrics, set_total},
};

/// Name of the task that writes it down.
const TASK: &str = "usage";

/// The ledger of a server; none where nothing is kept.
#[derive(Clone, Debug, Default)]
pub struct Usage(Option<Arc<Ledger>>);

/// Hours of use that are kept of a day.
const HOURS_OF_DAY: u64 = 24;

/// None where nothing is kept.
fn ledger(section: &UsageSection) -> Option<LedgerConfig> {
    let number = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    Some(LedgerConfig {
        folder: section.dir.clone()?,
        hours_max: number(section.keep_days.saturating_mul(HOURS_OF_DAY)),
        tenants_max: number(section.tenants_max),
        export: section.export_dir.clone(),
    })
}

/// A tenant's page in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tab {
    ledger: Option<Arc<Ledger>>,
    tenant: Arc<str>,
}

impl Usage {
    pub(crate) fn open(section: Option<&UsageSection>, metrics: &Metrics) -> Result<Self, UsageError> {
        let errors = metrics.counters(
            "antares_usage_errors_total",
            "What went wrong with keeping what tenants used: a flush, a file that was read, an export.",
            &["kind"],
        );
        let counters = ["flush", "read", "export"].map(|kind| errors.with_label_values(&[kind]));
        // Where nothing is kept they stay at 0: an alert that finds no series looks like one that is silent.
        let Some(config) = section.and_then(ledger) else { return Ok(Self(None)) };
        let ledger = Arc::new(Ledger::open(config)?);
        let read = ledger.clone();
        metrics.before_scrape(move || {
            let stats = read.stats();
            let totals = [stats.unkept_total, stats.damaged_total, stats.unexported_total];
            counters.iter().zip(totals).for_each(|(counter, total)| set_total(counter, total));
        });
        Ok(Self(Some(ledger)))
    }

    /// The ledger, if there is one.
    #[must_use]
    pub fn ledger(&self) -> Option<&Arc<Ledger>> {
        self.0.as_ref()
    }

    /// Writes it down again and again, for as long as the runtime lives. Call it within the runtime.
    pub(crate) fn watch(&self, pause: Duration) {
        let Some(ledger) = self.0.clone() else { return };
        keep(TASK, move || {
            let ledger = ledger.clone();
            async move {
                let mut ticks = tokio::time::interval(pause);
                loop {
                    ticks.tick().await;
                    write(&ledger).await;
                }
            }
        });
    }

    /// Writes down what there is now.
    pub(crate) async fn flush(&self) {
        if let Some(ledger) = &self.0 {
            write(ledger).await;
        }
    }

    /// The page of `tenant`: a name that nobody has proven has none of its own.
    pub(crate) fn tab(&self, tenant: &Arc<str>, is_proven: bool) -> Tab {
        let tenant = match &**tenant {
            "" => NO_TENANT.into(),
            _ if is_proven => tenant.clone(),
            _ => UNPROVEN.into(),
        };
        Tab { ledger: self.0.clone(), tenant }
    }
}

async fn write(ledger: &Arc<Ledger>) {
    let ledger = ledger.clone();
    let written = blocking(move || ledger.flush()).await;
    if let Some(Err(error)) = written {
        let source = std::error::Error::source(&error).map(ToString::to_string);
        tracing::error!(%error, source, "what tenants used is not written down; it is tried again");
    }
}

impl Tab {
    /// Adds what `fill` says.
    pub(crate) fn note(&self, fill: impl FnOnce(&mut Amounts)) {
        if let Some(ledger) = &self.ledger {
            let mut amounts = Amounts::default();
            fill(&mut amounts);
            ledger.note(&self.tenant, &amounts);
        }
    }

    /// The ledger that it is in.
    pub(crate) fn usage(&self) -> Usage {
        Usage(self.ledger.clone())
    }

    /// Whose it is, as rows have it.
    pub(crate) fn tenant(&self) -> &str {
        &self.tenant
    }
}

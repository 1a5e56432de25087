//! Collects the statistics of a cache.

use crate::{
    entry::Space,
    inner::Inner,
    stats::{CacheStats, read},
};

impl Inner {
    pub(crate) fn stats(&self) -> CacheStats {
        let state = self.state();
        let number = self.live.read().number;
        let failures = self.writer.lock().failures.len() as u64;
        let account = self.account.lock();
        let mut stats = CacheStats {
            state,
            failures,
            logical_bytes: account.logical_bytes(),
            charged_bytes: account.charged_bytes(),
            charged: account.charged(),
            budget_bytes: self.config.budget_bytes,
            open_time: self.open_time,
            ..CacheStats::default()
        };
        stats.entries.script = account.entries(Space::Script);
        stats.entries.artifact = account.entries(Space::Artifact);
        drop(account);
        stats.disk_bytes = self.layout.disk_bytes();
        stats.blobs = self.layout.blobs(number);
        let counters = &self.counters;
        stats.hits = counters.hits.read();
        stats.misses = counters.misses.read();
        stats.corrupt = read(&counters.corrupt);
        stats.evictions = read(&counters.evictions);
        stats.rejected = read(&counters.rejected);
        stats.store_errors = read(&counters.store_errors);
        stats.set_aside = read(&counters.set_aside);
        stats.rebuilds = read(&counters.rebuilds);
        stats.swept_chunks = read(&counters.swept_chunks);
        stats
    }
}

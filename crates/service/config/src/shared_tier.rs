//! Section `[shared]`.

use crate::{check::Checker, section::section};

section! {
/// The object store that several servers share (compiler).
"shared": RawShared => SharedTier(
    /// Whether writers of the store are trusted: without `signing.keys` there are no trusted signatures.
    trusts_writers: bool,
) {
    /// Object store that several servers share: `s3://bucket/prefix`, `gs://` or `az://`; empty for
    /// none.
    url: text;
    /// How long a read may take. Beyond it what is asked for is compiled.
    get_ms_max as get_time_max: time = 1_000;
}
}

/// Supported schemes of the URL.
const KINDS: [&str; 3] = ["s3://", "gs://", "az://"];

impl RawShared {
    /// `None` without a shared tier.
    pub(crate) fn section(&self, trusts_writers: bool, checker: &mut Checker) -> Option<SharedTier> {
        let tier = self.check(checker, trusts_writers);
        if self.url.is_empty() {
            return None;
        }
        if !KINDS.iter().any(|kind| self.url.strip_prefix(kind).is_some_and(|rest| !rest.is_empty())) {
            let problem = format!(
                "must be s3://bucket/prefix, gs://bucket/prefix or az://container/prefix, is {:?}",
                self.url
            );
            checker.record("shared.url", problem);
        }
        Some(tier)
    }
}

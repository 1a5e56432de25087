//! Section `[usage]`.

use crate::{check::Checker, section::section};

section! {
/// What tenants used, by the hour.
"usage": RawUsage => UsageSection {
    /// Folder for what tenants used, by the hour; made if it is not there, one process at a time. Empty for
    /// none: nothing is kept then.
    dir: folder_or_none;
    /// How long it is kept: so many times 24 hours in which something was used. 3,650 at most.
    keep_days: range(3_650) = 90;
    /// Tenants of an hour that have a row; what more of them use is in one row together. 1,000,000 at most.
    tenants_max: range(1_000_000) = 10_000;
    /// How often it is written. A kill loses what was used since. 60,000 at most.
    flush_ms as flush: time_to(60_000) = 30_000;
    /// Folder for files of hours that are over, CSV and JSON, minutes after their end; empty for none.
    /// Whoever takes them may remove them.
    export_dir: folder_or_none;
}
}

impl RawUsage {
    /// None where nothing is kept.
    pub(crate) fn section(&self, checker: &mut Checker) -> Option<UsageSection> {
        let section = self.check(checker);
        if section.export_dir.is_some() && section.dir.is_none() {
            checker.note("usage.export_dir", "makes no sense without usage.dir");
        }
        section.dir.is_some().then_some(section)
    }
}

//! Section `[usage]`.

use std::time::Duration;

use antares_usage::LedgerConfig;

use crate::{check::Checker, raw_config::RawConfig};

/// Longest time between flushes, milliseconds: what is promised of a kill.
const FLUSH_MS_MAX: u64 = 60_000;

/// Most days that are kept.
const DAYS_MAX: u64 = 3_650;

/// Most rows of an hour.
const TENANTS_MAX: u64 = 1_000_000;

const HOURS_OF_DAY: u64 = 24;

/// Where it is kept what tenants used, if it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageSection {
    pub(crate) ledger: Option<LedgerConfig>,
    pub(crate) flush: Duration,
}

pub(crate) fn check_usage(config: &RawConfig, checker: &mut Checker) -> UsageSection {
    let raw = &config.usage;
    for (key, value, most) in [
        ("usage.keep_days", raw.keep_days, DAYS_MAX),
        ("usage.tenants_max", raw.tenants_max, TENANTS_MAX),
        ("usage.flush_ms", raw.flush_ms, FLUSH_MS_MAX),
    ] {
        checker.range(key, value, most);
    }
    let (is_on, is_exported) = (!raw.dir.as_os_str().is_empty(), !raw.export_dir.as_os_str().is_empty());
    if is_exported && !is_on {
        checker.note("usage.export_dir", "makes no sense without usage.dir".to_owned());
    }
    let number = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    let ledger = is_on.then(|| LedgerConfig {
        folder: raw.dir.clone(),
        hours_max: number(raw.keep_days.saturating_mul(HOURS_OF_DAY)),
        tenants_max: number(raw.tenants_max),
        export: is_exported.then(|| raw.export_dir.clone()),
    });
    UsageSection { ledger, flush: Duration::from_millis(raw.flush_ms) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_named_and_nothing_is_kept_by_default() {
        let checked = |text: &str| {
            let mut checker = Checker::default();
            let raw: RawConfig = toml::from_str(text).unwrap();
            let section = check_usage(&raw, &mut checker);
            checker.finish(section)
        };
        assert_eq!(checked("").unwrap().ledger, None);
        let on = checked("[usage]\ndir = \"/u\"\nkeep_days = 2\n").unwrap();
        assert_eq!(on.ledger.map(|ledger| (ledger.hours_max, ledger.export)), Some((48, None)));
        for bad in
            ["flush_ms = 60001", "flush_ms = 0", "keep_days = 0", "tenants_max = 0", "export_dir = \"/e\""]
        {
            let error = checked(&format!("[usage]\n{bad}\n")).unwrap_err().to_string();
            assert!(error.contains(&format!("usage.{}", bad.split(' ').next().unwrap())), "{error}");
        }
    }
}

//! Section `[shared]`.

use std::time::Duration;

use crate::{check::Checker, raw_config::RawConfig};

/// How the URL of a shared tier may begin.
const KINDS: [&str; 4] = ["s3://", "gs://", "az://", "file:///"];

/// The shared tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedTier {
    /// Where it is.
    pub url: String,
    /// Whether who may write there is believed: nobody has said whose signatures count (`signing.keys`).
    pub trusts_writers: bool,
    /// How long a read may take.
    pub get_time_max: Duration,
    /// Reads at once.
    pub gets_max: usize,
    /// Bytes of entries that reads under way may hold.
    pub get_bytes_max: usize,
    /// How long one attempt of a write may take.
    pub put_time_max: Duration,
    /// Writes at once.
    pub puts_max: usize,
    /// How long a write is tried again.
    pub upload_time_max: Duration,
    /// Writes that wait.
    pub queue_max: usize,
    /// Their bytes.
    pub queue_bytes_max: usize,
    /// Memory for entries used lately, bytes.
    pub memory_bytes_max: u64,
}

pub(crate) fn check_shared(config: &RawConfig, checker: &mut Checker) -> Option<SharedTier> {
    let raw = &config.shared;
    let tier = SharedTier {
        url: raw.url.clone(),
        trusts_writers: config.signing.keys.is_empty(),
        get_time_max: checker.time("shared.get_ms_max", raw.get_ms_max),
        gets_max: checker.count("shared.gets_max", raw.gets_max),
        get_bytes_max: checker.count("shared.get_bytes_max", raw.get_bytes_max),
        put_time_max: checker.time("shared.put_ms_max", raw.put_ms_max),
        puts_max: checker.count("shared.puts_max", raw.puts_max),
        upload_time_max: checker.time("shared.upload_ms_max", raw.upload_ms_max),
        queue_max: checker.count("shared.queue_max", raw.queue_max),
        queue_bytes_max: checker.count("shared.queue_bytes_max", raw.queue_bytes_max),
        memory_bytes_max: raw.memory_bytes_max,
    };
    if raw.url.is_empty() {
        return None;
    }
    if !KINDS.iter().any(|kind| raw.url.strip_prefix(kind).is_some_and(|rest| !rest.is_empty())) {
        let problem = format!(
            "must be s3://bucket/prefix, gs://bucket/prefix, az://container/prefix or file:///folder, is {:?}",
            raw.url
        );
        checker.note("shared.url", problem);
    }
    Some(tier)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{raw_config::RawShared, role::Role};

    fn checked(shared: RawShared) -> Result<Option<SharedTier>, String> {
        let config = RawConfig { shared, ..RawConfig::default() };
        config.check(Role::Compiler, &[]).map(|config| config.shared).map_err(|error| error.to_string())
    }

    #[test]
    fn the_url_says_which_store_it_is() {
        let of = |url: &str| checked(RawShared { url: url.to_owned(), ..RawShared::default() });
        assert_eq!(of(""), Ok(None));
        for url in ["s3://bucket/prefix", "gs://bucket", "az://container/p", "file:///folder"] {
            assert_eq!(of(url).unwrap().unwrap().url, url);
        }
        for url in ["bucket", "s3://", "file://folder", "http://host/bucket"] {
            assert!(of(url).unwrap_err().contains("shared.url must be") || of(url).is_err(), "{url}");
        }
        let error = checked(RawShared { gets_max: 0, get_ms_max: 0, ..RawShared::default() }).unwrap_err();
        assert!(error.contains("shared.gets_max") && error.contains("shared.get_ms_max"), "{error}");
    }
}

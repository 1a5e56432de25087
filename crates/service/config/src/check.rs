//! Validates single values and collects their errors, so that all of them are reported together.

use std::{
    fmt, io,
    net::{Ipv4Addr, SocketAddr},
    num::NonZeroU64,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::services::SpeculationLimit;

/// Maximum of a time in milliseconds: a year. Sums of larger times could overflow.
pub(crate) const TIME_MS_MAX: u64 = 365 * 24 * 3_600_000;

/// Maximum of a count: the limit of semaphores.
pub(crate) const COUNT_MAX: u64 = 1 << 32;

/// Maximum number of workers in a pool.
pub(crate) const WORKERS_MAX: u64 = 1024;

/// `time` in milliseconds, as in keys and messages.
pub fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The errors found so far. Its methods return some value even for an invalid input; [`Checker::finish`] then
/// discards it.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    mistakes: Vec<ConfigProblem>,
}

impl Checker {
    pub(crate) fn record(&mut self, key: &str, problem: impl Into<String>) {
        self.mistakes.push(ConfigProblem { key: key.to_owned(), problem: problem.into() });
    }

    pub(crate) fn finish<T>(self, value: T) -> Result<T, ConfigError> {
        if self.mistakes.is_empty() { Ok(value) } else { Err(ConfigError::Problems(self.mistakes)) }
    }
}

/// The kinds of keys in the sections' tables.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "all kinds are called in one way")]
impl Checker {
    pub(crate) fn flag(&mut self, _: &str, value: &bool) -> bool {
        *value
    }

    /// Any number.
    pub(crate) fn whole(&mut self, _: &str, value: &u64) -> u64 {
        *value
    }

    pub(crate) fn positive(&mut self, key: &str, value: &u64) -> u64 {
        self.at_least(key, value, 1)
    }

    pub(crate) fn at_least(&mut self, key: &str, value: &u64, least: u64) -> u64 {
        if *value < least {
            self.record(key, format!("must be at least {least}, is {value}"));
        }
        *value
    }

    pub(crate) fn at_most(&mut self, key: &str, value: &u64, most: u64) -> u64 {
        if *value > most {
            self.record(key, format!("must be at most {most}"));
        }
        *value
    }

    /// A number from 1 to `most`.
    pub(crate) fn range(&mut self, key: &str, value: &u64, most: u64) -> u64 {
        if *value == 0 || *value > most {
            self.record(key, format!("must be 1 to {most}, is {value}"));
        }
        *value
    }

    /// A number of items.
    pub(crate) fn count(&mut self, key: &str, value: &u64) -> usize {
        usize::try_from(self.range(key, value, COUNT_MAX)).unwrap_or(usize::MAX)
    }

    /// A number of worker processes.
    pub(crate) fn workers(&mut self, key: &str, value: &u64) -> usize {
        usize::try_from(self.range(key, value, WORKERS_MAX)).unwrap_or(usize::MAX)
    }

    /// A sampling rate of one in `value`; 0 for none.
    pub(crate) fn one_in(&mut self, _: &str, value: &u64) -> Option<NonZeroU64> {
        NonZeroU64::new(*value)
    }

    /// A time in milliseconds.
    pub(crate) fn time(&mut self, key: &str, value: &u64) -> Duration {
        Duration::from_millis(self.range(key, value, TIME_MS_MAX))
    }

    /// A time in milliseconds; 0 for no wait.
    pub(crate) fn pause(&mut self, _: &str, value: &u64) -> Duration {
        Duration::from_millis(*value)
    }

    /// A fraction from 0 to 1.
    pub(crate) fn share(&mut self, key: &str, value: &f64) -> f64 {
        if !(0.0..=1.0).contains(value) {
            self.record(key, format!("must be 0.0 to 1.0, is {value}"));
        }
        *value
    }

    pub(crate) fn text(&mut self, _: &str, text: &str) -> String {
        text.to_owned()
    }

    pub(crate) fn speculation(&mut self, _: &str, limits: &[SpeculationLimit]) -> Vec<SpeculationLimit> {
        limits.to_vec()
    }

    pub(crate) fn list(&mut self, _: &str, list: &[String]) -> Vec<String> {
        list.to_vec()
    }

    /// Path of a file; empty for none. Reading the file checks that it exists and is valid.
    pub(crate) fn file(&mut self, key: &str, path: &str) -> Option<PathBuf> {
        self.folder_or_none(key, path.as_ref())
    }

    pub(crate) fn folder(&mut self, key: &str, path: &Path) -> PathBuf {
        if path.as_os_str().is_empty() {
            self.record(key, "is empty");
        }
        path.to_owned()
    }

    pub(crate) fn folder_or_none(&mut self, _: &str, path: &Path) -> Option<PathBuf> {
        (!path.as_os_str().is_empty()).then(|| path.to_owned())
    }

    pub(crate) fn absolute_or_none(&mut self, key: &str, path: &Path) -> Option<PathBuf> {
        if path.is_relative() && !path.as_os_str().is_empty() {
            self.record(key, "must be an absolute path");
        }
        self.folder_or_none(key, path)
    }

    pub(crate) fn address(&mut self, key: &str, text: &str) -> SocketAddr {
        text.parse().unwrap_or_else(|_| {
            self.record(key, format!("must be an IP address and a port such as 0.0.0.0:50051, is {text:?}"));
            (Ipv4Addr::LOCALHOST, 0).into()
        })
    }

    /// URLs separated by commas, validated by [`Checker::service_urls`].
    pub(crate) fn urls(&mut self, _: &str, text: &str) -> Vec<String> {
        text.split(',').filter(|_| !text.is_empty()).map(str::to_owned).collect()
    }

    /// Whether log lines are JSON.
    pub(crate) fn log_format(&mut self, key: &str, format: &str) -> bool {
        if !["json", "text"].contains(&format) {
            self.record(key, format!("must be \"text\" or \"json\", is {format:?}"));
        }
        format == "json"
    }

    pub(crate) fn log_filter(&mut self, key: &str, filter: &str) -> String {
        if let Err(error) = tracing_subscriber::EnvFilter::try_new(filter) {
            self.record(key, format!("{filter:?}: {error}"));
        }
        filter.to_owned()
    }
}

/// URLs, which some keys require only in combination with others.
impl Checker {
    /// Validates the URLs of gRPC services, separated by commas: with TLS for all of them or for none.
    pub(crate) fn service_urls(&mut self, key: &str, text: &str) {
        for url in text.split(',') {
            self.url_of(key, url, &["http", "https"]);
        }
        if text.split(',').any(|url| url.starts_with("https://") != text.starts_with("https://")) {
            self.record(key, "has both https:// and http://");
        }
    }

    pub(crate) fn url_of(&mut self, key: &str, text: &str, schemes: &[&str]) {
        let uri: Option<http::Uri> = text.parse().ok();
        let scheme = uri.as_ref().and_then(http::Uri::scheme_str);
        let is_known = scheme.is_some_and(|scheme| schemes.contains(&scheme));
        if !is_known || uri.and_then(|uri| uri.host().map(str::len)).is_none() {
            let forms = schemes.iter().map(|scheme| format!("{scheme}://host:4317")).collect::<Vec<_>>();
            self.record(key, format!("must be a URL such as {}, is {text:?}", forms.join(" or ")));
        }
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {0}: {1}")]
    Read(PathBuf, #[source] io::Error),
    /// The text is not TOML, or a value has the wrong type.
    #[error("{0}: {1}")]
    Syntax(PathBuf, #[source] Box<toml::de::Error>),
    /// Keys or values are invalid.
    #[error("the configuration has {} mistake(s):\n{}", .0.len(), lines(.0))]
    Problems(Vec<ConfigProblem>),
    /// The configuration cannot be printed as TOML (a path is not valid UTF-8).
    #[error("the configuration cannot be printed: {0}")]
    Print(#[from] toml::ser::Error),
}

/// One error in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblem {
    /// The key, such as `listen.address`.
    pub key: String,
    /// The problem with its value.
    pub problem: String,
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.problem)
    }
}

fn lines(mistakes: &[ConfigProblem]) -> String {
    mistakes.iter().map(|mistake| format!("  {mistake}")).collect::<Vec<_>>().join("\n")
}

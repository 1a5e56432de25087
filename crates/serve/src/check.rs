//! Collects what is wrong with single values, so that all of it can be told at once.

use std::{
    collections::BTreeSet,
    fmt,
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use crate::config_error::ConfigError;

/// Longest time that a key may name: a year. Beyond it sums of times could overflow.
const TIME_MS_MAX: u64 = 365 * 24 * 3_600_000;

/// Most that a count may be: semaphores hold no more.
const COUNT_MAX: u64 = 1 << 32;

/// Most workers that a pool can have.
pub(crate) const WORKERS_MAX: u64 = 1024;

/// One thing that is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The key, such as `listen.address`.
    pub key: String,
    /// What is wrong with its value.
    pub problem: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.problem)
    }
}

/// The mistakes found so far. Its methods give some value even for a mistake; [`Checker::finish`] never hands
/// it out.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    mistakes: Vec<Mistake>,
}

impl Checker {
    pub(crate) fn note(&mut self, key: &str, problem: String) {
        self.mistakes.push(Mistake { key: key.to_owned(), problem });
    }

    pub(crate) fn finish<T>(self, value: T) -> Result<T, ConfigError> {
        if self.mistakes.is_empty() { Ok(value) } else { Err(ConfigError::Mistakes(self.mistakes)) }
    }

    pub(crate) fn positive(&mut self, key: &str, value: u64) {
        self.at_least(key, value, 1);
    }

    pub(crate) fn at_least(&mut self, key: &str, value: u64, least: u64) {
        if value < least {
            self.note(key, format!("must be at least {least}, is {value}"));
        }
    }

    /// A number of things.
    pub(crate) fn count(&mut self, key: &str, value: u64) -> usize {
        self.range(key, value, COUNT_MAX);
        usize::try_from(value).unwrap_or(usize::MAX)
    }

    /// A number of worker processes.
    pub(crate) fn workers(&mut self, key: &str, value: u64) {
        self.range(key, value, WORKERS_MAX);
    }

    /// A number that the protocol has 32 bits for.
    pub(crate) fn number(&mut self, key: &str, value: u64) -> u32 {
        self.range(key, value, u32::MAX.into());
        u32::try_from(value).unwrap_or(u32::MAX)
    }

    /// A time in milliseconds.
    pub(crate) fn time(&mut self, key: &str, value: u64) -> Duration {
        self.range(key, value, TIME_MS_MAX);
        Duration::from_millis(value)
    }

    /// At least one and at most `most`.
    pub(crate) fn range(&mut self, key: &str, value: u64, most: u64) {
        if value == 0 || value > most {
            self.note(key, format!("must be 1 to {most}, is {value}"));
        }
    }

    pub(crate) fn address(&mut self, key: &str, text: &str) -> SocketAddr {
        text.parse().unwrap_or_else(|_| {
            self.note(key, format!("must be an IP address and a port such as 0.0.0.0:50051, is {text:?}"));
            (Ipv4Addr::LOCALHOST, 0).into()
        })
    }

    pub(crate) fn url(&mut self, key: &str, text: &str) {
        self.url_of(key, text, &["http"]);
    }

    /// Of gRPC services, with commas between, which may be reached with TLS: all of them or none.
    pub(crate) fn service_urls(&mut self, key: &str, text: &str) {
        for url in text.split(',') {
            self.url_of(key, url, &["http", "https"]);
        }
        if text.split(',').any(|url| url.starts_with("https://") != text.starts_with("https://")) {
            self.note(key, "has both https:// and http://".to_owned());
        }
    }

    pub(crate) fn url_of(&mut self, key: &str, text: &str, schemes: &[&str]) {
        let uri: Option<http::Uri> = text.parse().ok();
        let scheme = uri.as_ref().and_then(http::Uri::scheme_str);
        let is_known = scheme.is_some_and(|scheme| schemes.contains(&scheme));
        if !is_known || uri.and_then(|uri| uri.host().map(str::len)).is_none() {
            let forms = schemes.iter().map(|scheme| format!("{scheme}://host:4317")).collect::<Vec<_>>();
            self.note(key, format!("must be a URL such as {}, is {text:?}", forms.join(" or ")));
        }
    }
}

/// Keys that there were, and what is said instead now.
const GONE: [(&str, &str); 1] = [(
    "sandbox.limit_speculation",
    "say sandbox.limit_store_bypass and sandbox.limit_indirect_branches, which are off by default",
)];

/// Names every key of `table` that `known` does not have.
pub(crate) fn find_unknown(
    table: &toml::Table,
    known: &toml::Table,
    prefix: &str,
    unknown: &mut Vec<Mistake>,
) {
    for (name, value) in table {
        let key = format!("{prefix}{name}");
        match (value, known.get(name)) {
            (toml::Value::Table(inner), Some(toml::Value::Table(known))) => {
                find_unknown(inner, known, &format!("{key}."), unknown);
            }
            (_, Some(_)) => {}
            (_, None) => {
                let near: BTreeSet<&str> = known.keys().map(String::as_str).collect();
                let near = near.into_iter().collect::<Vec<_>>().join(", ");
                let problem = match GONE.iter().find(|(gone, _)| *gone == key) {
                    Some((_, instead)) => format!("no such key any more: {instead}"),
                    None => format!("no such key; there are {near}"),
                };
                unknown.push(Mistake { key, problem });
            }
        }
    }
}

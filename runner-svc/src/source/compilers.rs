//! Several compilers: the order in which a script tries them.
//!
//! Each script has an order of the compilers that is the same on every runner (rendezvous hashing of its
//! digest and their addresses), so equal scripts share one compile. A busy or unreachable compiler is skipped
//! for the next. Two compiles of the same script are wasteful but correct.

use std::{path::Path, time::Duration};

use antares_client::{
    Connector, Error, TlsClient, TlsError,
    balance::Balance,
    circuit_breaker::CircuitSettings,
    credentials::{Connection, Credentials, Token, bearer},
    resolve::{ResolveSettings, Resolver, Url},
};
use antares_config::Config;
use antares_proto::v1::compiler_service_client::CompilerServiceClient;
use antares_serve::{Metrics, inject, keep, watch_files, watch_tls};
use antares_trust::KeyError;
use tonic::metadata::{Ascii, MetadataValue};

use crate::limits::{CONNECT_TIME_MAX, RESOLVE_INTERVAL};

/// Resolution of names to compilers.
const RESOLVE: ResolveSettings = ResolveSettings {
    // There are fewer compilers than runners.
    addresses_max: 256,
    circuit: CircuitSettings {
        // A script's artifacts are at its first compiler, so calls should return there soon.
        open: Duration::from_secs(1),
        open_max: Duration::from_secs(15),
    },
};

/// Resolution of names to compilers for proxied calls.
const RESOLVE_FOR_CALLERS: ResolveSettings = ResolveSettings {
    // Longer than it takes to detect a silent compiler: a caller that retries, also through other runners,
    // meets each silent compiler once per runner.
    circuit: CircuitSettings { open: Duration::from_secs(30), open_max: Duration::from_secs(30) },
    ..RESOLVE
};

/// A compiler that is silent for twice as long is unreachable: its calls move to the next one.
const KEEPALIVE: Duration = Duration::from_secs(5);

/// Bytes of a proxied response that are read ahead of its caller.
const WINDOW_BYTES: u32 = 64 << 10;

/// Longest accepted message in bytes: a chunk and its envelope.
const MESSAGE_BYTES_MAX: usize = 20 << 20;

/// Why a compiler service cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The URL is invalid.
    #[error("runner.compiler_url")]
    Url(#[from] Error),
    /// The TLS files are invalid.
    #[error("runner.compiler_ca, runner.compiler_certificate, runner.compiler_key")]
    Tls(#[from] TlsError),
    /// The token is invalid.
    #[error("runner.compiler_token_file")]
    Token(#[source] std::io::Error),
    /// The list of trusted keys is invalid.
    #[error("signing.trusted")]
    Keys(#[from] KeyError),
}

/// A client of the compiler on `connection`.
pub(crate) fn client(connection: Connection) -> CompilerServiceClient<Connection> {
    CompilerServiceClient::new(connection).max_decoding_message_size(MESSAGE_BYTES_MAX)
}

/// Credentials of calls to compilers; the token file is reread whenever it changes.
pub(crate) fn credentials(token_file: Option<&Path>, metrics: &Metrics) -> std::io::Result<Credentials> {
    let mut credentials = Credentials { also: Some(inject), ..Credentials::default() };
    if let Some(path) = token_file {
        let path = path.to_owned();
        let token = Token::new(token(&path)?);
        credentials.token = Some(token.clone());
        watch_files("token", vec![path.clone()], metrics, move || {
            token.set(self::token(&path)?);
            Ok::<_, std::io::Error>(())
        });
    }
    Ok(credentials)
}

fn token(path: &Path) -> std::io::Result<MetadataValue<Ascii>> {
    let none = || {
        let problem = format!("{} has no token", path.display());
        std::io::Error::new(std::io::ErrorKind::InvalidData, problem)
    };
    bearer(std::fs::read_to_string(path)?.trim()).ok_or_else(none)
}

/// The compilers that `config` names, resolved periodically: for the runner's own calls and for proxied ones.
/// Call it within a runtime.
pub(crate) fn compilers(config: &Config, metrics: &Metrics) -> Result<[Balance; 2], RemoteError> {
    let limits = &config.runner;
    let is_tls = limits.compiler_urls.iter().any(|url| url.starts_with("https://"));
    let tls = is_tls.then(|| TlsClient::load(&config.compiler_tls)).transpose()?;
    tls.iter().for_each(|tls| watch_tls(tls, metrics));
    let urls = limits.compiler_urls.iter().map(|url| Url::parse(url)).collect::<Result<Vec<_>, _>>()?;
    let follow = |task, settings, window_bytes| {
        let (time_max, keepalive) = (CONNECT_TIME_MAX, KEEPALIVE);
        let connector = Connector { tls: tls.clone(), time_max, keepalive, window_bytes };
        let resolver = Resolver::new(urls.clone(), settings, connector);
        let compilers = resolver.by_name()?;
        let balance = compilers.clone();
        keep(task, move || look_up(balance.clone(), resolver.clone()));
        Ok::<_, RemoteError>(compilers)
    };
    let compilers = follow("compiler names", RESOLVE, None)?;
    let known = metrics.gauge("antares_compilers", "Compiler services that this runner knows of.");
    let watched = compilers.clone();
    metrics.before_scrape(move || known.set(i64::try_from(watched.servers().len()).unwrap_or(i64::MAX)));
    Ok([compilers, follow("compiler names of callers", RESOLVE_FOR_CALLERS, Some(WINDOW_BYTES))?])
}

/// Resolves the names periodically. A name that fails to resolve keeps its last addresses.
async fn look_up(compilers: Balance, mut resolver: Resolver) {
    loop {
        let resolved = resolver.look_up(&compilers, false).await;
        for (url, error) in &resolved.missing {
            let url = url.text();
            match error {
                None => tracing::warn!(url, "the name of the compiler service has no address"),
                Some(error) => tracing::warn!(url, %error, "the name of the compiler service is not found"),
            }
        }
        if let Some(compilers) = resolved.changed {
            tracing::info!(compilers, "the compilers have changed");
        }
        tokio::time::sleep(RESOLVE_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_a_line_is_a_token() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        assert!(token(&path).is_err());
        for (text, expected) in [("a.b.c\n", Some("Bearer a.b.c")), ("\n", None), ("a\nb", None)] {
            std::fs::write(&path, text).unwrap();
            let value = token(&path).ok().map(|value| value.to_str().unwrap().to_owned());
            assert_eq!(value.as_deref(), expected);
        }
    }
}

//! Credentials for a server, and its trusted authorities: options first, then the environment.

use std::{env, ffi::OsString, path::PathBuf};

use antares_client::{
    TlsClient, TlsFiles,
    credentials::{Credentials, TOKEN_BYTES_MAX, Token, bearer_in},
    resolve::is_private,
};
use anyhow::{Context as _, anyhow};

use crate::{args::credentials::CredentialArgs, failure::Failure, input};

/// The option, else the variable; an empty variable counts as unset.
fn pick(option: Option<&PathBuf>, variable: &str) -> Option<PathBuf> {
    let said = |word: OsString| (!word.is_empty()).then(|| PathBuf::from(word));
    option.cloned().or_else(|| env::var_os(variable).and_then(said))
}

/// TLS for `url`, if it is `https://`.
pub(crate) fn tls(url: &str, args: &CredentialArgs) -> Result<Option<TlsClient>, Failure> {
    if !url.starts_with("https://") {
        let named =
            [("--tls-ca", &args.tls_ca), ("--tls-cert", &args.tls_cert), ("--tls-key", &args.tls_key)];
        return match named.into_iter().find(|(_, value)| value.is_some()) {
            Some((name, _)) => {
                Err(Failure::Usage(anyhow!("{name} makes no sense with {url}: it is not https://")))
            }
            None => Ok(None),
        };
    }
    let files = TlsFiles {
        ca: pick(args.tls_ca.as_ref(), "ANTARES_TLS_CA"),
        certificate: pick(args.tls_cert.as_ref(), "ANTARES_TLS_CERT"),
        key: pick(args.tls_key.as_ref(), "ANTARES_TLS_KEY"),
    };
    match (&files.certificate, &files.key) {
        (Some(_), None) => {
            return Err(Failure::Usage(anyhow!("--tls-cert needs --tls-key, or ANTARES_TLS_KEY")));
        }
        (None, Some(_)) => {
            return Err(Failure::Usage(anyhow!("--tls-key needs --tls-cert, or ANTARES_TLS_CERT")));
        }
        _ => {}
    }
    TlsClient::load(&files).map(Some).map_err(|error| Failure::Usage(error.into()))
}

/// Credentials for calls to `url`. A token is never sent over an unencrypted connection.
pub(crate) fn credentials(url: &str, args: &CredentialArgs) -> Result<Credentials, Failure> {
    let Some(path) = pick(args.token_file.as_ref(), "ANTARES_TOKEN_FILE") else {
        return Ok(Credentials::default());
    };
    if !is_private(url) {
        let problem = "a token is not sent without encryption, but to this machine: use https://";
        return Err(Failure::Usage(anyhow!("{url}: {problem}")));
    }
    let wrong = || format!("{} has no token in it: one word of plain characters", path.display());
    let value =
        bearer_in(&input::read(&path, TOKEN_BYTES_MAX)?).with_context(wrong).map_err(Failure::Usage)?;
    Ok(Credentials { token: Some(Token::new(value)), ..Credentials::default() })
}

#[cfg(test)]
mod tests {
    use tonic::{Request, service::Interceptor as _};

    use super::*;

    #[test]
    fn a_token_stays_where_nobody_reads_along() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let args = CredentialArgs { token_file: Some(file.clone()), ..CredentialArgs::default() };
        std::fs::write(&file, "abc.def\n").unwrap();
        for url in ["https://host:1", "http://127.0.0.1:1", "http://[::1]:1", "http://localhost:1"] {
            let mut credentials = credentials(url, &args).unwrap();
            let request = credentials.call(Request::new(())).unwrap();
            assert_eq!(request.metadata().get("authorization").unwrap(), "Bearer abc.def");
        }
        assert!(matches!(credentials("http://host:1", &args), Err(Failure::Usage(_))));
        for wrong in ["", "two words", "\u{e9}"] {
            std::fs::write(&file, wrong).unwrap();
            assert!(matches!(credentials("https://host:1", &args), Err(Failure::Usage(_))), "{wrong}");
        }
    }

    #[test]
    fn options_for_tls_need_it() {
        let args = CredentialArgs { tls_ca: Some("ca".into()), ..CredentialArgs::default() };
        let error = tls("http://host:1", &args).unwrap_err().to_string();
        assert!(error.contains("--tls-ca") && error.contains("https://"), "{error}");
        assert!(tls("http://host:1", &CredentialArgs::default()).unwrap().is_none());
        let args = CredentialArgs { tls_cert: Some("cert".into()), ..CredentialArgs::default() };
        assert!(tls("https://host:1", &args).unwrap_err().to_string().contains("--tls-key"));
        let args = CredentialArgs { tls_ca: Some("/nowhere/ca".into()), ..CredentialArgs::default() };
        assert!(tls("https://host:1", &args).unwrap_err().to_string().contains("/nowhere/ca"));
    }
}

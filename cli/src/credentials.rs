//! What is shown to a server, and whom it must be signed by: options first, then the environment.

use std::{env, ffi::OsString, path::PathBuf};

use antares_config::ClientFiles;
use antares_serve::TlsClient;
use anyhow::{Context as _, anyhow};
use tonic::{
    Request, Status,
    metadata::{Ascii, MetadataValue},
    service::Interceptor,
};

use crate::{args::credentials::CredentialArgs, failure::Failure, input};

/// Longest token that is sent, bytes.
const TOKEN_BYTES_MAX: u64 = 16 << 10;

/// What every call carries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Token(Option<MetadataValue<Ascii>>);

impl Interceptor for Token {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", token.clone());
        }
        Ok(request)
    }
}

/// Where an answer comes from: the option, else the variable; an empty variable is none.
fn pick(option: Option<&PathBuf>, variable: &str) -> Option<PathBuf> {
    let said = |word: OsString| (!word.is_empty()).then(|| PathBuf::from(word));
    option.cloned().or_else(|| env::var_os(variable).and_then(said))
}

/// TLS towards `url`, where it is `https://`.
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
    let files = ClientFiles {
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

/// The token for `url`. It is not sent where others could read it on its way.
pub(crate) fn token(url: &str, args: &CredentialArgs) -> Result<Token, Failure> {
    let Some(path) = pick(args.token_file.as_ref(), "ANTARES_TOKEN_FILE") else {
        return Ok(Token::default());
    };
    if !url.starts_with("https://") && !is_loopback(url) {
        let problem = "a token is not sent without encryption, but to this machine: use https://";
        return Err(Failure::Usage(anyhow!("{url}: {problem}")));
    }
    let bytes = input::read(&path, TOKEN_BYTES_MAX)?;
    let text = String::from_utf8(bytes).ok().map(|text| text.trim().to_owned());
    let plain = text.filter(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()));
    let wrong = || format!("{} has no token in it: one word of plain characters", path.display());
    let value = plain.with_context(wrong).map_err(Failure::Usage)?;
    let mut value: MetadataValue<Ascii> =
        format!("Bearer {value}").parse().with_context(wrong).map_err(Failure::Usage)?;
    value.set_sensitive(true);
    Ok(Token(Some(value)))
}

fn is_loopback(url: &str) -> bool {
    if url.starts_with("unix://") {
        return true;
    }
    let uri: Option<tonic::transport::Uri> = url.parse().ok();
    let host = uri.as_ref().and_then(|uri| uri.host()).unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_stays_where_nobody_reads_along() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let args = CredentialArgs { token_file: Some(file.clone()), ..CredentialArgs::default() };
        std::fs::write(&file, "abc.def\n").unwrap();
        for url in ["https://host:1", "http://127.0.0.1:1", "http://[::1]:1", "http://localhost:1"] {
            let mut token = token(url, &args).unwrap();
            let request = token.call(Request::new(())).unwrap();
            assert_eq!(request.metadata().get("authorization").unwrap(), "Bearer abc.def");
        }
        assert!(matches!(token("http://host:1", &args), Err(Failure::Usage(_))));
        for wrong in ["", "two words", "\u{e9}"] {
            std::fs::write(&file, wrong).unwrap();
            assert!(matches!(token("https://host:1", &args), Err(Failure::Usage(_))), "{wrong}");
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
        let error = tls(
            "https://host:1",
            &CredentialArgs { tls_ca: Some("/nowhere/ca".into()), ..CredentialArgs::default() },
        );
        assert!(error.unwrap_err().to_string().contains("/nowhere/ca"));
    }
}

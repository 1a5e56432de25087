//! Configuration of a client.

use std::{path::PathBuf, time::Duration};

use tonic::metadata::{Ascii, MetadataValue};

use crate::{
    Client, Error, TlsFiles,
    call::Inner,
    connect::{Connector, connect},
    credentials::{Credentials, Token},
    resolve::{Url, is_private},
    retry::Budget,
};

/// Default deadline of a call: the servers' default limit.
const DEADLINE: Duration = Duration::from_secs(300);

/// Builds a [`Client`].
#[derive(Clone, Debug, Default)]
pub struct Builder {
    servers: Vec<String>,
    token_file: Option<PathBuf>,
    tenant: Option<String>,
    deadline: Option<Duration>,
    tls: TlsFiles,
    connector: Connector,
}

impl Builder {
    /// Servers by URL, `https://host:port` or `http://host:port`. A host may have many addresses (a headless
    /// service): each is a server, and they are resolved every ten seconds.
    #[must_use]
    pub fn servers<U: Into<String>>(mut self, urls: impl IntoIterator<Item = U>) -> Self {
        self.servers = urls.into_iter().map(Into::into).collect();
        self
    }

    /// Trusted authorities and the client's certificate.
    #[must_use]
    pub fn tls(mut self, files: TlsFiles) -> Self {
        self.tls = files;
        self
    }

    /// A file with the token for every call. It may be renewed.
    #[must_use]
    pub fn token_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.token_file = Some(path.into());
        self
    }

    /// The tenant of these calls, where servers do not derive it from a certificate or token: 1 to 64
    /// letters, digits, '.', '_' or '-'.
    #[must_use]
    pub fn tenant(mut self, name: impl Into<String>) -> Self {
        self.tenant = Some(name.into());
        self
    }

    /// Longest time of a call, with all its attempts. Default 300 s, which is also the servers' default
    /// limit.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Longest wait for a connection. Default 5 s.
    #[must_use]
    pub fn connect_time_max(mut self, time: Duration) -> Self {
        self.connector.time_max = time;
        self
    }

    /// Builds the client; connections are made on demand. Call it within a tokio runtime.
    ///
    /// # Errors
    /// A URL, a file or the tenant's name is invalid, or the token would travel unencrypted.
    pub fn build(self) -> Result<Client, Error> {
        let urls: Vec<Url> =
            self.servers.iter().map(|url| Url::parse(url)?.without_path()).collect::<Result<_, _>>()?;
        if urls.is_empty() {
            return Err(Error::NoServer);
        }
        let token = self.token_file.map(Token::file).transpose()?;
        if let Some(url) = urls.iter().find(|url| token.is_some() && !is_private(&url.text)) {
            return Err(Error::TokenInTheOpen { url: url.text.clone() });
        }
        let tenant = self.tenant.as_deref().map(tenant).transpose()?;
        if let (Some(path), None) | (None, Some(path)) = (&self.tls.certificate, &self.tls.key)
            && urls.iter().any(Url::is_tls)
        {
            let problem = "a certificate and its key come together".to_owned();
            return Err(Error::File { path: path.clone(), problem });
        }
        let servers = connect(urls, &self.tls, self.connector)?;
        let credentials = Credentials { token, tenant, also: None };
        Ok(Client::new(
            Inner { servers, budget: Budget::default(), credentials },
            self.deadline.unwrap_or(DEADLINE),
        ))
    }
}

/// A tenant's name as a header.
fn tenant(name: &str) -> Result<MetadataValue<Ascii>, Error> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let problem = "the name of a tenant is 1 to 64 letters, digits, '.', '_' or '-'";
    let wrong = || Error::Url { url: name.to_owned(), problem: problem.to_owned() };
    if !(1..=64).contains(&name.len()) || !name.bytes().all(is_plain) {
        return Err(wrong());
    }
    name.parse().map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_makes_no_sense_makes_no_client() {
        assert!(matches!(Client::builder().build(), Err(Error::NoServer)));
        let here = || Client::builder().servers(["http://127.0.0.1:1"]);
        assert!(here().tenant("one").build().is_ok());
        for wrong in ["", "two words", &"a".repeat(65)] {
            assert!(here().tenant(wrong).build().is_err(), "{wrong:?}");
        }
        let folder = tempfile::tempdir().unwrap();
        let token = folder.path().join("token");
        std::fs::write(&token, "abc").unwrap();
        assert!(here().token_file(&token).build().is_ok());
        let open = Client::builder().servers(["https://there", "http://there"]).token_file(&token).build();
        assert!(matches!(open, Err(Error::TokenInTheOpen { url }) if url == "http://there"));
        let files = TlsFiles { ca: Some(folder.path().join("none")), ..TlsFiles::default() };
        let missing = Client::builder().servers(["https://there"]).tls(files).build();
        assert!(matches!(missing, Err(Error::File { .. })));
    }
}

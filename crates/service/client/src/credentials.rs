//! Credentials of every call: its tenant, and the token, which may be renewed.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tonic::{
    Request, Status,
    metadata::{Ascii, MetadataMap, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::Channel,
};

use crate::Error;

/// Longest token, bytes.
pub const TOKEN_BYTES_MAX: u64 = 16 << 10;
/// How old cached file contents may be.
const FRESH: Duration = Duration::from_secs(1);
/// Header with the tenant.
const TENANT: &str = "antares-tenant";

/// A channel that adds credentials to every call.
pub type Connection = InterceptedService<Channel, Credentials>;

/// Metadata of every call.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// Authenticates the caller.
    pub token: Option<Token>,
    /// The tenant, where a server accepts it from the caller.
    pub tenant: Option<MetadataValue<Ascii>>,
    /// Other metadata, such as the call's trace.
    pub also: Option<fn(&mut MetadataMap)>,
}

impl Credentials {
    /// `channel` with these credentials on every call.
    #[must_use]
    pub fn on(&self, channel: Channel) -> Connection {
        InterceptedService::new(channel, self.clone())
    }
}

impl Interceptor for Credentials {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let metadata = request.metadata_mut();
        self.also.into_iter().for_each(|also| also(metadata));
        if let Some(token) = &self.token {
            metadata.insert("authorization", token.now());
        }
        if let Some(tenant) = &self.tenant {
            metadata.insert(TENANT, tenant.clone());
        }
        Ok(request)
    }
}

/// A bearer token with its current value. Clones share it.
#[derive(Clone, Debug)]
pub struct Token(Arc<Held>);

#[derive(Debug)]
struct Held {
    value: ArcSwap<MetadataValue<Ascii>>,
    /// The file to reread, and its last read.
    file: Option<(PathBuf, Mutex<Instant>)>,
}

impl Token {
    /// A token from [`bearer`].
    #[must_use]
    pub fn new(value: MetadataValue<Ascii>) -> Self {
        Self(Arc::new(Held { value: ArcSwap::from_pointee(value), file: None }))
    }

    /// The token in the file `path`, which is reread before calls.
    pub(crate) fn file(path: PathBuf) -> Result<Self, Error> {
        let value = ArcSwap::from_pointee(read(&path)?);
        Ok(Self(Arc::new(Held { value, file: Some((path, Mutex::new(Instant::now()))) })))
    }

    /// Uses `value` for calls from now on.
    pub fn set(&self, value: MetadataValue<Ascii>) {
        self.0.value.store(Arc::new(value));
    }

    /// The current value. An invalid file keeps the last token in force.
    fn now(&self) -> MetadataValue<Ascii> {
        if let Some((path, read_at)) = &self.0.file {
            let mut read_at = read_at.lock();
            if read_at.elapsed() >= FRESH {
                *read_at = Instant::now();
                read(path).into_iter().for_each(|value| self.set(value));
            }
        }
        (**self.0.value.load()).clone()
    }
}

/// `word` as a header for servers; none if it is empty or invalid in a header.
#[must_use]
pub fn bearer(word: &str) -> Option<MetadataValue<Ascii>> {
    let mut value: MetadataValue<Ascii> = format!("Bearer {word}").parse().ok()?;
    value.set_sensitive(true);
    (!word.is_empty()).then_some(value)
}

/// The token in `text`, if that is one word of plain characters.
#[must_use]
pub fn bearer_in(text: &[u8]) -> Option<MetadataValue<Ascii>> {
    let word = std::str::from_utf8(text).ok()?.trim();
    word.bytes().all(|byte| byte.is_ascii_graphic()).then(|| bearer(word))?
}

fn read(path: &Path) -> Result<MetadataValue<Ascii>, Error> {
    let wrong = || Error::File {
        path: path.to_owned(),
        problem: "there is no token in it: one word of plain characters".to_owned(),
    };
    let file = |error| Error::file(path, &error);
    if fs::metadata(path).map_err(file)?.len() > TOKEN_BYTES_MAX {
        return Err(wrong());
    }
    bearer_in(fs::read_to_string(path).map_err(file)?.as_bytes()).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn carried(credentials: &Credentials) -> MetadataMap {
        credentials.clone().call(Request::new(())).unwrap().metadata().clone()
    }

    #[test]
    fn a_token_is_one_word() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        assert!(matches!(Token::file(path.clone()), Err(Error::File { .. })));
        for wrong in ["", " \n", "two words", "\u{e9}"] {
            fs::write(&path, wrong).unwrap();
            assert!(matches!(Token::file(path.clone()), Err(Error::File { .. })), "{wrong:?}");
        }
        fs::write(&path, vec![b'a'; 16385]).unwrap();
        assert!(matches!(Token::file(path.clone()), Err(Error::File { .. })));
        fs::write(&path, "abc.def\n").unwrap();
        let value = Token::file(path.clone()).unwrap().now();
        assert_eq!(value, "Bearer abc.def");
        assert!(value.is_sensitive());
        assert_eq!((bearer(""), bearer("a\nb"), bearer_in(b"\xff")), (None, None, None));
    }

    #[test]
    fn a_file_that_changes_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        fs::write(&path, "old").unwrap();
        let token = Token::file(path.clone()).unwrap();
        let age = || *token.0.file.as_ref().unwrap().1.lock() -= FRESH;
        fs::write(&path, "new").unwrap();
        age();
        assert_eq!(token.now(), "Bearer new");
        fs::write(&path, "not a token").unwrap();
        age();
        assert_eq!(token.now(), "Bearer new");
    }

    #[test]
    fn calls_carry_what_they_are_given() {
        assert!(carried(&Credentials::default()).is_empty());
        let token = Token::new(bearer("one").unwrap());
        let also: fn(&mut MetadataMap) =
            |metadata| drop(metadata.insert("traceparent", "00-1".parse().unwrap()));
        let tenant = Some("wallet".parse().unwrap());
        let credentials = Credentials { token: Some(token.clone()), tenant, also: Some(also) };
        let values = |metadata: &MetadataMap| {
            ["authorization", TENANT, "traceparent"].map(|key| metadata.get(key).cloned().unwrap())
        };
        assert_eq!(values(&carried(&credentials)), ["Bearer one", "wallet", "00-1"]);
        token.set(bearer("two").unwrap());
        assert_eq!(values(&carried(&credentials))[0], "Bearer two", "clones share it");
    }
}

//! The token that every call carries: a word, or a file that may change.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use tonic::metadata::{Ascii, MetadataValue};

use crate::Error;

/// Longest token, bytes.
const TOKEN_BYTES_MAX: u64 = 16 << 10;
/// How old what was read of a file may be.
const FRESH: Duration = Duration::from_secs(1);

/// Where the token comes from.
#[derive(Debug)]
pub(crate) enum Token {
    None,
    File { path: PathBuf, read: Mutex<(Instant, MetadataValue<Ascii>)> },
}

impl Token {
    pub(crate) fn file(path: PathBuf) -> Result<Self, Error> {
        let read = Mutex::new((Instant::now(), read(&path)?));
        Ok(Self::File { path, read })
    }

    pub(crate) fn is_some(&self) -> bool {
        matches!(self, Self::File { .. })
    }

    /// What a call carries now. A file that is of no use leaves the last token in force.
    pub(crate) fn now(&self) -> Option<MetadataValue<Ascii>> {
        let Self::File { path, read: kept } = self else { return None };
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.0.elapsed() >= FRESH {
            kept.0 = Instant::now();
            if let Ok(value) = read(path) {
                kept.1 = value;
            }
        }
        Some(kept.1.clone())
    }
}

fn read(path: &Path) -> Result<MetadataValue<Ascii>, Error> {
    let wrong = || Error::File {
        path: path.to_owned(),
        problem: "there is no token in it: one word of plain characters".to_owned(),
    };
    if fs::metadata(path).map_err(|error| Error::file(path, &error))?.len() > TOKEN_BYTES_MAX {
        return Err(wrong());
    }
    let text = fs::read_to_string(path).map_err(|error| Error::file(path, &error))?;
    let word = text.trim();
    if word.is_empty() || !word.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(wrong());
    }
    let mut value: MetadataValue<Ascii> = format!("Bearer {word}").parse().map_err(|_| wrong())?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let token = Token::file(path.clone()).unwrap();
        let value = token.now().unwrap();
        assert_eq!(value, "Bearer abc.def");
        assert!(value.is_sensitive());
    }

    #[test]
    fn a_file_that_changes_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        fs::write(&path, "old").unwrap();
        let token = Token::file(path.clone()).unwrap();
        let age = |token: &Token| match token {
            Token::File { read, .. } => read.lock().unwrap().0 -= FRESH,
            Token::None => {}
        };
        fs::write(&path, "new").unwrap();
        age(&token);
        assert_eq!(token.now().unwrap(), "Bearer new");
        fs::write(&path, "not a token").unwrap();
        age(&token);
        assert_eq!(token.now().unwrap(), "Bearer new");
    }
}

//! A bearer token in a file that others renew.

use std::{io, path::Path, sync::Arc};

use arc_swap::ArcSwap;
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};

use crate::{metrics::Metrics, reload};

/// The token, as the file has it now.
#[derive(Clone, Debug)]
pub struct TokenFile(Arc<ArcSwap<MetadataValue<Ascii>>>);

impl TokenFile {
    /// Reads `path`, and again whenever it changes. Call it within the runtime.
    ///
    /// # Errors
    /// It cannot be read, or has no token.
    pub fn watch(path: &Path, metrics: &Metrics) -> io::Result<Self> {
        let current = Arc::new(ArcSwap::from_pointee(read(path)?));
        let (shared, file) = (current.clone(), path.to_owned());
        reload::watch("token", vec![path.to_owned()], metrics, move || {
            shared.store(Arc::new(read(&file)?));
            Ok::<_, io::Error>(())
        });
        Ok(Self(current))
    }

    /// Puts it where servers look for it.
    pub fn show(&self, metadata: &mut MetadataMap) {
        metadata.insert("authorization", (**self.0.load()).clone());
    }
}

fn read(path: &Path) -> io::Result<MetadataValue<Ascii>> {
    let text = std::fs::read_to_string(path)?;
    let none = || io::Error::new(io::ErrorKind::InvalidData, format!("{} has no token", path.display()));
    let token = text.trim();
    let mut value: MetadataValue<Ascii> = format!("Bearer {token}").parse().map_err(|_| none())?;
    value.set_sensitive(true);
    if token.is_empty() { Err(none()) } else { Ok(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_a_line_is_a_token() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        assert!(read(&path).is_err());
        for (text, expected) in [("a.b.c\n", Some("Bearer a.b.c")), ("\n", None), ("a\nb", None)] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(read(&path).ok().map(|value| value.to_str().unwrap().to_owned()).as_deref(), expected);
        }
    }
}

//! Source files, as compilers name them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::limits::SOURCE_BYTES_MAX;

/// Where source files may be: the command's folder and below. What an ELF says may name any file there is.
pub(crate) struct Folders(Option<PathBuf>);

impl Folders {
    pub(crate) fn of_command() -> Self {
        Self(std::env::current_dir().and_then(fs::canonicalize).ok())
    }

    /// The text of a file that a compiler has named, by its path or the end of it.
    pub(crate) fn read(&self, file: &str) -> Option<String> {
        let folder = self.0.as_ref()?;
        let mut parts: Vec<_> = Path::new(file).components().collect();
        while !parts.is_empty() {
            let path = folder.join(parts.iter().collect::<PathBuf>());
            let found =
                fs::canonicalize(path).ok().filter(|found| found.starts_with(folder) && found.is_file());
            if let Some(found) = found {
                let is_short = found.metadata().is_ok_and(|it| it.len() <= SOURCE_BYTES_MAX);
                return is_short.then(|| fs::read_to_string(found).ok()).flatten();
            }
            parts.remove(0);
        }
        None
    }
}

//! Text substitutions that must apply exactly once, so that upstream changes are detected.

#[derive(Clone, Copy, Debug)]
pub(super) struct Patch {
    /// File, relative to the build folder.
    pub(super) file: &'static str,
    /// The text to replace, which must occur once.
    pub(super) from: &'static str,
    pub(super) to: &'static str,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: expected once, found {found} times: {from:?}")]
pub(super) struct Misfit {
    file: &'static str,
    from: &'static str,
    found: usize,
}

impl Patch {
    pub(super) fn apply(&self, text: &str) -> Result<String, Misfit> {
        match text.matches(self.from).count() {
            1 => Ok(text.replacen(self.from, self.to, 1)),
            found => Err(Misfit { file: self.file, from: self.from, found }),
        }
    }
}

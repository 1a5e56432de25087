//! Findings of the rules.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    /// To be fixed soon.
    Warning,
    /// Fails the check.
    Failure,
}

/// A location and its problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Whether the finding fails the check.
    pub weight: Weight,
    /// Path in the tree.
    pub path: String,
    /// Line, from 1; `None` for the whole file.
    pub line: Option<usize>,
    /// The problem, and the remedy.
    pub text: String,
}

impl Finding {
    /// A failure of the whole file.
    pub(crate) fn of_file(path: &str, text: impl Into<String>) -> Self {
        Self { weight: Weight::Failure, path: path.to_owned(), line: None, text: text.into() }
    }

    /// A failure at a line; `index` counts from 0.
    pub(crate) fn of_line(path: &str, index: usize, text: impl Into<String>) -> Self {
        Self { line: Some(index + 1), ..Self::of_file(path, text) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weight = match self.weight {
            Weight::Warning => "warning",
            Weight::Failure => "failure",
        };
        match self.line {
            Some(line) => write!(f, "{weight}: {}:{line}: {}", self.path, self.text),
            None => write!(f, "{weight}: {}: {}", self.path, self.text),
        }
    }
}

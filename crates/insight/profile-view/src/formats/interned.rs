//! Interned text.

use std::collections::HashMap;

/// Texts, numbered in the order of their first use.
#[derive(Debug, Default)]
pub(super) struct Interned {
    numbers: HashMap<String, usize>,
    pub(super) texts: Vec<String>,
}

impl Interned {
    pub(super) fn number(&mut self, text: &str) -> usize {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        self.texts.push(text.to_owned());
        self.numbers.insert(text.to_owned(), self.texts.len() - 1);
        self.texts.len() - 1
    }
}

//! Text by number.

use std::collections::HashMap;

/// Text numbered in the order in which it is first asked for.
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

//! The page of compiles that failed and are not tried again for now.

use std::time::Instant;

use antares_serve::{Page, PageAnswer};

use crate::Compiler;

/// Where the list is, beside `/metrics`.
const PATH: &str = "/compiles/failing";

/// The list, as text.
#[must_use]
pub fn page(compiler: &Compiler) -> Page {
    let failing = compiler.shared.failing.clone();
    Page::new(PATH, move |_| {
        let bytes = failing.list(Instant::now()).into_bytes();
        async move { PageAnswer::Found { media_type: "text/plain; charset=utf-8", bytes } }
    })
}

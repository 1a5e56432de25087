//! Files under version control with the expected output of tests.

use std::{env, fs, path::Path};

/// Asserts that the file `path` has the contents `now`; with `BLESS=1`, writes it first.
///
/// # Panics
/// The contents differ.
#[track_caller]
pub fn golden(path: impl AsRef<Path>, now: &str) {
    let path = path.as_ref();
    if env::var_os("BLESS").is_some() {
        fs::write(path, now).expect("the file is ours");
    }
    let written = fs::read_to_string(path).unwrap_or_default();
    for (at, (written, now)) in written.lines().zip(now.lines()).enumerate() {
        assert_eq!(written, now, "{}:{}; BLESS=1 writes it", path.display(), at + 1);
    }
    assert!(written == now, "{} differs; BLESS=1 writes:\n{now}", path.display());
}

//! Changed code has a new artifact key: otherwise caches would return the old code.

use std::{fs, path::PathBuf};

use antares_abi::{CodeTier, Hints, Sha256Digest};
use antares_tests::native::library_with;

use crate::{cases, is_blessing, read};

#[test]
fn changed_code_has_another_key() {
    let (mut inputs, mut code, mut options) = (Vec::new(), Vec::new(), None);
    for path in cases() {
        let case = read(&path);
        let elf = case.elf().unwrap();
        for tier in [CodeTier::Baseline, CodeTier::Full] {
            let library = library_with(&elf, case.options, tier, &Hints::default()).unwrap();
            code.extend(library.unwrap_or_else(String::into_bytes));
        }
        inputs.extend(case.head.into_bytes());
        options = Some(case.options);
    }
    let key = Sha256Digest::for_artifact(Sha256Digest::of(&inputs), options.unwrap(), CodeTier::Full);
    let code = Sha256Digest::of(&code);
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("filetests/engine.txt");
    let known = fs::read_to_string(&path).unwrap_or_default();
    let (known_key, known_code) = known.trim_end().split_once(' ').unwrap_or_default();
    assert!(
        known_key != key.to_string() || known_code == code.to_string(),
        "generated code has changed: raise ENGINE_VERSION in crates/engine/abi/src/artifact.rs"
    );
    if is_blessing() {
        fs::write(&path, format!("{key} {code}\n")).unwrap();
    } else {
        assert_eq!(known, format!("{key} {code}\n"), "BLESS=1 writes the key and digest of today's code");
    }
}

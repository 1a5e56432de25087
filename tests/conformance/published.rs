//! Scripts as others published them. Most ask for a syscall that does not exist yet and end there, equally.

use std::fs;

use antares_tests::guests::{PublishedScript, published_scripts};

use crate::check::{check, script};

/// Larger scripts are compiled for one version only.
const SMALL_BYTES: usize = 128 << 10;

fn check_scripts(version: u32) {
    let scripts = published_scripts().unwrap();
    assert!(scripts.len() >= 60, "only {} scripts were found", scripts.len());
    let mut refused = Vec::new();
    for PublishedScript { name, path } in scripts {
        let elf = fs::read(path).unwrap();
        if elf.len() > SMALL_BYTES && version != 2 {
            continue;
        }
        match check(&name, &elf, &[], script(version)) {
            Ok(equal) => println!("{name}: {equal:?}"),
            Err(reason) => refused.push((name, reason)),
        }
    }
    // What ckb-vm does not load is not compiled either, and ends in the same error.
    println!("refused: {refused:?}");
    assert!(refused.iter().all(|(_, reason)| reason == "elf"), "{refused:?}");
}

#[test]
fn published_scripts_end_alike_in_version_0() {
    check_scripts(0);
}

#[test]
fn published_scripts_end_alike_in_version_1() {
    check_scripts(1);
}

#[test]
fn published_scripts_end_alike_in_version_2() {
    check_scripts(2);
}

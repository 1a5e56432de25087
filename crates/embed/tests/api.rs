//! Golden test of the public API, so that reviews show its changes. `BLESS=1` rewrites the file.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{fs, path::Path};

/// Public items by file, without their bodies.
fn public() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.retain(|path| path.is_file());
    files.sort();
    let mut text = String::new();
    for file in files {
        let source = fs::read_to_string(&file).unwrap();
        text.push_str(&format!("{}\n", file.file_name().unwrap().to_string_lossy()));
        let mut lines = source.lines();
        while let Some(line) = lines.next() {
            let trimmed = line.trim_start();
            if !trimmed.starts_with("pub ") {
                continue;
            }
            let mut item = trimmed.to_owned();
            // A signature may span several lines.
            while !item.ends_with(['{', ';', ',', '}']) || item.ends_with(',') && item.contains("fn ") {
                let Some(next) = lines.next() else { break };
                item = format!("{item} {}", next.trim());
            }
            text.push_str(&format!("  {}\n", item.trim_end_matches('{').trim_end()));
        }
    }
    text
}

#[test]
fn what_is_public_is_as_written_down() {
    antares_guests::golden(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/api.txt"), &public());
}

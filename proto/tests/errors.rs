//! The page `docs/reference/errors.md`, from the comments of the .proto files: which reasons a call may end
//! with, and when. `BLESS=1` writes it. Every reason that the services' code has is one of them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The codes, and the functions of `Fault` that make them.
const CODES: [(&str, &[&str]); 10] = [
    ("INVALID_ARGUMENT", &["invalid"]),
    ("FAILED_PRECONDITION", &["precondition"]),
    ("PERMISSION_DENIED", &["denied"]),
    ("NOT_FOUND", &["not_found"]),
    ("RESOURCE_EXHAUSTED", &["exhausted"]),
    ("UNAVAILABLE", &["unavailable"]),
    ("UNAUTHENTICATED", &["unauthenticated"]),
    ("ABORTED", &["aborted"]),
    ("DEADLINE_EXCEEDED", &["late"]),
    ("INTERNAL", &["failed"]),
];

const HEAD: &str = "# Errors

How a script ends is an answer, and no error. A call that ends with an error has a gRPC status, and in its
details an `ErrorInfo` with one of these reasons, domain `antares.v1`. Where the text says `RetryInfo` the
same call may do better later. How to handle them: [how to call us](../calling.md).

This page is made from the comments of [the API](../../proto/antares/v1), by a test of `proto`.

| reason | code | when | calls |
|---|---|---|---|
";

/// Calls that may end with a reason, by when.
#[derive(Default)]
struct Reason {
    when: Vec<String>,
    calls: Vec<String>,
}

/// Reasons by their names and codes.
type Reasons = BTreeMap<(String, String), Reason>;

/// The reasons that `line` of a comment begins to tell, with their code and the start of when.
fn begun(line: &str) -> Option<(&'static str, Vec<String>, String)> {
    let (code, _) = CODES.into_iter().find(|(code, _)| line.starts_with(&format!("{code} ")))?;
    let rest = line[code.len()..].trim_start();
    let is_reason = |word: &str| {
        word.len() > 3
            && word.trim_end_matches(',').bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
    };
    let mut names = Vec::new();
    let mut words = rest.split(' ').peekable();
    while let Some(word) = words.next_if(|word| is_reason(word)) {
        names.push(word.trim_end_matches(',').to_owned());
        if !word.ends_with(',') {
            break;
        }
    }
    (!names.is_empty()).then(|| (code, names, words.collect::<Vec<_>>().join(" ").trim().to_owned()))
}

/// Adds what the comment before a service or a call says.
fn add(reasons: &mut Reasons, comment: &[String], calls: &str) {
    let mut lines = comment.iter().map(|line| line.trim_start_matches('/')).peekable();
    while let Some(line) = lines.next() {
        let Some((code, names, mut when)) = begun(line.trim()) else { continue };
        // What goes on stands where the words of the line before stand.
        while let Some(more) = lines.next_if(|more| more.starts_with(&" ".repeat(20))) {
            when = format!("{when} {}", more.trim());
        }
        for name in names {
            let reason = reasons.entry((name, code.to_owned())).or_default();
            let when = when.trim().to_owned();
            let is_same = |known: &String| known.starts_with(&when) || when.starts_with(known.as_str());
            match reason.when.iter().position(is_same) {
                Some(at) if reason.when[at].len() < when.len() => reason.when[at] = when,
                Some(_) => {}
                None => reason.when.push(when),
            }
            if !reason.calls.iter().any(|known| known == calls) {
                reason.calls.push(calls.to_owned());
            }
        }
    }
}

fn reasons() -> Reasons {
    let mut reasons = Reasons::new();
    let folder = Path::new(ROOT).join("proto/antares/v1");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for file in files {
        let (text, mut comment, mut service) = (fs::read_to_string(file).unwrap(), Vec::new(), String::new());
        for line in text.lines().map(str::trim) {
            if line.starts_with("//") {
                comment.push(line.to_owned());
                continue;
            }
            let name_behind = |word: &str| {
                let name = line.strip_prefix(word)?.split([' ', '(']).next()?;
                Some(name.to_owned())
            };
            if let Some(name) = name_behind("service ") {
                add(&mut reasons, &comment, &format!("all of `{name}`"));
                service = name;
            } else if let Some(name) = name_behind("rpc ") {
                add(&mut reasons, &comment, &format!("`{service}.{name}`"));
            }
            comment.clear();
        }
    }
    reasons
}

#[test]
fn the_page_is_what_the_api_says() {
    let mut page = HEAD.to_owned();
    for ((name, code), reason) in reasons() {
        let when =
            reason.when.iter().filter(|when| !when.is_empty()).cloned().collect::<Vec<_>>().join("; or ");
        assert!(!when.is_empty(), "{name}: nothing says when");
        // Writing to a string does not fail.
        let _ = writeln!(page, "| `{name}` | {code} | {when} | {} |", reason.calls.join(", "));
    }
    antares_guests::golden(Path::new(ROOT).join("docs/reference/errors.md"), &page);
}

/// Reasons with their codes that a file of code has.
fn reasons_in(text: &str) -> Vec<(String, String)> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let mut found = Vec::new();
    for (name, makers) in CODES {
        for maker in makers {
            for rest in code.split(&format!("::{maker}(")).skip(1) {
                let Some(rest) = rest.trim_start().strip_prefix('"') else { continue };
                found.push((rest.split('"').next().unwrap_or_default().to_owned(), name.to_owned()));
            }
        }
    }
    found
}

#[test]
fn every_reason_in_the_code_is_reported() {
    let (reported, mut missing, mut found) = (reasons(), Vec::new(), 0);
    let mut folders: Vec<_> = ["crates/service/serve/src", "compiler-svc/src", "runner-svc/src"]
        .map(|folder| Path::new(ROOT).join(folder))
        .into();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else {
                let reasons = reasons_in(&fs::read_to_string(&path).unwrap());
                found += reasons.len();
                missing.extend(reasons.into_iter().filter(|reason| !reported.contains_key(reason)));
            }
        }
    }
    assert!(found > 60, "{found} are few");
    assert!(missing.is_empty(), "reasons that no comment of the API has: {missing:?}");
}

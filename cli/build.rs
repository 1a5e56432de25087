//! Sets `ANTARES_COMMIT`, the commit of the build: from the environment, else from git, else `unknown`.

use std::{env, process::Command};

fn main() {
    println!("cargo::rerun-if-env-changed=ANTARES_COMMIT");
    // In a worktree, these files are elsewhere.
    for file in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--path-format=absolute", "--git-path", file]) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    println!("cargo::rerun-if-changed=build.rs");
    let reported = env::var("ANTARES_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = reported.or_else(|| git(&["rev-parse", "--short=12", "HEAD"]));
    println!("cargo::rustc-env=ANTARES_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
}

/// Output of git; none without git or outside a repository.
fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

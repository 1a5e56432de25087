//! `antares watch`: tests a folder again when one of its files changes.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::ExitCode,
    thread,
    time::{Duration, SystemTime},
};

use crate::{
    args::test::TestArgs,
    commands::{runnable::collect, test::Suite},
    failure::Failure,
};

/// Interval between polls of the files. Reading the times of a template's files takes far less.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Runs until interrupted, or stops if the folder has no tests at the start.
pub(crate) fn watch(args: &TestArgs) -> Result<ExitCode, Failure> {
    let mut suite = Suite::new(args);
    let mut before = versions(&args.folder);
    suite.run()?.print(args.json)?;
    loop {
        thread::sleep(POLL_INTERVAL);
        let now = versions(&args.folder);
        if now == before {
            continue;
        }
        before = now;
        match suite.run() {
            Ok(round) if round.has_news() => round.print(args.json)?,
            Ok(_) => {}
            // An editor may be replacing a file, or one is gone: the next change may fix it.
            Err(failure) => {
                let _ = failure.report();
            }
        }
    }
}

/// Times and lengths of all files.
fn versions(folder: &Path) -> BTreeMap<PathBuf, Option<(SystemTime, u64)>> {
    let mut found = Vec::new();
    // A folder that is gone meanwhile does not hide the others.
    let _ = collect(folder, &mut found);
    let version = |path: PathBuf| {
        let version = path.metadata().ok().and_then(|data| Some((data.modified().ok()?, data.len())));
        (path, version)
    };
    found.into_iter().map(version).collect()
}

//! The limit on open files, compared with the configuration's needs.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use antares_config::{Config, Role};

/// Descriptors that are not counted: the store, logs, the runtime, the zygotes, connections for probes.
const OTHER_FILES: u64 = 512;

/// Memory files of a call: a script, a transaction, uncached native code.
const FILES_PER_CALL: u64 = 2;

/// Descriptors per worker: a handle, and the files of a job.
const FILES_PER_WORKER: u64 = 4;

/// The limit on open files is too low.
#[derive(Debug, thiserror::Error)]
#[error(
    "this process may have {allowed} files open (RLIMIT_NOFILE), and its configuration can need {needed}: raise the limit, or lower \
     listen.calls_max, runner.ready_bytes_max or runner.hot_cells_bytes_max"
)]
pub struct TooFewFiles {
    allowed: u64,
    needed: u64,
}

/// Raises the limit on open files as far as possible, if the configuration can need it.
///
/// # Errors
/// It cannot be raised far enough. Accepting connections would fail later, for everybody.
pub(crate) fn allow_files(config: &Config) -> Result<(), TooFewFiles> {
    let needed = files_of(config);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let is_enough = |limit: Option<u64>| limit.is_none_or(|limit| limit >= needed);
    if is_enough(current) {
        return Ok(());
    }
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let allowed = if raised.is_ok() { maximum } else { current };
    if is_enough(allowed) {
        Ok(())
    } else {
        Err(TooFewFiles { allowed: allowed.unwrap_or(u64::MAX), needed })
    }
}

fn files_of(config: &Config) -> u64 {
    let runner = &config.runner;
    let partial = if config.role == Role::Runner { 0 } else { config.compiler.partial_uploads_max as u64 };
    let kept = runner.ready_entries_max().saturating_add(runner.hot_cells_entries_max());
    let compile_workers = config.compiler.workers_max as u64;
    let run_workers = runner.workers_max as u64 + runner.idle_workers_max;
    let (workers, ready) = match config.role {
        Role::Compiler => (compile_workers, 0),
        Role::Runner => (run_workers, kept),
        Role::Both => (compile_workers + run_workers, kept),
    };
    let calls = (config.listen.calls_max as u64).saturating_mul(FILES_PER_CALL);
    let listeners = 1 + u64::from(config.listen.web.is_some());
    let connections = (config.listen.connections_max() as u64).saturating_mul(listeners);
    let workers = workers.saturating_mul(FILES_PER_WORKER);
    [connections, calls, workers, ready, partial, OTHER_FILES].into_iter().fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use antares_config::ConfigFile;

    #[test]
    fn connections_of_browsers_count_beside_the_others() {
        let files = |text: &str| {
            let file: ConfigFile = text.parse().unwrap();
            files_of(&file.check(Role::Both, &[]).unwrap())
        };
        let with = files("[listen]\ncalls_max = 700\n[web]\naddress = \"127.0.0.1:0\"");
        assert_eq!(with - files("[listen]\ncalls_max = 700"), 700);
    }

    #[test]
    fn what_no_process_may_open_is_reported_with_both_numbers() {
        let mut config = ConfigFile::default().check(Role::Both, &[]).unwrap();
        assert!(files_of(&config) > 2 * config.listen.calls_max as u64);
        config.listen.calls_max = usize::MAX / 2;
        if getrlimit(Resource::Nofile).maximum.is_some() {
            let text = allow_files(&config).unwrap_err().to_string();
            assert!(text.contains("listen.calls_max") && text.contains("RLIMIT_NOFILE"), "{text}");
        }
    }
}

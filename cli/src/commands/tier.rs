//! `antares cache`: inspects and maintains the tier that servers share.

use std::{
    fmt::Write as _,
    path::PathBuf,
    process::ExitCode,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use antares_abi::Sha256Digest;
use antares_config::ConfigFile;
use antares_tier::{ListedObject, Shared, SharedConfig, Space, StoreLocation};
use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand};

use crate::{
    args::servers::ServerArgs,
    commands::warm::{WarmHow, warm_all},
    failure::Failure,
    output,
    remote::calls::{runtime, warm::Cold},
};

/// Longest time of one request: people can wait longer than servers.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);

const DAY_S: u64 = 24 * 3_600;

/// Arguments of `antares cache`.
#[derive(Debug, Args)]
pub(crate) struct CacheArgs {
    /// What to do.
    #[command(subcommand)]
    command: CacheCommand,
    /// The shared tier, such as s3://bucket/prefix
    #[arg(long, value_name = "URL", global = true, conflicts_with = "config")]
    shared: Option<String>,
    /// Configuration that names it (shared.url)
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
}

/// What to do with the shared tier.
#[derive(Debug, Subcommand)]
enum CacheCommand {
    /// List scripts or native code: key, bytes, time of writing as seconds since 1970
    Ls {
        /// List native code
        #[arg(long)]
        artifacts: bool,
    },
    /// Fetch a script, or a shared object followed by its manifest
    Get {
        /// Its key: of a script, the SHA-256
        key: Sha256Digest,
        /// The key is one of native code
        #[arg(long)]
        artifacts: bool,
        /// Output file, - for standard output
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
    },
    /// Compile all scripts of the tier on a server
    Warm {
        #[command(flatten)]
        how: WarmHow,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Remove entries written long ago; entries still in use are written again
    Gc {
        /// Age in days
        #[arg(long, value_name = "N")]
        older_than: u64,
        /// Only list what would be removed
        #[arg(long)]
        dry_run: bool,
    },
}

impl CacheArgs {
    fn open(&self) -> Result<Shared, Failure> {
        let url = match (&self.shared, &self.config) {
            (Some(url), _) => url.clone(),
            (None, Some(path)) => {
                let file = ConfigFile::read(Some(path), None, None);
                file.map_err(|error| Failure::Usage(error.into()))?.shared_url().to_owned()
            }
            (None, None) => String::new(),
        };
        if url.is_empty() {
            return Err(Failure::Usage(anyhow!("say which tier: --shared, or --config with shared.url")));
        }
        let place = StoreLocation::open(&url).map_err(|error| Failure::Usage(error.into()))?;
        let limits = SharedConfig {
            get_time_max: REQUEST_TIME_MAX,
            put_time_max: REQUEST_TIME_MAX,
            ..SharedConfig::default()
        };
        Ok(Shared::open(place, limits))
    }
}

fn space(is_artifact: bool) -> Space {
    if is_artifact { Space::Artifact } else { Space::Script }
}

async fn listed(shared: &Shared, space: Space) -> Result<Vec<ListedObject>, Failure> {
    let mut all = Vec::new();
    let list = shared.list(space, |entry| {
        all.push(entry);
        true
    });
    list.await.with_context(|| format!("cannot list {}", shared.url())).map_err(Failure::Service)?;
    all.sort_by_key(|entry| entry.key);
    Ok(all)
}

pub(crate) fn cache(args: &CacheArgs) -> Result<ExitCode, Failure> {
    let runtime = runtime()?;
    let shared = args.open()?;
    match &args.command {
        CacheCommand::Ls { artifacts } => runtime.block_on(list(&shared, space(*artifacts))),
        CacheCommand::Get { key, artifacts, output } => {
            let got = runtime.block_on(shared.get(space(*artifacts), key.0));
            let got =
                got.with_context(|| format!("cannot read {}", shared.url())).map_err(Failure::Service)?;
            let Some(bytes) = got else {
                eprintln!("antares: {key} is not there, or damaged");
                return Ok(ExitCode::FAILURE);
            };
            match output.as_os_str() == "-" {
                true => output::print_binary(&bytes)?,
                false => output::write(output, &bytes)?,
            }
            Ok(ExitCode::SUCCESS)
        }
        CacheCommand::Warm { how, server } => {
            let scripts = runtime.block_on(listed(&shared, Space::Script))?;
            let cold = scripts.into_iter().map(|entry| {
                let script = Sha256Digest(entry.key);
                Cold { name: String::new(), script, elf: None, is_found: true }
            });
            // The function below creates its own runtime.
            drop(runtime);
            warm_all(cold.collect(), how, server)
        }
        CacheCommand::Gc { older_than, dry_run } => runtime.block_on(collect(&shared, *older_than, *dry_run)),
    }
}

async fn list(shared: &Shared, space: Space) -> Result<ExitCode, Failure> {
    let mut text = String::new();
    let _ = writeln!(text, "{:<64} {:>16}  written", space.name(), "bytes");
    for entry in listed(shared, space).await? {
        let _ = writeln!(text, "{} {:>16}  {}", Sha256Digest(entry.key), entry.bytes, entry.written);
    }
    output::print(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

async fn collect(shared: &Shared, days: u64, is_dry: bool) -> Result<ExitCode, Failure> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let oldest = i64::try_from(now.saturating_sub(days.saturating_mul(DAY_S))).unwrap_or(0);
    let (mut removed, mut bytes) = (0_u64, 0_u64);
    for space in Space::ALL {
        for entry in listed(shared, space).await?.into_iter().filter(|entry| entry.written < oldest) {
            if !is_dry {
                let gone = shared.remove(space, entry.key).await;
                gone.with_context(|| format!("cannot remove from {}", shared.url()))
                    .map_err(Failure::Service)?;
            }
            (removed, bytes) = (removed + 1, bytes + entry.bytes);
        }
    }
    let what = if is_dry { "would be removed" } else { "removed" };
    output::print(format!("{removed} entries of {bytes} bytes {what}\n").as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

//! Reads of a 1 MiB artifact from each tier, compared with reads of a plain file of that size, in one loop.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use antares_cache::{Cache, CacheConfig};
use antares_tests::s3;
use antares_tier::{CacheTier, Memory, Shared, SharedConfig, Space, StoreLocation};
use anyhow::{Context, Result, ensure};
use bytes::Bytes;

use super::Results;

const ENTRY_BYTES: usize = 1 << 20;
/// Entries of each tier, so that successive reads differ.
const ENTRIES: u8 = 16;
/// Deadline of a read.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Incompressible bytes.
fn noise(seed: u8) -> Bytes {
    let mut state = u64::from(seed) + 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    };
    std::iter::repeat_with(next).take(ENTRY_BYTES).collect()
}

fn key(number: u8) -> [u8; 32] {
    [number; 32]
}

struct Tiers {
    folder: PathBuf,
    tiers: Vec<(&'static str, Box<dyn CacheTier>)>,
}

impl Tiers {
    fn open(folder: &Path) -> Result<Self> {
        let patient = SharedConfig { get_time_max: WAIT_MAX, ..SharedConfig::default() };
        let config = CacheConfig {
            allow_any_filesystem: true,
            free_bytes_min: 0,
            ..CacheConfig::new(folder.join("sled"), 256 << 20)
        };
        let place = StoreLocation::s3_at(s3::endpoint(), &s3::bucket(&folder.join("objects")))?;
        let tiers: Vec<(_, Box<dyn CacheTier>)> = vec![
            ("tier_memory", Box::new(Memory::new(64 << 20))),
            ("tier_sled", Box::new(Cache::open(config)?)),
            ("tier_s3", Box::new(Shared::open(place, patient))),
        ];
        Ok(Self { folder: folder.to_owned(), tiers })
    }

    async fn fill(&self) -> Result<()> {
        for number in 0..ENTRIES {
            let bytes = noise(number);
            fs::write(self.folder.join(number.to_string()), &bytes)?;
            for (name, tier) in &self.tiers {
                tier.put(Space::Artifact, key(number), bytes.clone())
                    .await
                    .with_context(|| (*name).to_owned())?;
            }
        }
        Ok(())
    }
}

async fn read(rounds: usize, results: &mut Results, folder: &Path) -> Result<()> {
    let tiers = Tiers::open(folder)?;
    tiers.fill().await?;
    let mut files = Vec::new();
    let mut times = vec![Vec::new(); tiers.tiers.len()];
    for number in (0..ENTRIES).cycle().take(rounds * usize::from(ENTRIES)) {
        let started = Instant::now();
        let plain = fs::read(folder.join(number.to_string()))?;
        files.push(started.elapsed());
        for ((name, tier), times) in tiers.tiers.iter().zip(&mut times) {
            let started = Instant::now();
            let got = tier.get(Space::Artifact, key(number)).await?;
            times.push(started.elapsed());
            ensure!(got.is_some_and(|got| got == plain), "{name}: another entry than was put");
        }
    }
    results.latency("plain_file_1_mib", files);
    for ((name, _), times) in tiers.tiers.iter().zip(times) {
        results.latency(format!("{name}_1_mib"), times);
    }
    Ok(())
}

/// Measures with `rounds` reads of each entry.
pub(super) fn measure(rounds: usize, results: &mut Results) -> Result<()> {
    let folder = std::env::temp_dir().join(format!("antares-bench-tiers-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let measured = runtime.block_on(read(rounds, results, &folder));
    let _ = fs::remove_dir_all(folder);
    measured
}

//! Renewed cloud credentials of a container's endpoint: the client must pick them up without a restart.
#![allow(clippy::unwrap_used, reason = "a test")]

#[allow(dead_code, unreachable_pub, reason = "each test needs a part of it")]
#[path = "../../../../tests/src/s3.rs"]
mod s3;

use std::{
    env, fs,
    path::Path,
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use antares_tier::{Shared, SharedConfig, Space, StoreLocation};
use s3::{code, server};

/// A long deadline, because the machine may be slow.
const PATIENCE: Duration = Duration::from_secs(120);

/// Environment variable: folder with the files that signal between a test and its client process.
const FOLDER: &str = "ANTARES_TEST_CREDENTIALS";

fn wait_for(file: &Path) {
    let end = Instant::now() + PATIENCE;
    while !file.exists() {
        assert!(Instant::now() < end, "nobody makes {}", file.display());
        thread::sleep(Duration::from_millis(5));
    }
}

/// A store that accepts one access key: "OLD", and later "NEW".
struct Store {
    folder: tempfile::TempDir,
    wanted: Arc<Mutex<&'static str>>,
    refused: Arc<AtomicU64>,
}

impl Store {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            wanted: Arc::new(Mutex::new("OLD")),
            refused: Arc::default(),
        }
    }

    /// Waits until the store refuses another request.
    fn refuses(&self) {
        let (before, end) = (self.refused.load(Relaxed), Instant::now() + PATIENCE);
        while self.refused.load(Relaxed) == before {
            assert!(Instant::now() < end, "nobody asks with the old key");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Runs the test `name` again as the client process, with `environment`. Meanwhile the store switches to
    /// the key "NEW", and `renew` makes it available.
    fn outlives_its_key(&self, name: &str, environment: &[(&str, String)], renew: impl FnOnce() + Send) {
        let (wanted, refused) = (self.wanted.clone(), self.refused.clone());
        let address = server(move |request| {
            let id = format!("credential={}/", wanted.lock().unwrap()).to_lowercase();
            let is_taken = request.text().to_lowercase().contains(&id);
            if is_taken {
                return (404, code("NoSuchKey"));
            }
            refused.fetch_add(1, Relaxed);
            (403, code("ExpiredToken"))
        });
        let mut child = Command::new(env::current_exe().unwrap());
        child.args(["--exact", name, "--nocapture"]).env(FOLDER, self.folder.path());
        for (name, _) in env::vars().filter(|(name, _)| name.starts_with("AWS_")) {
            child.env_remove(name);
        }
        child.env("AWS_ENDPOINT_URL", address).env("AWS_REGION", "eu-west-1");
        child.envs(environment.iter().map(|(name, value)| (name, value)));
        thread::scope(|scope| {
            scope.spawn(|| {
                wait_for(&self.folder.path().join("read"));
                *self.wanted.lock().unwrap() = "NEW";
                self.refuses();
                renew();
                fs::write(self.folder.path().join("turned"), "").unwrap();
            });
            assert!(child.status().unwrap().success());
        });
    }
}

/// Whether this process is the client; if so, runs the client first.
fn is_client() -> bool {
    let Some(folder) = env::var_os(FOLDER) else { return false };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(client(Path::new(&folder)));
    true
}

async fn client(folder: &Path) {
    let config = SharedConfig { get_time_max: PATIENCE, put_time_max: PATIENCE, ..SharedConfig::default() };
    let shared = Shared::open(StoreLocation::open("s3://bucket/p").unwrap(), config);
    assert_eq!(shared.get(Space::Script, [1; 32]).await, Ok(None), "with the first credentials");
    fs::write(folder.join("read"), "").unwrap();
    let end = Instant::now() + PATIENCE;
    loop {
        // The client reads continuously: before, during and after the renewal.
        let is_turned = folder.join("turned").exists();
        match shared.get(Space::Script, [1; 32]).await {
            Ok(found) if is_turned => return assert_eq!(found, None),
            other => assert!(Instant::now() < end, "with the renewed ones: {other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Expiry that the endpoints report for a key: in the future only for the new one.
fn expiry(id: &str) -> &'static str {
    if id == "NEW" { "2099-01-01T00:00:00Z" } else { "2020-01-01T00:00:00Z" }
}

#[test]
fn a_containers_endpoint_is_asked_again() {
    if is_client() {
        return;
    }
    let store = Store::new();
    let token = store.folder.path().join("token");
    fs::write(&token, "first").unwrap();
    let endpoint = server(|request| {
        let lower = request.text().to_lowercase();
        let id = match (lower.contains("authorization: first"), lower.contains("authorization: second")) {
            (true, _) => "OLD",
            (_, true) => "NEW",
            _ => return (401, "{\"message\":\"who are you\"}".to_owned()),
        };
        let expiration = expiry(id);
        let text = format!(
            "{{\"AccessKeyId\":\"{id}\",\"SecretAccessKey\":\"s\",\"Token\":\"t\",\"Expiration\":\"{expiration}\"}}"
        );
        (200, text)
    });
    let environment = [
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", format!("{endpoint}/v1/credentials")),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token.display().to_string()),
    ];
    store.outlives_its_key("a_containers_endpoint_is_asked_again", &environment, || {
        fs::write(&token, "second").unwrap();
    });
}

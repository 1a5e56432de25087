//! The page `docs/reference/metrics.md`, from what a server with everything on exports, and a runner that has
//! its compiler elsewhere. `BLESS=1` writes it.
#![cfg(feature = "server")]
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    fmt::Write as _,
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, Stdio},
};

use antares_config::{ConfigFile, Role};
use antares_runner_svc::RemoteSource;
use antares_serve::Metrics;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/metrics.md");

const HEAD: &str = "# Metrics

All families of `/metrics` on `metrics.address`. A service that runs alone has its own part of them. Labels
whose values depend on the server, its callers or its machine are named without values. How to scrape them:
[operations](../operations.md#metrics).

This page is made from what a server exports, by a test of `cli`.

| metric | type | labels | meaning |
|---|---|---|---|
";

/// Labels whose values are of one server, its callers or its machine.
const OWN: [&str; 14] = [
    "cost_model",
    "engine",
    "layer",
    "llvm",
    "revision",
    "rpc_method",
    "rpc_response_status_code",
    "service",
    "target_cpu",
    "task",
    "tenant",
    "version",
    "le",
    "quantile",
];

/// Values of labels that the servers here do not have: of other files of certificates, and of a listener that
/// nobody has called.
const MORE: [(&str, &str); 5] = [
    ("file", "client"),
    ("file", "client_ca"),
    ("file", "client_crl"),
    ("file", "server"),
    ("listener", "web"),
];

/// An authority, which nobody has the key of.
const AUTHORITY: &str = "-----BEGIN CERTIFICATE-----
MIIBejCCAR+gAwIBAgIUEEheiAoOWmCXKvbzCesjFZIrbukwCgYIKoZIzj0EAwIw
ETEPMA0GA1UEAwwGbm9ib2R5MCAXDTI2MTEyODA5MTc1MFoYDzIxMjYxMTA0MDkx
NzUwWjARMQ8wDQYDVQQDDAZub2JvZHkwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC
AARHsrQ/duPDwUMV0bj3NWu37lHQfiwfkoyv9vRE+0VyWS52pKkuGYR4waTD7SmL
AOKyOPSMMmrKeUbMgQoFNMWxo1MwUTAdBgNVHQ4EFgQUeiclf5Lsa/c21uEX0UXt
nS6wzwgwHwYDVR0jBBgwFoAUeiclf5Lsa/c21uEX0UXtnS6wzwgwDwYDVR0TAQH/
BAUwAwEB/zAKBggqhkjOPQQDAgNJADBGAiEAx1VxvoGG/jqbLFoNICGIuJ6KAm8E
4j1c7GnRAmJ3zW4CIQDIz0fATWI/BWxL3gPvdtHqfQEsjQa5i1dE8Ej6Yvs+Eg==
-----END CERTIFICATE-----
";

/// What is known of a family.
#[derive(Debug, Default)]
struct Family {
    help: String,
    kind: String,
    labels: BTreeMap<String, BTreeSet<String>>,
}

/// Adds the families of `text`, which is in the format of Prometheus.
fn add(families: &mut BTreeMap<String, Family>, text: &str) {
    let mut current = String::new();
    for line in text.lines().map(str::trim) {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            current = name.to_owned();
            families.entry(current.clone()).or_default().help = help.to_owned();
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            families.entry(name.to_owned()).or_default().kind = kind.to_owned();
        } else if let Some((_, labels)) = line.split_once('{').filter(|(name, _)| name.starts_with(&current))
        {
            let labels = labels.rsplit_once('}').unwrap().0;
            for (name, value) in labels.split("\",").filter_map(|label| label.split_once("=\"")) {
                let family = families.get_mut(&current).unwrap();
                family
                    .labels
                    .entry(name.to_owned())
                    .or_default()
                    .insert(value.trim_end_matches('"').to_owned());
            }
        }
    }
}

/// What a label of a family is, in words.
fn label_text(name: &str, values: &BTreeSet<String>) -> Option<String> {
    match name {
        "le" => None,
        name if OWN.contains(&name) => Some(format!("`{name}`")),
        name => {
            let more = MORE.iter().filter(|(label, _)| *label == name).map(|(_, value)| *value);
            let values: BTreeSet<_> = values.iter().map(String::as_str).chain(more).collect();
            Some(format!("`{name}`: {}", values.into_iter().collect::<Vec<_>>().join(", ")))
        }
    }
}

/// A server that is killed in the end.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a server with everything on exports after a call.
fn of_a_server() -> String {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let text = format!(
        r#"
        listen.address = "127.0.0.1:0"
        metrics.address = "127.0.0.1:0"
        web.address = "127.0.0.1:0"
        log.format = "json"
        cache.dir = "{}"
        audit.target = "{}"
        shared.url = "s3://bucket"
        node.rpc = "http://127.0.0.1:1"
        "#,
        at("store"),
        at("audit"),
    );
    fs::write(at("antares.toml"), text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_antares"));
    command.args(["serve", "--config", &at("antares.toml")]).stdout(Stdio::piped());
    command.env("AWS_ENDPOINT_URL", "http://127.0.0.1:1");
    let mut server = Server(command.spawn().unwrap());
    let lines = BufReader::new(server.0.stdout.take().unwrap()).lines().map_while(Result::ok);
    let addresses = lines.filter_map(|line| {
        let line: serde_json::Value = serde_json::from_str(&line).ok()?;
        let text = |key: &str| Some(line.get(key)?.as_str()?.to_owned());
        Some((text("address")?, text("metrics")?))
    });
    let (grpc, metrics) = { addresses }.next().unwrap();
    let mut health = Command::new(env!("CARGO_BIN_EXE_antares"));
    // However it ends, the call is counted.
    health.args(["health", "--server", &grpc]).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    let mut stream = TcpStream::connect(metrics).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// What a runner by itself has beside that.
fn of_a_remote_source() -> String {
    let folder = tempfile::tempdir().unwrap();
    let authority = folder.path().join("ca.pem");
    fs::write(&authority, AUTHORITY).unwrap();
    let text = format!("runner.compiler_url = \"https://localhost:1\"\nrunner.compiler_ca = {authority:?}\n");
    let config = text.parse::<ConfigFile>().unwrap().check(Role::Runner, &[]).unwrap();
    let metrics = Metrics::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _source = runtime.block_on(async { RemoteSource::new(&config, &metrics) }).unwrap();
    String::from_utf8(metrics.text().unwrap()).unwrap()
}

#[test]
fn the_page_is_what_servers_export() {
    let mut families = BTreeMap::new();
    add(&mut families, &of_a_server());
    add(&mut families, &of_a_remote_source());
    let mut page = HEAD.to_owned();
    for (name, family) in families {
        let labels = family.labels.iter().filter_map(|(name, values)| label_text(name, values));
        let labels = labels.collect::<Vec<_>>().join("; ");
        // Writing to a string does not fail.
        let _ = writeln!(page, "| `{name}` | {} | {labels} | {} |", family.kind, family.help);
    }
    if env::var_os("BLESS").is_some() {
        fs::write(PAGE, &page).unwrap();
    }
    let kept = fs::read_to_string(PAGE).unwrap_or_default();
    for (at, (kept, now)) in kept.lines().zip(page.lines()).enumerate() {
        assert_eq!(kept, now, "docs/reference/metrics.md:{}; BLESS=1 writes it", at + 1);
    }
    assert_eq!(kept.len(), page.len(), "docs/reference/metrics.md; BLESS=1 writes it");
}

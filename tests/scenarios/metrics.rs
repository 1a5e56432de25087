//! The page `docs/reference/metrics.md`, from the metrics of a server with all features, and of a runner with
//! a remote compiler. `BLESS=1` writes it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use antares_config::{ConfigFile, Role};
use antares_runner_svc::RemoteSource;
use antares_serve::Metrics;
use antares_tests::{authorities::Authority, guests::golden};

use crate::{server::Server, tls::antares};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/metrics.md");

const HEAD: &str = "# Metrics

All families of `/metrics` on `metrics.address`. A service that runs alone has its own part of them. Labels
whose values depend on the server, its callers or its machine are named without values. How to scrape them:
[operations](../operations.md#metrics).

This page is made from what a server exports, by a test of `tests`.

| metric | type | labels | meaning |
|---|---|---|---|
";

/// Labels whose values depend on the server, its callers or its machine.
const OWN: &str = "cost_model engine layer llvm revision rpc_method rpc_response_status_code service target_cpu \
    task tenant version le quantile";

/// Label values that these servers lack: of other certificate files, and of a listener without calls.
const MORE: [(&str, &str); 5] = [
    ("file", "client"),
    ("file", "client_ca"),
    ("file", "client_crl"),
    ("file", "server"),
    ("listener", "web"),
];

/// Data of a family.
#[derive(Debug, Default)]
struct Family {
    help: String,
    kind: String,
    labels: BTreeMap<String, BTreeSet<String>>,
}

/// Adds the families of `text`, in the Prometheus format.
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
                let values = families.get_mut(&current).unwrap().labels.entry(name.to_owned());
                values.or_default().insert(value.trim_end_matches('"').to_owned());
            }
        }
    }
}

/// Text for a label of a family.
fn label_text(name: &str, values: &BTreeSet<String>) -> Option<String> {
    match name {
        "le" => None,
        name if OWN.split(' ').any(|own| own == name) => Some(format!("`{name}`")),
        name => {
            let more = MORE.iter().filter(|(label, _)| *label == name).map(|(_, value)| *value);
            let values: BTreeSet<_> = values.iter().map(String::as_str).chain(more).collect();
            Some(format!("`{name}`: {}", values.into_iter().collect::<Vec<_>>().join(", ")))
        }
    }
}

/// Metrics of a server with all features after a call.
fn of_a_server() -> String {
    let folder = tempfile::tempdir().unwrap();
    let sections = format!(
        "[web]\naddress = \"127.0.0.1:0\"\n[audit]\ntarget = {:?}\n[shared]\nurl = \"s3://bucket\"\n\
         [node]\nrpc = \"http://127.0.0.1:1\"\n",
        folder.path().join("audit")
    );
    let server = Server::start_with(&folder, &sections);
    // The call counts whatever its result.
    antares(&server.address, &["health"]).output().unwrap();
    server.get("/metrics")
}

/// Additional metrics of a runner alone.
fn of_a_remote_source() -> String {
    let authority = Authority::new("nobody");
    let ca = authority.certificate();
    let text = format!("runner.compiler_url = \"https://localhost:1\"\nrunner.compiler_ca = {ca:?}\n");
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
    golden(PAGE, &page);
}

//! What tenants used is kept, whatever happens to the servers: sums over tenants are the servers' totals.

use std::{fs, process::Command, time::Duration};

use antares_pool::worker_path;
use antares_proto::v1;
use antares_tests::guests;
use serde_json::Value;
use tempfile::TempDir;
use tonic::{Code, Request, Status, metadata::MetadataValue};

use crate::{
    client::{inline, reason},
    identity::{Issuer, bearer, call, claims, plain},
    server::{Server, until},
};

const TENANTS: usize = 1_000;
const RUNNERS: usize = 3;

/// How often servers write it down here.
const FLUSH: Duration = Duration::from_millis(200);

/// An issuer, and what runners of it are told.
struct Fleet {
    issuer: Issuer,
    folders: Vec<TempDir>,
}

impl Fleet {
    fn new() -> Self {
        let folders = (0..RUNNERS).map(|_| tempfile::tempdir().unwrap()).collect();
        Self { issuer: Issuer::new(), folders }
    }

    fn start(&self, number: usize) -> Server {
        let (folder, flush) = (&self.folders[number], FLUSH.as_millis());
        // The scripts come with the calls, and nothing is compiled.
        let sections = format!(
            "{}[runner]\ncompiler_url = \"http://127.0.0.1:9\"\n[usage]\ndir = {:?}\nflush_ms = {flush}\n",
            self.issuer.section(),
            folder.path().join("usage"),
        );
        Server::start_program("antares-runner-svc", &[], folder, &sections)
    }

    /// Guest cycles in the files of a runner.
    fn kept(&self, number: usize) -> u64 {
        let entries = fs::read_dir(self.folders[number].path().join("usage")).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        let hours = paths.filter(|path| path.extension().is_some_and(|extension| extension == "usage"));
        let rows: String = hours.map(|path| fs::read_to_string(path).unwrap()).collect();
        // Hour, tenant, and the amounts in their order; other lines have no number there.
        rows.lines().filter_map(|row| row.split(',').nth(6)?.parse::<u64>().ok()).sum()
    }

    fn token(&self, subject: &str) -> String {
        self.issuer.sign(&claims(subject, |_| {}))
    }
}

fn cycles(server: &Server) -> u64 {
    let of = |tier: &str| server.metric(&format!("antares_guest_cycles_total{{tier=\"{tier}\"}}"));
    // A whole number, as the page has it.
    (of("native") + of("interpreter")).to_string().parse().unwrap()
}

fn bearing<T>(message: T, token: &str) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", bearer(token)[0].parse().unwrap());
    request
}

/// Runs the guest for each of the tenants, four at once. Gives the cycles that answers told.
async fn run(server: &Server, token: &str, tenants: impl Iterator<Item = usize>) -> u64 {
    let channel = plain(server).await;
    let elf = guests::bytes("exit-imc").unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    let (mut told, numbers) = (0, tenants.collect::<Vec<_>>());
    for numbers in numbers.chunks(numbers.len().div_ceil(4).max(1)) {
        let (channel, elf, token, numbers) =
            (channel.clone(), elf.clone(), token.to_owned(), numbers.to_vec());
        tasks.spawn(async move {
            let mut client = v1::runner_service_client::RunnerServiceClient::new(channel);
            let mut told = 0;
            for number in numbers {
                let mut request = bearing(inline(&elf, &["0"], v1::Tier::Interpreter), &token);
                let tenant: MetadataValue<_> = format!("t{number}").parse().unwrap();
                request.metadata_mut().insert("antares-tenant", tenant);
                let answer = client.execute(request).await.unwrap().into_inner();
                told += answer.verdict.unwrap().cycles;
            }
            told
        });
    }
    while let Some(sum) = tasks.join_next().await {
        told += sum.unwrap();
    }
    told
}

async fn list(
    server: &Server,
    token: &str,
    asked: v1::ListUsageRequest,
) -> Result<Vec<v1::UsageRow>, Status> {
    let mut client = v1::usage_service_client::UsageServiceClient::new(plain(server).await);
    let (mut rows, mut asked) = (Vec::new(), asked);
    loop {
        let page = client.list_usage(bearing(asked.clone(), token)).await?.into_inner();
        rows.extend(page.rows);
        if page.next_page_token.is_empty() {
            return Ok(rows);
        }
        asked.page_token = page.next_page_token;
    }
}

async fn told(server: &Server, token: &str) -> u64 {
    let asked = v1::ListUsageRequest { page_size: 300, ..Default::default() };
    list(server, token, asked).await.unwrap().iter().map(|row| row.guest_cycles).sum()
}

/// `antares usage` of all `servers`.
fn added_up(servers: &[Server], token: &str) -> Value {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), token).unwrap();
    let mut command = Command::new(worker_path("antares").unwrap());
    command.args(["usage", "--json", "--token-file"]).arg(file.path());
    for server in servers {
        command.args(["--server", &format!("http://{}", server.address)]);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn sums_over_tenants_are_the_servers_totals_over_kills() {
    let fleet = Fleet::new();
    let (gateway, admin) = (fleet.token("gateway"), fleet.token("role/admin"));
    let mut servers: Vec<_> = (0..RUNNERS).map(|number| fleet.start(number)).collect();
    let mut totals = [0; RUNNERS];
    for round in 0..3 {
        for number in 0..RUNNERS {
            let tenants = (0..TENANTS).filter(|tenant| (tenant + round) % RUNNERS == number);
            let (before, server) = (totals[number], &mut servers[number]);
            let answered = run(server, &gateway, tenants).await;
            assert_eq!(cycles(server), answered, "the metric has what answers told");
            totals[number] += answered;
            match (round + number) % 3 {
                // What was told is kept, however soon the kill comes.
                0 => assert_eq!(told(server, &admin).await, totals[number]),
                // What is older than a flush is kept, whoever asks.
                1 => until("all of it is written down", || fleet.kept(number) == totals[number]),
                // What is younger may be lost, and nothing else.
                _ => {
                    server.kill();
                    *server = fleet.start(number);
                    let kept = told(server, &admin).await;
                    assert!((before..=totals[number]).contains(&kept), "{before} {kept} {totals:?}");
                    totals[number] = kept;
                    continue;
                }
            }
            server.kill();
            *server = fleet.start(number);
            assert_eq!(told(server, &admin).await, totals[number], "round {round}, runner {number}");
        }
    }
    let sums = added_up(&servers, &admin);
    let rows = sums["rows"].as_array().unwrap();
    let sum: u64 = rows.iter().map(|row| row["guest_cycles"].as_u64().unwrap()).sum();
    assert_eq!(sum, totals.iter().sum::<u64>());
    let tenants = rows.iter().filter(|row| row["tenant"].as_str().unwrap().starts_with('t'));
    let with_runs = tenants.filter(|row| row["runs"].as_u64().unwrap() > 0).count();
    assert_eq!((with_runs, sums["instances"].as_array().unwrap().len()), (TENANTS, RUNNERS));
    // An end as it should be loses nothing.
    let server = servers.remove(0);
    let answered = run(&server, &gateway, 0..50).await;
    server.stop();
    assert_eq!(told(&fleet.start(0), &admin).await, totals[0] + answered);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_sees_its_own_and_a_stranger_is_on_nobody_s_bill() {
    let fleet = Fleet::new();
    let server = fleet.start(0);
    let (admin, user) = (fleet.token("role/admin"), fleet.token("user/acme"));
    run(&server, &fleet.token("gateway"), 0..3).await;
    run(&server, &user, 7..9).await;
    let of = |tenant: &str| v1::ListUsageRequest { tenant: tenant.to_owned(), ..Default::default() };
    let own = list(&server, &user, of("")).await.unwrap();
    assert!(!own.is_empty() && own.iter().all(|row| row.tenant == "acme"), "{own:?}");
    let runs: u64 = own.iter().map(|row| row.runs).sum();
    // A caller that may not name a tenant is its own, whatever it names.
    assert_eq!(runs, 2);
    assert!(own.iter().map(|row| row.sent_bytes).sum::<u64>() > 0);
    assert_eq!(list(&server, &user, of("acme")).await.unwrap().len(), own.len());
    let refused = list(&server, &user, of("t0")).await.unwrap_err();
    assert_eq!((refused.code(), reason(&refused).as_str()), (Code::PermissionDenied, "ROLE_MISSING"));
    assert_eq!(list(&server, &admin, of("t0")).await.unwrap().iter().map(|row| row.runs).sum::<u64>(), 1);
    // Who proves nothing, and who has not the role.
    let execute = "antares.v1.RunnerService/Execute";
    let channel = plain(&server).await;
    assert_eq!(call(&channel, execute, &[], Some("t0")).await.code(), Code::Unauthenticated);
    assert_eq!(
        call(&channel, execute, &bearer(&fleet.token("role/upload")), Some("t0")).await.code(),
        Code::PermissionDenied
    );
    let all = list(&server, &admin, of("")).await.unwrap();
    let refused = |tenant: &str| {
        let rows = all.iter().filter(|row| row.tenant == tenant);
        rows.map(|row| row.refused_calls).sum::<u64>()
    };
    assert_eq!((refused("(none)"), refused("t-upload"), refused("t0"), refused("acme")), (1, 1, 0, 1));
    let wrong = v1::ListUsageRequest { page_token: "x".to_owned(), ..Default::default() };
    assert_eq!(reason(&list(&server, &admin, wrong).await.unwrap_err()), "REQUEST_INVALID");
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nothing_is_kept_it_is_said() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(&data);
    let refused = list(&server, "", v1::ListUsageRequest::default()).await.unwrap_err();
    assert_eq!((refused.code(), reason(&refused).as_str()), (Code::FailedPrecondition, "USAGE_OFF"));
}

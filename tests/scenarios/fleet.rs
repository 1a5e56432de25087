//! The profile that is always on, of many runs: it converges to the exact one, function by function, whether
//! the runs are all the same or not; and a run can be sampled again as it was.

use std::{collections::BTreeMap, fs};

use antares_pool::worker_path;
use antares_profile::Profile;
use antares_profile_view::{Programs, View, read_archive};
use antares_proto::v1::{
    self, Tier, VerifyOutcome, profile_service_client::ProfileServiceClient,
    verify_transaction_request::Transaction,
};
use antares_tests::guests::{self, debugger_examples};

use crate::{
    client::{Client, exit_code, stored},
    server::Server,
};

/// Runs of a fleet.
const RUNS: usize = 1000;

/// Cycles between samples, as configured by default.
const PERIOD: f64 = 2_097_152.0;

/// Standard errors by which a share may be off, over some hundred functions.
const DEVIATIONS_MAX: f64 = 4.0;

/// What a loop that asks once for many passes, and calls in place of jumps, may put off; as the docs have it.
const SKID: f64 = 0.02;

/// Shares that are compared.
const SHARE_MIN: f64 = 0.01;

/// Cycles by function, of what is known; the share that is not; and the sum.
fn shares(profile: &Profile, programs: &Programs) -> (BTreeMap<String, f64>, f64, u64) {
    let view = View::new(profile, programs);
    let rows = view.top(usize::MAX);
    let all = profile.sum().cycles;
    let unknown = rows.iter().filter(|row| row.name == "[other]").map(|row| row.own.cycles).sum::<u64>();
    let known = (all - unknown).max(1) as f64;
    let rows = rows.into_iter().filter(|row| !row.name.starts_with('['));
    let shares = rows.map(|row| (row.name, row.own.cycles as f64 / known)).collect();
    (shares, unknown as f64 / all as f64, all)
}

/// What the command tells of one run, exactly.
fn exact(args: &[&str], folder: &tempfile::TempDir) -> Profile {
    let file = folder.path().join("exact.antares");
    let mut command = std::process::Command::new(worker_path("antares").unwrap());
    let done = command.arg("profile").arg("-o").arg(&file).args(args).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    read_archive(&fs::read(file).unwrap()).unwrap().0
}

/// What the server has seen.
async fn live(server: &Server, script: Option<String>) -> (Profile, Programs) {
    let mut client = ProfileServiceClient::connect(format!("http://{}", server.address)).await.unwrap();
    let selection = Some(v1::ProfileSelection { script, window_ms: None });
    let request = v1::GetProfileRequest { selection, format: Some("antares".to_owned()) };
    read_archive(&client.get_profile(request).await.unwrap().into_inner().profile).unwrap()
}

#[track_caller]
fn agree(name: &str, exact: (&Profile, u64), (profile, programs): &(Profile, Programs)) {
    let (wanted, _, cycles) = shares(exact.0, programs);
    let (found, unknown, sum) = shares(profile, programs);
    assert_eq!(sum, exact.1, "{name}: sums are exact");
    let samples = exact.1 as f64 / PERIOD;
    println!("{name}: {cycles} cycles, {samples:.0} samples, {:.2} % other", unknown * 100.0);
    for (function, share) in wanted.iter().filter(|(_, share)| **share >= SHARE_MIN) {
        let seen = found.get(function).copied().unwrap_or(0.0);
        let error = (share * (1.0 - share) / samples).sqrt();
        println!("  {function}: {share:.4}, seen {seen:.4}, standard error {error:.4}");
        assert!((share - seen).abs() <= DEVIATIONS_MAX * error + SKID, "{name} {function}: {share} {seen}");
    }
    assert!(unknown <= DEVIATIONS_MAX / samples.sqrt(), "{name}: {unknown} is unknown");
}

#[tokio::test(flavor = "multi_thread")]
async fn profiles_of_equal_runs_converge() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Server::start(&data);
    let mut client = Client::connect(&server).await;
    let elf = guests::bytes("secp256k1-imc").unwrap();
    let digest = client.upload(&elf).await.unwrap().sha256;
    let file = folder.path().join("script");
    fs::write(&file, &elf).unwrap();
    let exact = exact(&[file.to_str().unwrap(), "--", "-", "1"], &folder);
    for _ in 0..RUNS {
        let answer = client.execute(stored(&elf, &["-", "1"], Tier::Native)).await.unwrap();
        assert_eq!(exit_code(&answer), Some(0));
    }
    let live = live(&server, Some(digest)).await;
    agree("equal", (&exact, exact.sum().cycles * RUNS as u64), &live);
}

#[tokio::test(flavor = "multi_thread")]
async fn profiles_of_varied_runs_converge() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Server::start(&data);
    let mut client = Client::connect(&server).await;
    let elf = guests::bytes("secp256k1-imc").unwrap();
    let digest = client.upload(&elf).await.unwrap().sha256;
    let file = folder.path().join("script");
    fs::write(&file, &elf).unwrap();
    // Lengths on both sides of a period, so that what only short runs do, or only the ends of long ones,
    // would be missed.
    let lengths = ["1", "2", "1", "3", "5"];
    let mut whole = Profile::new();
    for length in lengths {
        let one = exact(&[file.to_str().unwrap(), "--", "-", length], &folder);
        for _ in 0..RUNS / lengths.len() {
            whole.merge(&one);
        }
    }
    for length in lengths.iter().cycle().take(RUNS) {
        client.execute(stored(&elf, &["-", length], Tier::Native)).await.unwrap();
    }
    agree("varied", (&whole, whole.sum().cycles), &live(&server, Some(digest)).await);
}

/// The programs of the bench, and how often each repeats its work. Those that are not here have tests of
/// their own.
const REPEATING: [(&str, u64); 25] = [
    ("secp256k1-b", 1),
    ("secp256k1-small-imc", 1),
    ("schnorr-imc", 1),
    ("schnorr-b", 1),
    ("rsa1024-imc", 1),
    ("rsa1024-b", 1),
    ("rsa2048-imc", 1),
    ("keccak-imc", 20),
    ("keccak-b", 20),
    ("blake2b-imc", 20),
    ("blake2b-b", 20),
    ("mldsa-imc", 1),
    ("mldsa-b", 1),
    ("sphincs-imc", 1),
    ("bls12-381-imc", 1),
    ("lz4-imc", 2),
    ("lz4-unaligned-imc", 2),
    ("lua-imc", 1),
    ("sort-imc", 1),
    ("chase-imc", 2),
    ("sha256-imc", 20),
    ("sha256-b", 20),
    ("mulmod-imc", 2000),
    ("interpreter-imc", 100),
    ("blocks-imc", 200),
];

/// Runs of `name` that are all the same, and of three lengths.
async fn converges(name: &str, times: u64) {
    for lengths in [vec![times], vec![times, 2 * times, 3 * times]] {
        let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        // A hundred runs have as many samples as a thousand with the default.
        let server = Server::start_with(&data, "[runner]\nsample_cycles = 209715\n");
        let mut client = Client::connect(&server).await;
        let elf = guests::bytes(name).unwrap();
        let digest = client.upload(&elf).await.unwrap().sha256;
        let file = folder.path().join("script");
        fs::write(&file, &elf).unwrap();
        let runs = 120 / lengths.len();
        let mut whole = Profile::new();
        for length in &lengths {
            let one = exact(&[file.to_str().unwrap(), "--", "-", &length.to_string()], &folder);
            (0..runs).for_each(|_| whole.merge(&one));
            for _ in 0..runs {
                client.execute(stored(&elf, &["-", &length.to_string()], Tier::Native)).await.unwrap();
            }
        }
        agree(name, (&whole, whole.sum().cycles), &live(&server, Some(digest)).await);
        server.stop();
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "minutes"]
async fn profiles_of_all_programs_of_the_bench_converge() {
    for (name, times) in REPEATING {
        converges(name, times).await;
    }
}

/// The one with more stacks than a window holds.
#[tokio::test(flavor = "multi_thread")]
async fn profiles_with_many_stacks_converge() {
    converges("bls12-381-imc", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_sampled_as_its_answer_says() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_with(&data, "[runner]\nsample_cycles = 10000\n");
    let mut client = Client::connect(&server).await;
    let elf = guests::bytes("secp256k1-imc").unwrap();
    client.upload(&elf).await.unwrap();
    let mut profiles = Vec::new();
    let mut salt = None;
    for tenant in ["one", "two", "three"] {
        let mut request = tonic::Request::new(stored(&elf, &["-", "1"], Tier::Native));
        request.metadata_mut().insert("antares-tenant", tenant.parse().unwrap());
        // The second one as the first one, the third one as it comes.
        request.get_mut().sample_salt = salt.filter(|_| tenant == "two");
        let answer = client.runner.execute(request).await.unwrap().into_inner();
        salt = salt.or(answer.sample_salt);
        assert_eq!(answer.sample_salt == salt, tenant != "three");
        let mut request = tonic::Request::new(v1::GetProfileRequest {
            selection: None,
            format: Some("antares".to_owned()),
        });
        request.metadata_mut().insert("antares-tenant", tenant.parse().unwrap());
        let mut seen = ProfileServiceClient::connect(format!("http://{}", server.address)).await.unwrap();
        profiles
            .push(read_archive(&seen.get_profile(request).await.unwrap().into_inner().profile).unwrap().0);
    }
    // Native code of the baseline or the full compile: stacks are the same, metered blocks may not be.
    assert_eq!(profiles[0].sum(), profiles[1].sum());
    assert_eq!(profiles[0], profiles[1]);
    assert_ne!(profiles[0], profiles[2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_profile_of_a_repeated_transaction_converges() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Server::start(&data);
    let mut client = Client::connect(&server).await;
    let path = debugger_examples().unwrap().join("mock_tx.json");
    let json = fs::read(&path).unwrap();
    let exact = exact(&["--tx", path.to_str().unwrap()], &folder);
    for _ in 0..RUNS {
        let request = v1::VerifyTransactionRequest {
            transaction: Some(Transaction::MockJson(json.clone().into())),
            tier: Tier::Native.into(),
            ..v1::VerifyTransactionRequest::default()
        };
        let answer = client.runner.verify_transaction(request).await.unwrap().into_inner();
        assert_eq!(answer.outcome(), VerifyOutcome::Ok);
    }
    agree("transaction", (&exact, exact.sum().cycles * RUNS as u64), &live(&server, None).await);
}

//! The profile that is always on, of many runs: it converges to the exact one, function by function; and
//! a run can be sampled again as it was.

use std::{collections::BTreeMap, fs};

use antares_pool::worker_path;
use antares_profile::Profile;
use antares_profile_view::{Programs, View, read_archive};
use antares_proto::v1::{self, Tier, profile_service_client::ProfileServiceClient};
use antares_tests::guests;

use crate::{
    client::{Client, serving, stored},
    server::Server,
};

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
async fn live(server: &Server, script: String) -> (Profile, Programs) {
    let mut client = ProfileServiceClient::connect(format!("http://{}", server.address)).await.unwrap();
    let selection = Some(v1::ProfileSelection { script: Some(script), window_ms: None });
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

/// Runs of some lengths of a program converge: on both sides of a period, so that what only short runs do, or
/// only the ends of long ones, would be missed; and one with more stacks than a window holds.
#[tokio::test(flavor = "multi_thread")]
async fn profiles_of_varied_runs_converge() {
    // So many runs of the second have as many samples as those of the first.
    let often = "[runner]\nsample_cycles = 209715\n";
    for (name, lengths, runs, sections) in [
        ("secp256k1-imc", &["1", "2", "1", "3", "5"][..], 1000, ""),
        ("bls12-381-imc", &["1", "2", "3"][..], 120, often),
    ] {
        let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let server = Server::start_with(&data, sections);
        let mut client = Client::connect(&server).await;
        let elf = guests::bytes(name).unwrap();
        let digest = client.upload(&elf).await.unwrap().sha256;
        let file = folder.path().join("script");
        fs::write(&file, &elf).unwrap();
        let mut whole = Profile::new();
        for length in lengths {
            let one = exact(&[file.to_str().unwrap(), "--", "-", length], &folder);
            (0..runs / lengths.len()).for_each(|_| whole.merge(&one));
        }
        for length in lengths.iter().cycle().take(runs) {
            client.execute(stored(&elf, &["-", length], Tier::Native)).await.unwrap();
        }
        agree(name, (&whole, whole.sum().cycles), &live(&server, digest).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_sampled_as_its_answer_says() {
    let (_data, server, mut client) = serving("[runner]\nsample_cycles = 10000\n").await;
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

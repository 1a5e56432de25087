//! Isolation of tenants: one's runs and stored data are invisible to others, and cost them nothing.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::unix::fs::FileExt as _,
};

use antares_chain::{elf, json, locked_by};
use antares_proto::v1::{self, Tier, VerifyOutcome, verify_transaction_request::Transaction};
use antares_tests::asm::encode;
use ckb_types::{core::ScriptHashType, packed, prelude::*};

use crate::{
    client::{Client, digest, inline, locked, stored, verification},
    identity::{bearer, call, claims, methods, plain},
    journey::runner_of,
    server::{Server, alone, eventually, until},
    tenants::{serving_tenants, tenant},
    transactions::fields,
};

fn li(register: u8, value: i32) -> u32 {
    encode::i(0x13, 0, register, 0, value)
}

/// A lock that executes the first witness.
fn executes_witness() -> Vec<u8> {
    // exec(index, source, place, bounds, argc, argv)
    let words = [li(10, 0), li(11, 1), li(12, 1), li(13, 0), li(14, 0), li(15, 0), li(17, 2043), 0x73];
    elf(&words)
}

/// Counts down from 2^20 and exits with 0; each number is a different program.
pub(crate) fn countdown(number: i32) -> Vec<u8> {
    let count = [encode::u(0x37, 5, 1 << 20), encode::i(0x13, 0, 5, 5, -1), encode::b(1, 5, 0, -4).unwrap()];
    elf(&[&count[..], &[li(6, number), li(10, 0), li(17, 93), 0x73]].concat())
}

/// A transaction whose lock executes `program`, which is only in a witness.
fn with_witness(program: &[u8]) -> v1::VerifyTransactionRequest {
    // In version 2, the scheduler implements exec and names what it loads.
    let mut mock = locked_by(&[executes_witness().into()], ScriptHashType::Data2);
    mock.tx = mock.tx.as_builder().witnesses(vec![packed::Bytes::from(program.to_vec())]).build();
    verification(json(mock), Tier::Auto)
}

/// Why a program was interpreted, if it was.
fn why(answer: &v1::VerifyTransactionResponse, program: &[u8]) -> Option<String> {
    assert_eq!(answer.outcome(), VerifyOutcome::Ok, "{answer:?}");
    let digest = digest(program);
    answer.interpreted.iter().find(|one| one.sha256 == digest).map(|one| one.why.clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_one_tenant_runs_is_unknown_to_another_with_the_same_lock() {
    for tenants in ["", "[tenants]\nisolation = \"code\"\n"] {
        let (issuer, _data, server) = serving_tenants(tenants);
        let a = tenant(&server, &issuer, "a").await;
        let b = tenant(&server, &issuer, "b").await;
        let (private, own) = (countdown(1), countdown(2));
        let compiled = |least: f64| server.result("hot_programs_total", "compiled") >= least;
        assert_eq!(why(&b.verify(with_witness(&own)).await.unwrap(), &own).as_deref(), Some("new"));
        until("b's program is compiled", || compiled(1.0));
        assert_eq!(why(&a.verify(with_witness(&private)).await.unwrap(), &private).as_deref(), Some("new"));
        until("a's program is compiled", || compiled(2.0));
        for _ in 0..3 {
            assert_eq!(why(&b.verify(with_witness(&own)).await.unwrap(), &own), None, "it is native");
        }
        assert!(!a.is_missing(&private).await && b.is_missing(&private).await, "{tenants}");
        assert_eq!(b.script(&private).await.unwrap_err().code(), tonic::Code::NotFound);
        // It is new to b, although a has run it.
        let first = b.verify(with_witness(&private)).await.unwrap();
        assert_eq!(why(&first, &private).as_deref(), Some("new"), "{first:?}");
    }
}

/// A transaction of `lock`, whose bytes are uploaded or sent inline.
fn by_fields(lock: &[u8], vm: ScriptHashType, is_sent: bool) -> v1::VerifyTransactionRequest {
    let mut fields = fields(&locked(&[lock.to_vec().into()], vm));
    let cell = fields.cell_deps[0].cell.as_mut().unwrap();
    if !is_sent {
        cell.data.clear();
        cell.data_sha256 = Some(digest(lock));
    }
    let transaction = Some(Transaction::Fields(fields));
    v1::VerifyTransactionRequest { transaction, tier: Tier::Auto.into(), ..Default::default() }
}

/// One server for salted tenants, or two without tenants.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_removed_comes_back_with_its_bytes_alone() {
    for is_salted in [false, true] {
        let (issuer, _data, salted) = serving_tenants("[tenants]\nisolation = \"code\"\n");
        let (_compilers, compiler) = alone("antares-compiler-svc", "");
        let (_runners, runner) = runner_of(&compiler.address);
        let (compiler, runner) = if is_salted { (&salted, &salted) } else { (&compiler, &runner) };
        let runner = tenant(runner, &issuer, "a").await.runner;
        let tenant = Client { runner, ..tenant(compiler, &issuer, "a").await };
        let token = issuer.sign(&claims("role/admin", |_| {}));
        let mut store = Client::with_token(compiler, &token).await.store;
        let lock = countdown(3);
        tenant.upload(&lock).await.unwrap();
        let first = tenant.verify(by_fields(&lock, ScriptHashType::Data1, false)).await.unwrap();
        assert_eq!(first.outcome(), VerifyOutcome::Ok);
        tenant.compile(&lock).await.unwrap();
        let removal = v1::RemoveStoredRequest { kind: v1::StoredKind::Script.into(), key: digest(&lock) };
        store.remove_stored(removal).await.unwrap();
        let kind = v1::StoredKind::Artifact.into();
        let left = store.list_stored(v1::ListStoredRequest { kind, ..Default::default() }).await;
        assert_eq!(left.unwrap().into_inner().entries.len(), 0, "native code and marks are gone, too");
        for vm in [ScriptHashType::Data1, ScriptHashType::Data2] {
            let _ = tenant.verify(by_fields(&lock, vm, false)).await;
            assert!(tenant.is_missing(&lock).await, "{vm:?}");
        }
        let sent = tenant.verify(by_fields(&lock, ScriptHashType::Data2, true)).await.unwrap();
        assert_eq!(sent.outcome(), VerifyOutcome::Ok);
        assert!(!tenant.is_missing(&lock).await);
    }
}

/// A tenant's first uploads arrive before its usage is counted.
#[tokio::test(flavor = "multi_thread")]
async fn uploads_at_once_stay_within_the_quota() {
    const UPLOADS: u8 = 16;
    const STORED_MAX: usize = 3;
    let script = |number: u8| [countdown(3), vec![number; 8192]].concat();
    let most = STORED_MAX * script(0).len();
    let (issuer, _data, server) = serving_tenants(&format!("[quotas]\nstored_bytes_max = {most}\n"));
    for round in 0..8 {
        let tenant = tenant(&server, &issuer, &format!("round-{round}")).await;
        let uploads = (0..UPLOADS).map(async |number| tenant.upload(&script(number)).await.is_ok());
        let stored = futures_util::future::join_all(uploads).await;
        let stored = stored.into_iter().filter(|is_stored| *is_stored).count();
        assert!((1..=STORED_MAX).contains(&stored), "{stored} in round {round}");
    }
}

/// What tenant `b` gets and is charged for its own scripts, and gets for `others`; no times and run names.
async fn heard(server: &Server, b: &mut Client, own: [&[u8]; 2], others: &[u8]) -> String {
    let paid = || {
        let reported = server.get("/metrics");
        let lines =
            reported.lines().filter(|line| line.contains("tenant=\"b\"") && !line.contains("_seconds_"));
        let lines = lines.filter_map(|line| line.rsplit_once(' '));
        lines.map(|(name, value)| (name.to_owned(), value.parse().unwrap())).collect::<BTreeMap<_, f64>>()
    };
    let before = paid();
    let [run, private] = own;
    let mut ran = b.execute(stored(run, &[], Tier::Auto)).await.unwrap();
    (ran.execution_id, ran.timings, ran.sample_salt) = Default::default();
    let mut verified = b.verify(with_witness(private)).await.unwrap();
    (verified.execution_id, verified.timings, verified.sample_salt) = Default::default();
    let script_sha256 = [run, private, others].map(digest).to_vec();
    let missing = v1::FindMissingRequest { script_sha256 };
    let missing = b.compiler.find_missing(missing).await.unwrap().into_inner();
    let refused = b.execute(stored(others, &[], Tier::Auto)).await.unwrap_err();
    let profiled = b.profiles.list_profiles(v1::ListProfilesRequest::default()).await.unwrap().into_inner();
    let mut profiled: Vec<_> = profiled.scripts.into_iter().map(|one| one.script).collect();
    profiled.sort();
    let after = paid().into_iter().map(|(name, now)| (name.clone(), now - before.get(&name).unwrap_or(&0.0)));
    let after: Vec<_> = after.collect();
    format!(
        "{ran:#?}\n{verified:#?}\n{missing:?}\n{:?} {}\n{profiled:?}\n{after:#?}",
        refused.code(),
        refused.message()
    )
}

/// All requests of a tenant about `script` and its hash, which is also `b`'s, and about its own program.
async fn asks_for_all(server: &Server, token: &str, a: &mut Client, script: &[u8], own: &[u8]) {
    for method in methods() {
        call(&plain(server).await, &method, &bearer(token), None).await;
    }
    for elf in [script, own] {
        a.upload(elf).await.unwrap();
        let artifact_key = a.compile(elf).await.unwrap().artifact_key;
        let request = v1::LearnRequest { script_sha256: digest(elf), ..Default::default() };
        let _ = a.learn(request).await;
        a.compiler.get_artifact(v1::GetArtifactRequest { artifact_key }).await.unwrap();
        a.script(elf).await.unwrap();
        for tier in [Tier::Auto, Tier::Native, Tier::Interpreter] {
            a.execute(stored(elf, &[], tier)).await.unwrap();
        }
        a.execute(inline(elf, &["1"], Tier::Auto)).await.unwrap();
        for _ in 0..3 {
            a.verify(with_witness(elf)).await.unwrap();
        }
    }
    a.execute(inline(&elf(&[0]), &[], Tier::Auto)).await.unwrap();
    let profiles = a.profiles.list_profiles(v1::ListProfilesRequest::default()).await.unwrap().into_inner();
    assert!(!profiles.scripts.is_empty());
}

/// Bytes that distinguish `countdown(number)`.
fn mark(number: i32) -> Vec<u8> {
    [li(6, number), li(10, 0), li(17, 93), 0x73].iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Which of `marks` the process has in an open file or in its memory.
fn holds<const N: usize>(pid: u32, marks: &[Vec<u8>; N]) -> [bool; N] {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let files = files.filter_map(|file| Some(file.ok()?.path()));
    let files = files.filter(|path| fs::metadata(path).is_ok_and(|file| file.is_file()));
    let mut parts: Vec<_> = files.filter_map(|path| fs::read(path).ok()).collect();
    let memory = File::open(format!("/proc/{pid}/mem")).unwrap();
    for line in fs::read_to_string(format!("/proc/{pid}/maps")).unwrap().lines() {
        let (range, rest) = line.split_once(' ').unwrap();
        let place = |text| u64::from_str_radix(text, 16).unwrap();
        let (start, end) = range.split_once('-').map(|(start, end)| (place(start), place(end))).unwrap();
        let mut bytes = vec![0; if rest.starts_with('r') { (end - start).min(64 << 20) as usize } else { 0 }];
        if memory.read_at(&mut bytes, start).is_ok() {
            parts.push(bytes);
        }
    }
    marks.each_ref().map(|mark| parts.iter().any(|part| part.windows(16).any(|bytes| bytes == mark)))
}

/// Runs a new tenant's endless program under the shared lock; asserts that its worker has none of `marks`,
/// which belong to others.
async fn assert_worker_is_own(server: &Server, tenant: Client, marks: [i32; 3]) {
    const OWN: i32 = 9;
    // A jump to itself before its mark.
    let endless = elf(&[0x6f, li(6, OWN), li(10, 0), li(17, 93), 0x73]);
    let (max_cycles, deadline_ms) = (Some(1_000_000_000_000), Some(50_000));
    let limits = v1::RunLimits { max_cycles, deadline_ms, ..Default::default() };
    let request = v1::VerifyTransactionRequest { limits: Some(limits), ..with_witness(&endless) };
    let call = tokio::spawn(async move { tenant.verify(request).await });
    let pid = server.busy_worker("antares-run-worker");
    let [a, b, c] = marks;
    let found = holds(pid, &[OWN, a, b, c].map(mark));
    call.abort();
    assert_eq!(found, [true, false, false, false], "its own, and nothing of another tenant");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_one_tenant_asks_changes_nothing_for_another() {
    // Twice in each run of `countdown`, so that what is sampled does not depend on the first sample's offset.
    for tenants in ["", "[tenants]\nisolation = \"code\"\n"] {
        let (issuer, _data, server) =
            serving_tenants(&format!("{tenants}[runner]\nsample_cycles = 2097152\n"));
        let mut a = tenant(&server, &issuer, "a").await;
        let mut b = tenant(&server, &issuer, "b").await;
        let (run, private, others) = (countdown(1), countdown(2), countdown(3));
        b.upload(&run).await.unwrap();
        b.compile(&run).await.unwrap();
        // Until all is native, no hints are new and nothing is compiled again.
        let compiled = "compiles_total{tenant=\\\"b\\\"}\",\n        1.0";
        let mut first = String::new();
        eventually("all is native", async || {
            let last = std::mem::replace(&mut first, heard(&server, &mut b, [&run, &private], &others).await);
            first == last && !["why:", "Baseline", compiled].iter().any(|part| first.contains(part))
        })
        .await;
        let token = issuer.sign(&claims("all/a", |_| {}));
        asks_for_all(&server, &token, &mut a, &run, &others).await;
        let second = heard(&server, &mut b, [&run, &private], &others).await;
        assert_eq!(first, second, "{tenants}");
        let private_to_a = countdown(5);
        eventually("one of its own workers is idle with the native code", async || {
            why(&a.verify(with_witness(&private_to_a)).await.unwrap(), &private_to_a).is_none()
        })
        .await;
        // This tenant needs only the lock, which every other worker has.
        let new = tenant(&server, &issuer, "c").await;
        assert_worker_is_own(&server, new, [2, 3, 5]).await;
    }
}

//! Scripts beyond static recovery become native over gRPC, alone and in transactions; false hints change
//! nothing.

use antares_abi::{CompileOptions, Isa};
use antares_proto::v1::{self, Tier, VerifyOutcome};
use antares_tests::{guests, oracle};
use bytes::Bytes;
use ckb_types::core::ScriptHashType;
use tonic::Code;

use crate::{
    client::{Client, assembled, digest, is, locked, of_tenant, serving, stored, verification},
    identity::claims,
    server::{Server, eventually},
    tenants::{serving_tenants, tenant},
};

fn expected(elf: &[u8]) -> oracle::Run {
    let case = oracle::Case {
        elf: Bytes::copy_from_slice(elf),
        args: vec![Bytes::from_static(b"-")],
        options: CompileOptions { vm_version: 2, isa: Isa::of_version(2) },
        cycles_max: u64::MAX >> 1,
        code: None,
    };
    oracle::run(&case)
}

/// Runs until all is native; asserts each run's outcome. Returns the number of runs.
async fn run_until_native(client: &Client, elf: &[u8], cycles: u64) -> usize {
    let mut runs = 0;
    eventually("all is native", async || {
        runs += 1;
        let answer = client.execute(stored(elf, &["-"], Tier::Auto)).await.unwrap();
        let (verdict, tiers) = (answer.verdict.as_ref().unwrap(), answer.tiers.as_ref().unwrap());
        assert_eq!((verdict.cycles, verdict.error.as_str()), (cycles, ""), "{answer:?}");
        tiers.native_cycles == cycles
    })
    .await;
    runs
}

fn lie(elf: &[u8], number: u64) -> v1::LearnRequest {
    // Different ones each time: only the number of rounds ends it.
    let targets = (0..32).map(|at| u32::try_from(0x1_0000 + 2 * (number * 32 + at)).unwrap());
    v1::LearnRequest {
        script_sha256: digest(elf),
        targets: targets.map(|target| target | u32::from(target % 3 == 0)).collect(),
        ..v1::LearnRequest::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_is_native_after_a_few_runs_and_after_a_restart() {
    let elf = guests::hidden().unwrap();
    let cycles = expected(&elf).cycles;
    let (data, server, client) = serving("").await;
    client.upload(&elf).await.unwrap();
    let first = client.execute(stored(&elf, &["-"], Tier::Auto)).await.unwrap();
    assert_eq!(first.tiers.unwrap().native_cycles, 0);
    run_until_native(&client, &elf, cycles).await;
    assert!(server.result("hints_total", "learnt") >= 1.0);
    drop(client);
    assert_eq!(server.stop(), Some(0));

    let server = Server::start(&data);
    let client = Client::connect(&server).await;
    assert_eq!(run_until_native(&client, &elf, cycles).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_teaches_too() {
    let (_data, _server, client) = serving("").await;
    let json = locked(&[guests::hidden().unwrap().into()], ScriptHashType::Data2);
    let mut cycles = None;
    eventually("all is native", async || {
        let answer = client.verify(verification(json.clone(), Tier::Auto)).await.unwrap();
        // It exits with its result.
        assert_eq!(answer.outcome(), VerifyOutcome::Failed, "{answer:?}");
        assert_eq!(*cycles.get_or_insert(answer.cycles), answer.cycles);
        answer.groups[0].tiers.as_ref().unwrap().interpreted_cycles == 0
    })
    .await;
}

/// Hints of one tenant do not affect another's script, whether or not they share native code.
#[tokio::test(flavor = "multi_thread")]
async fn lies_of_another_tenant_change_nothing() {
    let elf = guests::hidden().unwrap();
    let cycles = expected(&elf).cycles;
    for section in ["", "[tenants]\nisolation = \"code\"\n"] {
        let (issuer, _data, server) = serving_tenants(section);
        let honest = tenant(&server, &issuer, "honest").await;
        let liar = tenant(&server, &issuer, "liar").await;
        honest.upload(&elf).await.unwrap();
        // A tenant without the script cannot report hints.
        is(&liar.learn(lie(&elf, 0)).await.unwrap_err(), Code::NotFound, "SCRIPT_NOT_FOUND");
        liar.upload(&elf).await.unwrap();
        let flood = v1::LearnRequest { targets: vec![2; 4097], ..lie(&elf, 0) };
        is(&liar.learn(flood).await.unwrap_err(), Code::InvalidArgument, "TOO_MANY_HINTS");
        let mut reported = None;
        for number in 0..20 {
            let learnt = liar.learn(lie(&elf, number)).await.unwrap();
            reported = Some(learnt.hints_sha256);
            let answer = honest.execute(stored(&elf, &["-"], Tier::Auto)).await.unwrap();
            let verdict = answer.verdict.as_ref().unwrap();
            assert_eq!((verdict.cycles, verdict.error.as_str()), (cycles, ""), "{answer:?}");
        }
        let compiled = honest.compile(&elf).await.unwrap();
        assert_ne!(Some(compiled.hints_sha256), reported);
        // Only its own hints achieve this.
        run_until_native(&honest, &elf, cycles).await;
        let rounds = server.result("hints_total", "learnt");
        // Each round has at most one full compile and one baseline compile.
        let tellers = 2.0;
        assert!(rounds <= 8.0 * tellers, "{rounds} rounds");
        let compiles = ["compiles_total", "baseline_compiles_total"].map(|name| server.result(name, "done"));
        assert!(compiles.iter().all(|count| *count <= rounds + tellers), "{compiles:?}, {rounds} rounds");
    }
}

/// Junk hints of one tenant, at the maximum size and beyond a script's rounds: another tenant's code is
/// unchanged, and a runner's hints are still accepted.
#[tokio::test(flavor = "multi_thread")]
async fn only_runners_teach_all() {
    let runner = "[[auth.rules]]\ntoken = \"runner\"\nroles = [\"upload\", \"compile\"]\nany_tenant = true\n";
    for section in ["", "[tenants]\nisolation = \"none\"\n"] {
        let (issuer, _data, server) = serving_tenants(&format!("{runner}{section}"));
        let honest = tenant(&server, &issuer, "honest").await;
        let liar = tenant(&server, &issuer, "liar").await;
        let elf = guests::bytes("exit-imc").unwrap();
        honest.upload(&elf).await.unwrap();
        liar.upload(&elf).await.unwrap();
        let before = honest.compile(&elf).await.unwrap();
        assert_eq!(before.hints_sha256, "");
        for number in 0..10 {
            let targets = (0..4096).map(|at| (0x1_0000 + 2 * (at + number)) | 1).collect();
            liar.learn(v1::LearnRequest { targets, ..lie(&elf, 0) }).await.unwrap();
        }
        let own = liar.compile(&elf).await.unwrap();
        assert!(!own.hints_sha256.is_empty() && own.artifact_key != before.artifact_key, "{own:?}");
        // Bounded even for its author: code that grows too much is compiled without hints.
        assert!(own.artifact_bytes <= 2 * before.artifact_bytes, "{own:?} {before:?}");
        let after = honest.compile(&elf).await.unwrap();
        assert_eq!(
            (&after.artifact_key, after.artifact_bytes),
            (&before.artifact_key, before.artifact_bytes)
        );
        // A caller cannot become a runner by claiming it.
        liar.learn(of_tenant("honest", lie(&elf, 1))).await.unwrap();
        assert_eq!(honest.compile(&elf).await.unwrap().hints_sha256, "");
        let runner = Client::with_token(&server, &issuer.sign(&claims("runner", |_| {}))).await;
        let reported = runner.learn(of_tenant("honest", lie(&elf, 2))).await.unwrap().hints_sha256;
        assert_ne!(reported, "");
        assert_eq!(honest.compile(&elf).await.unwrap().hints_sha256, reported);
    }
}

/// A lock that runs natively and executes another program, which always bails out: only that program is
/// interpreted.
#[tokio::test(flavor = "multi_thread")]
async fn of_a_transaction_what_always_leaves_native_code_begins_in_the_interpreter() {
    let (_data, server, client) = serving("").await;
    // exec of the cell dep 1, the whole cell.
    let exec = "li a0, 1\nli a1, 3\nli a2, 0\nli a3, 0\nli a4, 0\nli a5, 0\nli a7, 2043\necall\n";
    let store = "li t0, 0x8000\nsd zero, 0(t0)\nli t1, 600000\n1:\naddi t1, t1, -1\nbnez t1, 1b\nli a0, 0\nli a7, 93\necall\n";
    let [lock, leaver] = [exec, store].map(|text| Bytes::from(assembled(text)));
    let json = locked(&[lock, leaver.clone()], ScriptHashType::Data2);
    let leaver = digest(&leaver);
    let (mut cycles, mut begun_there) = (None, 0);
    // Full code, compiled in the background, has its own statistics.
    for run in 0..48 {
        let answer = client.verify(verification(json.clone(), Tier::Auto)).await.unwrap();
        assert_eq!((answer.outcome(), answer.programs.len()), (VerifyOutcome::Ok, 2), "{answer:?}");
        assert_eq!(*cycles.get_or_insert(answer.cycles), answer.cycles);
        let spared: Vec<_> = answer.programs.iter().map(|program| program.fallback.as_str()).collect();
        let tiers = answer.groups[0].tiers.as_ref().unwrap();
        let reported = answer.interpreted.iter().map(|program| (&*program.sha256, &*program.why));
        let reported: Vec<_> = reported.collect();
        if spared[1] == "leaves_early" {
            assert_eq!((tiers.restarted.as_str(), tiers.native_cycles > 0), ("", true), "{answer:?}");
            assert_eq!(reported, [(leaver.as_str(), "leaves_early")]);
        } else {
            assert_eq!(tiers.restarted, "bad_address", "{answer:?}");
            assert_eq!(reported, []);
        }
        assert_ne!(spared[0], "leaves_early");
        begun_there += u32::from(tiers.restarted.is_empty());
        assert!(run >= 4 || begun_there == 0);
    }
    assert!((24..44).contains(&begun_there), "{begun_there}");
    let answer = client.verify(verification(json, Tier::Native)).await.unwrap();
    assert_eq!(answer.groups[0].tiers.as_ref().unwrap().restarted, "bad_address");
    let spared = server.metric("antares_fallbacks_total{reason=\"leaves_early\"}");
    assert_eq!(spared, f64::from(begun_there));
}

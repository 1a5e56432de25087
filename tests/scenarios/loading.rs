//! Libraries that a lock loads at run time are native from the third run on.

use antares_proto::v1::{Tier, VerifyOutcome};
use antares_tests::guests;
use bytes::Bytes;
use ckb_types::core::ScriptHashType;

use crate::{
    client::{Client, locked, serving, verification},
    server::{Server, eventually, until},
};

/// Required share of native cycles, percent.
const NATIVE_PERCENT_MIN: u64 = 90;

fn transaction(hash_type: ScriptHashType) -> Vec<u8> {
    let lock = Bytes::from(guests::loading_lock(2000).unwrap());
    let library = Bytes::from(guests::loaded_library("-O2").unwrap());
    locked(&[lock, library], hash_type)
}

/// Verifies until enough is native. Returns the number of runs.
async fn run_until_native(client: &Client, json: &[u8], cycles: &mut Option<u64>) -> usize {
    let mut run = 0;
    eventually("enough is native", async || {
        run += 1;
        let answer = client.verify(verification(json, Tier::Auto)).await.unwrap();
        assert_eq!(answer.outcome(), VerifyOutcome::Ok, "{answer:?}");
        assert_eq!(*cycles.get_or_insert(answer.cycles), answer.cycles);
        let native = answer.groups[0].tiers.as_ref().unwrap().native_cycles;
        // Slow programs in the interpreter have a reason.
        let loaded = answer.interpreted.iter().find(|program| program.loaded_at.is_some());
        match loaded {
            Some(program) => {
                let expected = if run == 1 { "new" } else { "passed_over" };
                assert!([expected, "new"].contains(&&*program.why), "{program:?}");
                assert!(program.cycles > 1_000_000 && program.size_bytes > 1000, "{program:?}");
            }
            None => assert!(run > 1 || native > 0, "{answer:?}"),
        }
        native * 100 >= answer.cycles * NATIVE_PERCENT_MIN
    })
    .await;
    run
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loaded_library_is_native_over_grpc() {
    let (data, server, client) = serving("").await;
    for hash_type in [ScriptHashType::Data1, ScriptHashType::Data2] {
        let (json, mut cycles) = (transaction(hash_type), None);
        assert!(run_until_native(&client, &json, &mut cycles).await > 1);
        assert_eq!(run_until_native(&client, &json, &mut cycles).await, 1);
    }
    assert!(server.result("hot_programs_total", "compiled") >= 2.0);
    let finished = |server: &Server| {
        ["compiles_total", "baseline_compiles_total"].map(|name| server.result(name, "done"))
    };
    until("all is compiled", || finished(&server)[0] >= finished(&server)[1]);
    drop(client);
    assert_eq!(server.stop(), Some(0));

    // A new process must discover again which transactions load such code; compiled code is stored.
    let server = Server::start(&data);
    let client = Client::connect(&server).await;
    for hash_type in [ScriptHashType::Data1, ScriptHashType::Data2] {
        let (json, mut cycles) = (transaction(hash_type), None);
        assert!(run_until_native(&client, &json, &mut cycles).await > 1);
    }
    assert_eq!(finished(&server), [0.0; 2]);
}

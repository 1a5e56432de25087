//! The main job: secp256k1 verification uploaded, compiled, kept, run; and again from the store, after a
//! restart too.

use antares_abi::{CompileOptions, Isa};
use antares_proto::v1::{CacheUse, Tier};
use antares_tests::{guests, oracle};
use bytes::Bytes;

use crate::{
    client::{Client, exit_code, inline, serving, stored},
    server::Server,
};

/// Cycles of the oracle.
fn expected_cycles(elf: &[u8], argument: &str) -> u64 {
    let case = oracle::Case {
        elf: Bytes::copy_from_slice(elf),
        args: vec![Bytes::copy_from_slice(argument.as_bytes())],
        options: CompileOptions { vm_version: 2, isa: Isa::of_version(2) },
        cycles_max: u64::MAX >> 1,
        code: None,
    };
    oracle::run(&case).cycles
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_is_compiled_once_and_run_from_the_store_ever_after() {
    let elf = guests::bytes("secp256k1-small-b").unwrap();
    let cycles = expected_cycles(&elf, "3");
    let (data, server, mut client) = serving("").await;
    assert!(!client.upload(&elf).await.unwrap().already_stored);
    assert!(client.upload(&elf).await.unwrap().already_stored);
    let cold = client.execute(stored(&elf, &["3"], Tier::Native)).await.unwrap();
    let warm = client.execute(stored(&elf, &["3"], Tier::Native)).await.unwrap();
    for (answer, cache) in [(&cold, CacheUse::Miss), (&warm, CacheUse::Hit)] {
        let (verdict, tiers) = (answer.verdict.as_ref().unwrap(), answer.tiers.as_ref().unwrap());
        assert_eq!((exit_code(answer), verdict.cycles), (Some(0), cycles), "{answer:?}");
        assert_eq!((tiers.native_cycles, tiers.interpreted_cycles), (cycles, 0));
        assert_eq!(answer.artifact.as_ref().unwrap().cache(), cache);
    }
    drop(client);
    assert_eq!(server.stop(), Some(0));

    let server = Server::start(&data);
    let mut client = Client::connect(&server).await;
    let kept = client.execute(stored(&elf, &["3"], Tier::Native)).await.unwrap();
    assert_eq!(kept.artifact.as_ref().unwrap().cache(), CacheUse::Hit);
    assert_eq!(kept.verdict, cold.verdict);
    let interpreted = client.execute(stored(&elf, &["3"], Tier::Interpreter)).await.unwrap();
    assert_eq!(interpreted.verdict, cold.verdict);
}

#[tokio::test(flavor = "multi_thread")]
async fn attacks_end_over_grpc_as_they_do_in_the_machine() {
    let (_data, _server, mut client) = serving("").await;
    for (guest, error) in [
        ("attack-read-above47", "MemOutOfBound"),
        ("attack-write-host-state", "MemOutOfBound"),
        ("attack-write-code-same", "MemWriteOnExecutablePage"),
        ("attack-recursion", ""),
    ] {
        let elf = guests::bytes(guest).unwrap();
        let answer = client.execute(inline(&elf, &[], Tier::Native)).await.unwrap();
        assert_eq!(answer.verdict.as_ref().unwrap().error, error, "{guest}: {answer:?}");
    }
}

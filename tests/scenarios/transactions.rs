//! Whole transactions over gRPC: ckb-script's cycles and errors, and errors with their locations.

use std::fs;

use antares_chain::elf;
use antares_proto::v1::{self, CacheUse, Tier, VerifyOutcome, verify_transaction_request::Transaction};
use antares_tests::guests::{self, debugger_examples};
use antares_transaction::Mock;
use bytes::Bytes;
use ckb_types::{
    core::ScriptHashType,
    packed::{Byte32, CellOutput},
    prelude::*,
};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::{
    between_tenants::countdown,
    client::{assembled, digest, is, locked, serving, verification},
    server::{antares, ended, started, until},
};

/// Minimum share of native cycles in real transactions, percent.
const NATIVE_PERCENT_MIN: u64 = 99;

pub(crate) fn example(name: &str) -> Vec<u8> {
    fs::read(debugger_examples().unwrap().join(name)).unwrap()
}

/// Location of a status's error.
#[track_caller]
pub(crate) fn mistake(status: &Status) -> String {
    is(status, Code::InvalidArgument, "TRANSACTION_INVALID");
    let details = status.get_error_details();
    let violation = &details.bad_request().unwrap().field_violations[0];
    assert!(!violation.description.is_empty(), "{status:?}");
    violation.field.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn real_transactions_run_natively_with_their_cycles() {
    let (_data, _server, client) = serving("").await;
    for (name, cycles) in [
        ("mock_tx.json", 1_686_515),
        ("dynamic.json", 2_808_365),
        ("spawn_cycle_mismatch_tx.json", 49_186_319),
    ] {
        let json = example(name);
        for round in 0..2 {
            let answer = client.verify(verification(json.clone(), Tier::Native)).await.unwrap();
            assert_eq!((answer.outcome(), answer.cycles), (VerifyOutcome::Ok, cycles), "{name}: {answer:?}");
            let tiers = || answer.groups.iter().filter_map(|group| group.tiers.as_ref());
            let native: u64 = tiers().map(|tiers| tiers.native_cycles).sum();
            let interpreted: u64 = tiers().map(|tiers| tiers.interpreted_cycles).sum();
            // VMs that are soon suspended again are interpreted: here half of the runs of those that return.
            let percent_min = if name.starts_with("spawn") { 50 } else { NATIVE_PERCENT_MIN };
            assert!(native * 100 > (native + interpreted) * percent_min, "{name}: {native}, {interpreted}");
            assert!(!answer.programs.is_empty());
            for program in &answer.programs {
                // A program may be known from an earlier transaction.
                let is_hit = program.artifact.as_ref().is_none_or(|used| used.cache() == CacheUse::Hit);
                assert!(program.fallback.is_empty() && (round == 0 || is_hit), "{name}: {program:?}");
            }
        }
        let interpreted = client.verify(verification(json, Tier::Interpreter)).await.unwrap();
        assert_eq!((interpreted.cycles, interpreted.programs.len()), (cycles, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_of_garbage_fails_its_transaction_and_nothing_else() {
    let (_data, _server, client) = serving("").await;
    let lock = guests::bytes("exit-imc").unwrap();
    let mut wide = lock.clone();
    // The class: 32 bits.
    wide[4] = 1;
    for elf in [b"garbage".to_vec(), lock[..100].to_vec(), wide] {
        for tier in [Tier::Auto, Tier::Native, Tier::Interpreter] {
            let answer = client.verify(verification(with_lock(&elf), tier)).await.unwrap();
            assert_eq!(answer.outcome(), VerifyOutcome::Failed, "{answer:?}");
            let error = answer.groups[0].error.as_ref().unwrap();
            assert_eq!([&*error.kind, &*error.source], ["VMInternalError", "Inputs[0].Lock"]);
            let good = client.verify(verification(with_lock(&lock), Tier::Native)).await.unwrap();
            assert_eq!(good.groups[0].exit_code, Some(0), "{good:?}");
        }
    }
}

/// A transaction of one input, whose lock is `elf`.
pub(crate) fn with_lock(elf: &[u8]) -> String {
    String::from_utf8(locked(&[Bytes::copy_from_slice(elf)], ScriptHashType::Data1)).unwrap()
}

/// Output of `antares verify` for an example, without times.
fn command(name: &str, args: &[&str]) -> (Option<i32>, String) {
    let mut command = antares(&["verify", "--tx"]);
    command.arg(debugger_examples().unwrap().join(name)).args(args);
    command.env("ANTARES_HEAD_START_MS", "0").env_remove("ANTARES_CACHE");
    ended(&mut command)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_says_the_same_here_and_there() {
    let (data, server) = started("");
    let there = ["--json", "--server", server.address.as_str()];
    for more in [&[][..], &["--max-cycles", "1000"], &["--group", "lock", "--cell", "input.0"]] {
        let here = command("mock_tx.json", &[&["--json"], more].concat());
        assert_eq!(command("mock_tx.json", &[&there, more].concat()), here);
        assert_eq!(here.0, Some(i32::from(more.contains(&"1000"))));
    }
    // Its large cells were sent by digest.
    assert!(server.metric("antares_hot_cells") > 0.5);
    let empty = data.path().join("empty.json");
    fs::write(&empty, "{}").unwrap();
    let words = ["verify", "--tx", empty.to_str().unwrap(), "--server", &server.address];
    let (status, said) = ended(&mut antares(&words));
    assert!(status == Some(2) && said.contains("the key `mock_info` is missing"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slice_that_proves_hot_is_native_the_next_time() {
    const MARGIN: usize = 24;
    let slice = countdown(1);
    // Executes the rest of the second cell dep: exec(index, source, place, offset in the upper half, argc,
    // argv).
    let execs = format!(
        "li a0, 1\nli a1, 3\nli a2, 0\nli a3, {MARGIN}\nslli a3, a3, 32\nli a4, 0\nli a5, 0\nli a7, 2043\necall\n"
    );
    let data = [&[7; MARGIN], &*slice].concat();
    // In version 2, the scheduler implements exec and names what it loads.
    let json = locked(&[assembled(&execs).into(), data.into()], ScriptHashType::Data2);

    let (_data, server, client) = serving("").await;
    let cold = client.verify(verification(json.clone(), Tier::Auto)).await.unwrap();
    assert_eq!(cold.outcome(), VerifyOutcome::Ok, "{cold:?}");
    let tiers = |answer: &v1::VerifyTransactionResponse| answer.groups[0].tiers.clone().unwrap();
    assert!(tiers(&cold).interpreted_cycles > 1 << 20, "{cold:?}");
    until("the slice is compiled", || server.result("hot_programs_total", "compiled") > 0.5);
    let warm = client.verify(verification(json.clone(), Tier::Auto)).await.unwrap();
    assert!(tiers(&warm).native_cycles > 1 << 20, "{warm:?}");
    assert_eq!((warm.outcome(), warm.cycles), (cold.outcome(), cold.cycles));
    assert_eq!(warm.programs.len(), 1, "only cells are told of: {warm:?}");
    let interpreted = client.verify(verification(json, Tier::Interpreter)).await.unwrap();
    assert_eq!(interpreted.cycles, cold.cycles);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_parts_of_a_call_s_time_add_up_to_its_wall() {
    let (_data, _server, client) = serving("").await;
    // Other load of the machine may fall between two parts, but not in every call.
    for request in std::iter::repeat_n(verification(example("mock_tx.json"), Tier::Auto), 200) {
        let us = client.verify(request).await.unwrap().timings.unwrap();
        let parts = us.fetch_us + us.compile_ms * 1000 + us.queue_us + us.load_us + us.run_us + us.parse_us;
        assert!(parts <= us.wall_us + 1100, "{us:?}");
        if parts * 100 >= us.wall_us * 95 {
            return;
        }
    }
    panic!("the parts are less than the wall");
}

/// The molecule parts of an example.
pub(crate) fn fields(json: &[u8]) -> v1::TransactionFields {
    let mock = Mock::from_json(json).unwrap();
    let mock = mock.as_ckb();
    let copied = Bytes::copy_from_slice;
    let cell = |output: &CellOutput, data: &Bytes, header: &Option<Byte32>| v1::CellFields {
        output: copied(output.as_slice()),
        data: data.clone(),
        block_hash: header.as_ref().map(|hash| copied(hash.as_slice())),
        data_sha256: None,
    };
    let deps = mock.mock_info.cell_deps.iter().map(|dep| v1::CellDepFields {
        out_point: copied(dep.cell_dep.out_point().as_slice()),
        cell: Some(cell(&dep.output, &dep.data, &dep.header)),
    });
    let inputs = mock.mock_info.inputs.iter();
    v1::TransactionFields {
        tx: copied(mock.tx.as_slice()),
        inputs: inputs.map(|input| cell(&input.output, &input.data, &input.header)).collect(),
        cell_deps: deps.collect(),
        headers: mock.mock_info.header_deps.iter().map(|header| copied(header.data().as_slice())).collect(),
        extensions: Vec::new(),
    }
}

/// A wallet that verifies many transactions sends their locks' code and data once.
#[tokio::test(flavor = "multi_thread")]
async fn cells_may_name_uploaded_data_in_place_of_their_own() {
    let (_data, _server, client) = serving("[listen]\nrequest_bytes_max = 67108864\n").await;
    let parts = fields(&example("mock_tx.json"));
    let of = |parts: v1::TransactionFields| v1::VerifyTransactionRequest {
        transaction: Some(Transaction::Fields(parts)),
        ..verification("", Tier::Interpreter)
    };
    let expected = client.verify(of(parts.clone())).await.unwrap();
    let mut named = parts.clone();
    let mut left = 0;
    for cell in named.cell_deps.iter_mut().filter_map(|dep| dep.cell.as_mut()) {
        client.upload(&cell.data).await.unwrap();
        // Data that is not a script is stored and returned, but never compiled.
        if !cell.data.starts_with(b"\x7fELF") {
            assert!(!client.is_missing(&cell.data).await);
            is(&client.compile(&cell.data).await.unwrap_err(), Code::InvalidArgument, "SCRIPT_INVALID");
            left += 1;
        }
        (cell.data_sha256, cell.data) = (Some(digest(&cell.data)), Bytes::new());
    }
    assert!(left > 0);
    let answer = client.verify(of(named.clone())).await.unwrap();
    assert_eq!(
        (answer.outcome, &answer.groups, answer.cycles),
        (expected.outcome, &expected.groups, expected.cycles)
    );

    let with = |text: &str, data: Bytes| {
        let mut parts = named.clone();
        let cell = parts.cell_deps[0].cell.as_mut().unwrap();
        (cell.data_sha256, cell.data) = (Some(text.to_owned()), data);
        of(parts)
    };
    let unknown = "ab".repeat(32);
    for (name, data) in [("abc", Bytes::new()), (&*unknown, Bytes::from_static(b"x"))] {
        let error = client.verify(with(name, data)).await.unwrap_err();
        assert_eq!(mistake(&error), "cell_deps[0].cell.data_sha256", "{name}");
    }
    let error = client.verify(with(&unknown, Bytes::new())).await.unwrap_err();
    is(&error, Code::NotFound, "SCRIPT_NOT_FOUND");
    assert!(error.message().starts_with(&format!("cell data {unknown} of 0x")), "{error}");
    assert!(error.message().contains(":3 is not stored"), "{error}");
    let details = error.get_error_details();
    let violations = &details.bad_request().unwrap().field_violations;
    assert_eq!(violations[0].field, "cell_deps[0].cell.data_sha256");

    // A short message that references large data is charged for that data.
    let large: Vec<u8> = [elf(&[0x73]), vec![0; 1 << 20]].concat();
    client.upload(&large).await.unwrap();
    let cell = v1::CellFields { data_sha256: Some(digest(&large)), ..Default::default() };
    let bomb = v1::TransactionFields { inputs: vec![cell; 40], ..parts };
    let error = client.verify(of(bomb)).await.unwrap_err();
    is(&error, Code::ResourceExhausted, "REQUEST_BYTES");
}

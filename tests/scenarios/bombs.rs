//! Scripts that are costly to compile, one of each kind: within the compiler's limits, reported once, and
//! without effect on others.

use std::time::{Duration, Instant};

use antares_proto::v1::Tier;
use antares_tests::{
    asm::encode,
    elf::{Elf, Segment, Symbol},
    guests,
};
use tonic::Code;

use crate::{
    client::{Client, exit_code, inline, reason},
    server::Server,
};

/// Configured processor time of a compile.
const LIMIT: Duration = Duration::from_secs(20);
/// Time of a call besides its compile: the queue, the run in the interpreter, and a busy machine.
const BESIDE: Duration = Duration::from_secs(40);
/// Maximum memory of the server's own process, bytes.
const MEMORY_MAX: u64 = 256 << 20;

const START: u64 = 0x1_0000;

fn elf(words: &[u32], symbols: Option<Vec<Symbol>>) -> Vec<u8> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let memory_bytes = bytes.len() as u64;
    let segments = vec![Segment { address: START, flags: 5, bytes, memory_bytes }];
    Elf { entry: START, segments, symbols }.to_bytes()
}

/// `exit(5)`.
fn exit() -> [u32; 3] {
    [encode::i(0x13, 0, 10, 0, 5), encode::i(0x13, 0, 17, 0, 93), 0x73]
}

/// Consecutive additions, nearly as many as fit into guest memory.
fn long_block() -> Vec<u8> {
    let mut words: Vec<u32> = (0..700_000).map(|number| encode::i(0x13, 0, 6, 6, number % 7)).collect();
    words.extend(exit());
    elf(&words, None)
}

/// Blocks that may each be skipped, in one function.
fn many_blocks() -> Vec<u8> {
    let mut words: Vec<u32> = Vec::new();
    for _ in 0..200_000 {
        words.extend([encode::b(1, 28, 0, 8).unwrap(), encode::i(0x13, 0, 6, 6, 1)]);
    }
    words.extend(exit());
    elf(&words, None)
}

/// Nested loops, some hundreds deep, each of one iteration.
fn deep_loops() -> Vec<u8> {
    const DEPTH: usize = 450;
    let mut words = vec![encode::i(0x13, 0, 6, 6, 1); DEPTH];
    for head in (0..DEPTH).rev() {
        let distance = 4 * (head as i64 - words.len() as i64);
        words.push(encode::b(1, 28, 0, distance).unwrap());
    }
    words.extend(exit());
    elf(&words, None)
}

/// Named functions of two instructions.
fn many_functions() -> Vec<u8> {
    const COUNT: u64 = 200_000;
    let mut words = exit().to_vec();
    for _ in 0..COUNT {
        words.extend([encode::i(0x13, 0, 6, 6, 1), encode::i(0x67, 0, 0, 1, 0)]);
    }
    let symbols = (0..COUNT).map(|number| Symbol {
        name: format!("f{number}"),
        address: START + 12 + 8 * number,
        size: 8,
    });
    elf(&words, Some(symbols.collect()))
}

/// Each function calls the next two.
fn calls_of_calls() -> Vec<u8> {
    const COUNT: usize = 3_000;
    const WORDS: i64 = 7;
    let mut words = vec![encode::jal(0, 4 * (1 + WORDS * COUNT as i64)).unwrap()];
    for number in 0..COUNT {
        let next = |from: i64, over: i64| {
            let to = ((number as i64 + over).min(COUNT as i64 - 1) - number as i64) * WORDS - from;
            encode::jal(1, 4 * to).unwrap()
        };
        words.extend([
            encode::i(0x13, 0, 2, 2, -16),
            encode::s(3, 2, 1, 8),
            next(2, 1),
            next(3, 2),
            encode::i(3, 3, 1, 2, 8),
            encode::i(0x13, 0, 2, 2, 16),
            encode::i(0x67, 0, 0, 1, 0),
        ]);
    }
    words.extend(exit());
    elf(&words, None)
}

/// Asserts the cost of a bomb: one answer in time, and no effect on others.
async fn is_contained(name: &str, bomb: &[u8]) {
    let data = tempfile::tempdir().unwrap();
    let limit = LIMIT.as_millis();
    let server = Server::start_with(&data, &format!("[compiler]\nwall_ms_max = {limit}\nbaseline = false\n"));
    let (mut client, small) = (Client::connect(&server).await, guests::bytes("exit-imc").unwrap());
    client.execute(inline(&small, &["3"], Tier::Native)).await.unwrap();
    let (mut other, request) = (client.clone(), inline(bomb, &[], Tier::Native));
    let started = Instant::now();
    let answer = tokio::spawn(async move { other.execute(request).await });
    assert_eq!(
        exit_code(&client.execute(inline(&small, &["4"], Tier::Native)).await.unwrap()),
        Some(4),
        "{name}"
    );
    let answer = answer.await.unwrap();
    let took = started.elapsed();
    assert!(took < 10 * LIMIT + BESIDE, "{name}: {took:?}");
    let compiles = || {
        ["done", "refused", "timeout", "worker_lost"]
            .map(|result| server.metric(&format!("antares_compiles_total{{result=\"{result}\"}}")))
            .iter()
            .sum::<f64>()
    };
    let reported = match &answer {
        Ok(answer) => {
            assert_eq!(exit_code(answer), Some(5), "{name}");
            "compiled".to_owned()
        }
        Err(status) => {
            assert_eq!(status.code(), Code::FailedPrecondition, "{name}: {status}");
            let why = reason(status);
            assert!(
                [
                    "LIMIT_CODE_BYTES",
                    "LIMIT_FUNCTIONS",
                    "LIMIT_BLOCKS",
                    "LIMIT_OPERATIONS",
                    "COMPILE_TIMEOUT"
                ]
                .contains(&&*why),
                "{name}: {status}"
            );
            why
        }
    };
    println!("{name}: {} KiB, {reported} after {took:?}", bomb.len() >> 10);
    // The result is remembered, and it still runs without native code.
    let before = compiles();
    let run = client.execute(inline(bomb, &[], Tier::Auto)).await.unwrap();
    assert_eq!(exit_code(&run), Some(5), "{name}: {run:?}");
    assert_eq!(compiles(), before, "{name} is compiled once");
    assert!(server.memory_high() < MEMORY_MAX, "{name}: {} bytes", server.memory_high());
    assert_eq!(server.stop(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_kind_of_bomb_is_contained() {
    for (name, bomb) in [
        ("a long block", long_block()),
        ("many blocks", many_blocks()),
        ("deep loops", deep_loops()),
        ("many functions", many_functions()),
        ("calls of calls", calls_of_calls()),
    ] {
        is_contained(name, &bomb).await;
    }
}

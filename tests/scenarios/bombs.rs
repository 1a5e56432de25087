//! Scripts that are costly to compile, one of each kind: within the compiler's limits, reported once, and
//! without effect on others.

use std::time::{Duration, Instant};

use antares_proto::v1::Tier;
use antares_tests::guests;
use tonic::Code;

use crate::client::{exit_code, inline, reason, serving};

/// Configured processor time of a compile.
const LIMIT: Duration = Duration::from_secs(20);
/// Time of a call besides its compile: the queue, the run in the interpreter, and a busy machine.
const BESIDE: Duration = Duration::from_secs(40);
/// Maximum memory of the server's own process, bytes.
const MEMORY_MAX: u64 = 256 << 20;

/// Exits with 5 at the label `exit`; the code of the bomb is before, or behind.
fn bomb(before: &str, behind: &str) -> Vec<u8> {
    let head = ".option norvc\n.option norelax\n.globl _start\n_start:\n";
    guests::assemble(&format!("{head}{before}exit: li a0, 5\nli a7, 93\necall\n{behind}")).unwrap()
}

/// Consecutive additions, nearly as many as fit into guest memory.
fn long_block() -> Vec<u8> {
    bomb(".rept 100000\naddi t1, t1, 1\naddi t1, t1, 2\n.rept 5\naddi t1, t1, 3\n.endr\n.endr\n", "")
}

/// Blocks that may each be skipped, in one function.
fn many_blocks() -> Vec<u8> {
    bomb(".rept 200000\nbnez t3, 1f\naddi t1, t1, 1\n1:\n.endr\n", "")
}

/// Nested loops, some hundreds deep, each of one iteration.
fn deep_loops() -> Vec<u8> {
    const DEPTH: usize = 450;
    let heads: String = (0..DEPTH).map(|depth| format!(".Lh{depth}: addi t1, t1, 1\n")).collect();
    let ends: String = (0..DEPTH).rev().map(|depth| format!("bnez t3, .Lh{depth}\n")).collect();
    bomb(&(heads + &ends), "")
}

/// A function with a symbol.
fn function(number: usize, code: &str) -> String {
    format!(".type f{number}, @function\nf{number}: {code}\nret\n.size f{number}, . - f{number}\n")
}

/// Named functions of two instructions.
fn many_functions() -> Vec<u8> {
    let functions: String = (0..200_000).map(|number| function(number, "addi t1, t1, 1")).collect();
    bomb("", &functions)
}

/// Each function calls the next two.
fn calls_of_calls() -> Vec<u8> {
    const COUNT: usize = 3_000;
    let calls = |number: usize| {
        let [first, second] = [1, 2].map(|over| (number + over).min(COUNT - 1));
        let calls = format!("jal f{first}\njal f{second}\n");
        function(number, &format!("addi sp, sp, -16\nsd ra, 8(sp)\n{calls}ld ra, 8(sp)\naddi sp, sp, 16"))
    };
    let functions: String = (0..COUNT).map(calls).collect();
    bomb("j exit\n", &functions)
}

/// Asserts the cost of a bomb: one answer in time, and no effect on others.
async fn is_contained(name: &str, bomb: &[u8]) {
    let limit = LIMIT.as_millis();
    let sections = format!("[compiler]\nwall_ms_max = {limit}\nbaseline = false\n");
    let (_data, server, client) = serving(&sections).await;
    let small = guests::bytes("exit-imc").unwrap();
    client.execute(inline(&small, &["3"], Tier::Native)).await.unwrap();
    let (other, request) = (client.clone(), inline(bomb, &[], Tier::Native));
    let started = Instant::now();
    let answer = tokio::spawn(async move { other.execute(request).await });
    let meanwhile = client.execute(inline(&small, &["4"], Tier::Native)).await.unwrap();
    assert_eq!(exit_code(&meanwhile), Some(4), "{name}");
    let answer = answer.await.unwrap();
    let took = started.elapsed();
    assert!(took < 10 * LIMIT + BESIDE, "{name}: {took:?}");
    let compiles = || {
        ["done", "refused", "timeout", "worker_lost"].map(|result| server.result("compiles_total", result))
    };
    let reported = match &answer {
        Ok(answer) => {
            assert_eq!(exit_code(answer), Some(5), "{name}");
            "compiled".to_owned()
        }
        Err(status) => {
            assert_eq!(status.code(), Code::FailedPrecondition, "{name}: {status}");
            let why = reason(status);
            let limits = ["CODE_BYTES", "FUNCTIONS", "BLOCKS", "OPERATIONS"];
            let is_limit = limits.iter().any(|limit| why == format!("LIMIT_{limit}"));
            assert!(is_limit || why == "COMPILE_TIMEOUT", "{name}: {status}");
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

//! Every kind of generator error, in libraries that are otherwise correct: the check refuses the library, its
//! run is a violation, or the second run finds a different answer. No caller gets a wrong answer.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "addresses of a small library, on 64 bits"
)]

use std::mem::offset_of;

use antares_abi::{GUEST_MEMORY_BYTES, HOST_TABLE_OFFSET, HostTable, STATE_OFFSET, State};
use antares_codecheck::check;
use antares_proto::v1::{ExecuteResponse, Outcome, Tier};
use antares_tests::native::code_of;
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, Register};

use crate::{
    client::{Client, assembled, exit_code, serving, stored},
    contained::spoil,
    server::{Server, until},
};

const SECTIONS: &str = "[compiler]\nbaseline = false\n[runner]\nrecheck_one_in = 1\n";

/// Outcome of a run with an error in its library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Violation,
    /// The answer was wrong, and the second run found it.
    Found,
    /// The answer was right nevertheless.
    Right,
}

/// Machine code of an error.
#[derive(Clone, Copy)]
enum Code {
    Bytes(&'static [u8]),
    /// `mov qword ptr [base + number], value`, where the base register is the one that the host call uses.
    Store(usize, u32),
}

/// What no generator would store.
const JUNK: u32 = 0x5a5a_5a5a;

impl Code {
    fn with_base(self, base: u8) -> Vec<u8> {
        let (number, value) = match self {
            Self::Bytes(bytes) => return bytes.to_vec(),
            Self::Store(number, value) => (number as u32, value),
        };
        let mut store = vec![0x48 | (base >> 3), 0xc7, 0x80 | (base & 7)];
        if base & 7 == 4 {
            store.push(0x24);
        }
        [&store[..], &number.to_le_bytes(), &value.to_le_bytes()].concat()
    }
}

/// An error, inserted where the script has just written its state for the host and is about to exit.
struct Mistake {
    name: String,
    code: Code,
    is_refused: bool,
    end: End,
}

fn instructions(library: &[u8]) -> Vec<Instruction> {
    let code = code_of(library);
    Decoder::with_ip(64, &library[code.clone()], code.start as u64, DecoderOptions::NONE)
        .into_iter()
        .collect()
}

/// Inserts the code of `mistake` before the first host call for an ecall; the space is after the code.
fn detour(library: &mut [u8], mistake: impl Fn(u8) -> Vec<u8>) -> usize {
    let field = (HOST_TABLE_OFFSET + offset_of!(HostTable, ecall)) as u64;
    let is_call = |found: &&Instruction| {
        found.mnemonic() == Mnemonic::Call
            && found.memory_base() != Register::None
            && found.memory_displacement64() == field
    };
    let all = instructions(library);
    let Some(call) = all.iter().find(is_call) else {
        panic!("no call of the host: {all:?}");
    };
    let (place, length) = (call.ip() as usize, call.len());
    let room = code_of(library).end - 256;
    assert!(library[room..room + 128].iter().all(|byte| *byte == 0xcc), "room behind the code");
    let jump = |from: usize, to: usize| [&[0xe9][..], &(to as i32 - from as i32 - 5).to_le_bytes()].concat();
    let mut tail = mistake(call.memory_base().number() as u8);
    tail.extend_from_slice(&library[place..place + length]);
    tail.extend_from_slice(&jump(room + tail.len(), place + length));
    library[room..room + tail.len()].copy_from_slice(&tail);
    library[place..place + length].fill(0x90);
    library[place..place + 5].copy_from_slice(&jump(place, room));
    1
}

/// A store to each field of the state, after all the generator's writes.
fn stores() -> Vec<Mistake> {
    let register = |index: usize| (format!("x{index}"), State::register_offset(index));
    let fields = (0..32).map(register).chain([
        ("pc".to_owned(), offset_of!(State, pc)),
        ("cycles_left".to_owned(), offset_of!(State, cycles_left)),
        ("leave_reason".to_owned(), offset_of!(State, bailout_reason)),
        ("is_complete".to_owned(), offset_of!(State, is_complete)),
    ]);
    let to_state = fields.map(|(name, field)| Mistake {
        end: match &*name {
            // The exit code. The interpreter handles an unknown call, and an increased number of remaining
            // cycles.
            "x10" => End::Found,
            _ => End::Right,
        },
        name,
        code: Code::Store(STATE_OFFSET + field, JUNK),
        is_refused: false,
    });
    let table = (0..size_of::<HostTable>()).step_by(8).map(|field| Mistake {
        name: format!("host table + {field}"),
        code: Code::Store(HOST_TABLE_OFFSET + field, JUNK),
        is_refused: true,
        end: End::Violation,
    });
    to_state.chain(table).collect()
}

/// Other possible errors of a generator.
fn others() -> Vec<Mistake> {
    use Code::{Bytes, Store};
    let rows = [
        ("cycles", Store(STATE_OFFSET + offset_of!(State, cycles_left), 1_000), false, End::Found),
        // The last 7 bytes of guest memory and the one after: the interpreter answers.
        ("a check one byte short", Store(GUEST_MEMORY_BYTES as usize - 7, JUNK), false, End::Right),
        // The furthest address beyond memory that the 32-bit check would accept.
        ("no check", Store(0x7fff_0000, JUNK), false, End::Violation),
        ("a return too early", Bytes(&[0xc3]), false, End::Violation),
        // jmp over the host call, whose 6 bytes follow
        ("a way past the call", Bytes(&[0xeb, 6]), false, End::Right),
        // mov eax, 39; syscall
        ("a system call", Bytes(&[0xb8, 39, 0, 0, 0, 0x0f, 0x05]), true, End::Violation),
        // xor ecx, ecx; mov [rcx], rcx
        ("a base that is zero", Bytes(&[0x31, 0xc9, 0x48, 0x89, 0x09]), false, End::Violation),
        // lea rcx, [rip]; mov [rcx], rcx
        (
            "a base in the code",
            Bytes(&[0x48, 0x8d, 0x0d, 0, 0, 0, 0, 0x48, 0x89, 0x09]),
            false,
            End::Violation,
        ),
        // mov rcx, 1 << 62; mov [rcx], rcx
        (
            "a base that is no address",
            Bytes(&[0x48, 0xb9, 0, 0, 0, 0, 0, 0, 0, 0x40, 0x48, 0x89, 0x09]),
            false,
            End::Violation,
        ),
        // mov rcx, 8; jmp rcx
        ("a way to a number", Bytes(&[0xb9, 8, 0, 0, 0, 0xff, 0xe1]), true, End::Violation),
        // jmp into the middle of mov ecx, 0x0b0f: ud2
        ("a way into an instruction", Bytes(&[0xeb, 1, 0xb9, 0x0f, 0x0b, 0, 0]), true, End::Violation),
    ];
    let mistake =
        |(name, code, is_refused, end)| Mistake { name: str::to_owned(name), code, is_refused, end };
    rows.map(mistake).into()
}

/// Exits with a constant.
fn script(number: usize) -> Vec<u8> {
    assembled(&format!("li a0, {}\nli a7, 93\necall\n", number + 1))
}

fn second_runs(server: &Server) -> f64 {
    ["equal", "different", "passed_over"].map(|result| server.result("rechecks_total", result)).iter().sum()
}

/// Runs `elf`, natively or not at all, and waits for its second run.
async fn run(server: &Server, client: &Client, elf: &[u8]) -> (ExecuteResponse, bool) {
    let different = || server.result("rechecks_total", "different");
    let (before, differed) = (second_runs(server), different());
    let answer = client.execute(stored(elf, &[], Tier::Native)).await.unwrap();
    if answer.verdict.as_ref().unwrap().outcome() != Outcome::SandboxViolation {
        until("it is run again", || second_runs(server) > before);
    }
    (answer, different() > differed)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_mistake_ends_as_an_answer_that_is_believed() {
    let mistakes: Vec<_> = stores().into_iter().chain(others()).collect();
    let scripts: Vec<_> = (0..mistakes.len()).map(script).collect();
    let (data, server, client) = serving(SECTIONS).await;
    for (number, elf) in scripts.iter().enumerate() {
        client.upload(elf).await.unwrap();
        let (right, is_different) = run(&server, &client, elf).await;
        assert_eq!((exit_code(&right), is_different), (Some(number as i32 + 1), false));
    }
    server.stop();
    for (mistake, elf) in mistakes.iter().zip(&scripts) {
        spoil(&data, elf, |library| {
            let changed = detour(library, |base| mistake.code.with_base(base));
            let checked = check(library);
            assert_eq!(checked.is_err(), mistake.is_refused, "{}: {checked:?}", mistake.name);
            changed
        });
    }
    let server = Server::start_with(&data, SECTIONS);
    let client = Client::connect(&server).await;
    let (mut quarantined, mut others) = (0.0, Vec::new());
    for (number, (mistake, elf)) in mistakes.iter().zip(&scripts).enumerate() {
        let (answer, is_different) = run(&server, &client, elf).await;
        let is_right = exit_code(&answer) == Some(number as i32 + 1);
        let end = match answer.verdict.as_ref().unwrap().outcome() {
            Outcome::SandboxViolation => End::Violation,
            _ if is_different => End::Found,
            _ => End::Right,
        };
        assert!(is_right || end != End::Right, "{}: {answer:?}", mistake.name);
        if end != mistake.end {
            others.push(format!("{}: {end:?}, {answer:?}", mistake.name));
        }
        quarantined += f64::from(u8::from(end != End::Right));
        assert_eq!(server.metric("antares_artifacts_quarantined"), quarantined, "{}", mistake.name);
    }
    assert!(others.is_empty(), "{others:#?}");
    server.stop();
}

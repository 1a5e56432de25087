//! The abilities of a worker under an attacker's control: each attempt in a child of its own, in the stage that
//! runs guests.

use std::process::Command;

use antares_pool::{Sealed, Verdict};
use antares_sandbox::{Action, Policy, Test};

use crate::{
    hostile::{self, attempt, is_lost, is_ok, is_violation, start, worker},
    kernel,
};

/// Attempts with arguments that work without a sandbox: whether such a process succeeds on any host (some need
/// a newer kernel or more privileges, or die), whether every stage forbids it, and their names.
const ATTEMPTS: [(bool, bool, &str); 4] = [
    (true, false, "open open-old memfd map-executable prctl jump-to-libc"),
    (true, true, "socket socket-unix kill map-both protect-executable fork watch name-thread priority"),
    (
        false,
        false,
        "open-memory open-elf clone3 send-elsewhere control-high-bits open-raised-limit allocate abort",
    ),
    // From `lock-record` on: ways to signal another worker.
    (
        false,
        true,
        "connect ptrace process-vm-readv bpf perf-event-open io-uring-setup userfaultfd unshare mount keyctl thread \
         execve execveat shm flock lock-record lease add-seal socket-vsock socket-pair message-queue semaphore affinity",
    ),
];

/// Names of the attempts of these groups.
fn names(is_wanted: impl Fn(bool, bool) -> bool) -> Vec<&'static str> {
    let groups = ATTEMPTS.iter().filter(|(succeeds, is_never, _)| is_wanted(*succeeds, *is_never));
    groups.flat_map(|(.., names)| names.split(' ')).collect()
}

/// Calls that no filter decides. `rt_sigreturn` is permitted, but without a signal it loads arbitrary
/// registers. `uretprobe` and `uprobe` are internal to the kernel and hidden from filters; for others they fail
/// or raise SIGILL.
const NO_ANSWER: [u64; 3] = [15, 335, 336];

/// This process's id, for attempts against the supervisor.
fn own_pid() -> u64 {
    u64::from(std::process::id())
}

#[test]
fn every_attempt_in_the_run_stage_is_a_violation() {
    let pool = start(2, &[]).unwrap();
    let names = names(|_, _| true);
    for name in &names {
        let verdict = attempt(&pool, "run", name, &[own_pid()]);
        assert!(is_violation(&verdict), "{name}: {verdict:?}");
    }
    assert_eq!((pool.stats().violations_total, names.len()), (names.len() as u64, 46));
    assert_eq!(attempt(&pool, "run", "nothing", &[]), Verdict::Done("ok".to_owned()));
}

/// The attempts succeed without the sandbox. So the test above detects a missing layer.
#[test]
fn attempts_succeed_without_the_fence() {
    for name in names(|succeeds, _| succeeds) {
        let output = Command::new(worker()).args([name, own_pid().to_string().as_str()]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.starts_with("ok"), "{name}: {said}");
    }
}

/// Without the run stage's filter, the layers below it still have their effect.
#[test]
fn other_layers_hold_without_the_last_filter() {
    let pool = start(2, &[]).unwrap();
    let denied = |errno: i32| Verdict::Done(format!("errno {errno}"));
    // Landlock: the load stage's filter permits openat.
    for name in ["open", "open-memory"] {
        assert_eq!(attempt(&pool, "load", name, &[]), denied(libc::EACCES), "{name}");
    }
    // The load stage permits memory files.
    assert!(is_ok(&attempt(&pool, "load", "open-elf", &[])));
}

#[test]
fn the_other_stages_have_no_way_out_either() {
    let pool = start(2, &[]).unwrap();
    for stage in ["load", "compile"] {
        for name in names(|_, is_never| is_never) {
            let verdict = attempt(&pool, stage, name, &[own_pid()]);
            assert!(is_violation(&verdict), "{stage} {name}: {verdict:?}");
        }
    }
    for name in ["memfd", "clone3", "send-elsewhere"] {
        let verdict = attempt(&pool, "load", name, &[]);
        assert!(is_violation(&verdict), "load {name}: {verdict:?}");
    }
}

/// A compile child runs no guest code, but LLVM on hostile input: it may create memory files, but not execute
/// them.
#[test]
fn the_compile_stage_has_memory_files_only() {
    let pool = start(2, &[]).unwrap();
    let denied = |errno: i32| Verdict::Done(format!("errno {errno}"));
    assert!(is_ok(&attempt(&pool, "compile", "memfd", &[])));
    assert!(is_violation(&attempt(&pool, "compile", "map-executable", &[])));
    assert_eq!(attempt(&pool, "compile", "open", &[]), denied(libc::EACCES));
    assert_eq!(attempt(&pool, "compile", "open-memory", &[]), denied(libc::EACCES));
    assert_eq!(attempt(&pool, "compile", "clone3", &[]), denied(libc::ENOSYS));
    // The reported end is that of its limit, or of a fatal error of LLVM.
    for name in ["allocate", "abort"] {
        let verdict = attempt(&pool, "compile", name, &[]);
        assert!(is_lost(&verdict, "SIGABRT"), "{name}: {verdict:?}");
    }
}

#[test]
fn memory_files_of_a_compile_child_have_half_of_its_memory() {
    let pool = start(2, &[]).unwrap();
    // Of 1 GiB. It has no descriptors left, not even that of the channel, but still answers.
    assert_eq!(attempt(&pool, "compile", "fill-memory-files", &[]), Verdict::Done("ok 511".to_owned()));
}

/// Whether the run stage's table permits a call with these arguments.
fn is_allowed(policy: &Policy, number: u64, argument: impl Fn(u8) -> u64) -> bool {
    policy.rules.iter().filter(|rule| rule.call.number.cast_unsigned() == number).any(|rule| {
        rule.answer == Action::Allow
            && rule.conditions.iter().all(|condition| match condition.test {
                Test::Is(value) => argument(condition.argument) == value,
                Test::Lacks(mask) => argument(condition.argument) & mask == 0,
                Test::OwnProcess => false,
            })
    })
}

#[test]
fn a_sweep_over_all_calls_finds_the_table_and_nothing_else() {
    let pool = start(2, &[]).unwrap();
    let policy = Policy::run();
    let sweep = |name: &str, argument: u64| {
        for number in 0..512 {
            let allowed = is_allowed(&policy, number, |_| argument);
            let verdict = attempt(&pool, "run", name, &[number]);
            if NO_ANSWER.contains(&number) {
                assert!(!is_ok(&verdict), "{name} {number}: {verdict:?}");
                continue;
            }
            // A permitted call fails, succeeds or ends the process, without a violation.
            assert_eq!(!is_violation(&verdict), allowed, "{name} {number}: {verdict:?}");
            // The supervisor reports the call, if the kernel can guarantee the record.
            if let (Verdict::SandboxViolation { detail }, true) = (&verdict, kernel::can_seal()) {
                assert!(detail.starts_with(&format!("system call {number} ")), "{number}: {detail}");
            }
        }
    };
    sweep("syscall", 0);
    sweep("syscall-ones", u64::MAX);
    // A descriptor, valid memory, matching lengths: arguments with which a call can succeed. Pointers match no
    // value of a rule.
    for number in (0..512).filter(|number| !NO_ANSWER.contains(number)) {
        let allowed =
            is_allowed(&policy, number, |argument| [4, u64::MAX, 64, u64::MAX, 64, 0][usize::from(argument)]);
        let verdict = attempt(&pool, "run", "syscall-fitting", &[number]);
        assert_eq!(!is_violation(&verdict), allowed, "fitting {number}: {verdict:?}");
    }
}

/// Memory permissions are enforced: code and constants are not writable, data is not executable.
#[test]
fn memory_is_either_code_or_data() {
    let pool = start(2, &[]).unwrap();
    for stage in ["run", "load", "compile"] {
        for name in ["write-own-code", "write-constants", "run-data"] {
            let verdict = attempt(&pool, stage, name, &[]);
            assert!(is_lost(&verdict, "SIGSEGV"), "{stage} {name}: {verdict:?}");
        }
    }
}

#[test]
fn calls_of_other_architectures_are_violations() {
    let pool = start(2, &[]).unwrap();
    for number in 0..512 {
        let verdict = attempt(&pool, "run", "i386", &[number]);
        assert!(is_violation(&verdict), "i386 {number}: {verdict:?}");
    }
    for number in 0..560 {
        let verdict = attempt(&pool, "run", "syscall", &[number | 0x4000_0000, 3]);
        assert!(is_violation(&verdict), "x32 {number}: {verdict:?}");
    }
}

#[test]
fn each_child_sees_its_own_job_only() {
    let pool = start(2, &[]).unwrap();
    for elf in ["first", "second"] {
        let sealed = Sealed::new("elf", elf.as_bytes()).unwrap();
        let job = hostile::job("load", "elf", &[]);
        let deadline = std::time::Instant::now() + hostile::PATIENCE;
        let Verdict::Done(report) = pool.run(&job, &sealed, None, deadline).unwrap() else {
            panic!("no report")
        };
        assert!(report.debug.iter().eq([elf]));
    }
}

/// A frame counts bytes of lines and overhead together. Empty lines take 24 times as much as strings in
/// memory.
#[test]
fn more_lines_than_there_may_be_are_not_taken() {
    let pool = start(1, &[]).unwrap();
    let verdict = attempt(&pool, "load", "empty-lines", &[]);
    let Verdict::FalseReport { detail } = &verdict else { panic!("{verdict:?}") };
    assert!(detail.contains("more debug output"), "{detail}");
}

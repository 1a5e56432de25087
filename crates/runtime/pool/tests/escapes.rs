//! Attempts of a compromised worker: each runs in its own child, in the stage that runs guests.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

use std::process::Command;

use antares_pool::{Sealed, Verdict};
use antares_sandbox::{Action, Policy, Test};

#[path = "hostile/pool.rs"]
mod hostile;
#[path = "hostile/kernel.rs"]
mod kernel;

use hostile::{attempt, is_violation, start, worker};

/// Attempts, with arguments that would make them work, and whether they succeed without a sandbox on any host
/// (some need a newer kernel or more privileges, or are fatal).
const ATTEMPTS: [(&str, bool); 46] = [
    ("open", true),
    ("open-old", true),
    ("open-memory", false),
    ("open-elf", false),
    ("socket", true),
    ("socket-unix", true),
    ("connect", false),
    ("ptrace", false),
    ("process-vm-readv", false),
    ("kill", true),
    ("bpf", false),
    ("perf-event-open", false),
    ("io-uring-setup", false),
    ("userfaultfd", false),
    ("unshare", false),
    ("mount", false),
    ("memfd", true),
    ("map-executable", true),
    ("map-both", true),
    ("protect-executable", true),
    ("prctl", true),
    ("keyctl", false),
    ("clone3", false),
    ("thread", false),
    ("execve", false),
    ("execveat", false),
    ("shm", false),
    ("flock", false),
    ("send-elsewhere", false),
    ("control-high-bits", false),
    ("open-raised-limit", false),
    ("fork", true),
    ("allocate", false),
    ("abort", false),
    // Channels to another worker.
    ("lock-record", false),
    ("lease", false),
    ("add-seal", false),
    ("socket-vsock", false),
    ("socket-pair", false),
    ("message-queue", false),
    ("semaphore", false),
    ("watch", true),
    ("name-thread", true),
    ("priority", true),
    ("affinity", false),
    // Existing code, misused.
    ("jump-to-libc", true),
];

/// Calls without a defined result. `rt_sigreturn` is allowed, but without a signal it loads junk into
/// registers. `uretprobe` and `uprobe` are internal to the kernel and hidden from filters; from elsewhere
/// they fail or raise SIGILL.
const NO_ANSWER: [u64; 3] = [15, 335, 336];

/// Our own process id, for attempts against the supervisor.
fn own_pid() -> u64 {
    u64::from(std::process::id())
}

#[test]
fn every_attempt_in_the_run_stage_is_a_violation() {
    let pool = start(2, &[]).unwrap();
    for (name, _) in ATTEMPTS {
        let verdict = attempt(&pool, "run", name, &[own_pid()]);
        assert!(is_violation(&verdict), "{name}: {verdict:?}");
    }
    assert_eq!(pool.stats().violations_total, ATTEMPTS.len() as u64);
    assert_eq!(attempt(&pool, "run", "nothing", &[]), Verdict::Done("ok".to_owned()));
}

/// The attempts are real: they succeed without the sandbox. So the test above would notice a missing layer.
#[test]
fn attempts_succeed_without_the_fence() {
    for (name, _) in ATTEMPTS.iter().filter(|(_, succeeds)| *succeeds) {
        let output = Command::new(worker()).args([name, own_pid().to_string().as_str()]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.starts_with("ok"), "{name}: {said}");
    }
}

/// Without the run stage's filter, the layers below still do their work.
#[test]
fn other_layers_hold_without_the_last_filter() {
    let pool = start(2, &[]).unwrap();
    let denied = |errno: i32| Verdict::Done(format!("errno {errno}"));
    // Landlock denies it, although the load stage's filter allows openat.
    for name in ["open", "open-memory"] {
        assert_eq!(attempt(&pool, "load", name, &[]), denied(libc::EACCES), "{name}");
    }
    // The load stage may use memory files.
    assert!(matches!(attempt(&pool, "load", "open-elf", &[]), Verdict::Done(said) if said.starts_with("ok")));
    // PR_SET_MDWE or the filter: no memory becomes executable.
    let verdict = attempt(&pool, "load", "protect-executable", &[]);
    assert!(is_violation(&verdict), "{verdict:?}");
    // The last filter makes a visible difference.
    let getpid = libc::SYS_getpid.cast_unsigned();
    assert!(matches!(attempt(&pool, "load", "syscall", &[getpid]), Verdict::Done(_)));
    assert!(is_violation(&attempt(&pool, "run", "syscall", &[getpid])));
}

/// Attempts that no stage allows.
const NEVER: [&str; 32] = [
    "socket",
    "socket-unix",
    "connect",
    "ptrace",
    "process-vm-readv",
    "kill",
    "bpf",
    "perf-event-open",
    "io-uring-setup",
    "userfaultfd",
    "unshare",
    "mount",
    "map-both",
    "protect-executable",
    "keyctl",
    "thread",
    "execve",
    "execveat",
    "shm",
    "flock",
    "fork",
    "lock-record",
    "lease",
    "add-seal",
    "socket-vsock",
    "socket-pair",
    "message-queue",
    "semaphore",
    "watch",
    "name-thread",
    "priority",
    "affinity",
];

#[test]
fn the_other_stages_have_no_way_out_either() {
    let pool = start(2, &[]).unwrap();
    for stage in ["load", "compile"] {
        for name in NEVER {
            let verdict = attempt(&pool, stage, name, &[own_pid()]);
            assert!(is_violation(&verdict), "{stage} {name}: {verdict:?}");
        }
    }
    for name in ["memfd", "clone3", "send-elsewhere"] {
        let verdict = attempt(&pool, "load", name, &[]);
        assert!(is_violation(&verdict), "load {name}: {verdict:?}");
    }
}

/// A compile child runs no guest code, but LLVM on hostile input: it may have memory files, but no way to
/// execute them.
#[test]
fn the_compile_stage_has_memory_files_only() {
    let pool = start(2, &[]).unwrap();
    let denied = |errno: i32| Verdict::Done(format!("errno {errno}"));
    assert!(matches!(attempt(&pool, "compile", "memfd", &[]), Verdict::Done(said) if said.starts_with("ok")));
    assert!(is_violation(&attempt(&pool, "compile", "map-executable", &[])));
    assert_eq!(attempt(&pool, "compile", "open", &[]), denied(libc::EACCES));
    assert_eq!(attempt(&pool, "compile", "open-memory", &[]), denied(libc::EACCES));
    assert_eq!(attempt(&pool, "compile", "clone3", &[]), denied(libc::ENOSYS));
    // Exceeded limits and fatal errors of LLVM are reported as such.
    for name in ["allocate", "abort"] {
        let verdict = attempt(&pool, "compile", name, &[]);
        assert!(
            matches!(&verdict, Verdict::WorkerLost { detail } if detail.contains("SIGABRT")),
            "{name}: {verdict:?}"
        );
    }
}

#[test]
fn memory_files_of_a_compile_child_have_half_of_its_memory() {
    let pool = start(2, &[]).unwrap();
    // Half of 1 GiB. The worker answers although all descriptors are used up, even its line's.
    assert_eq!(attempt(&pool, "compile", "fill-memory-files", &[]), Verdict::Done("ok 511".to_owned()));
}

/// Whether the run stage's table allows a call with these arguments.
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
                let succeeded = matches!(&verdict, Verdict::Done(said) if said.starts_with("ok"));
                assert!(!succeeded, "{name} {number}: {verdict:?}");
                continue;
            }
            // An allowed call fails, succeeds or ends the process, without a violation.
            assert_eq!(!is_violation(&verdict), allowed, "{name} {number}: {verdict:?}");
        }
    };
    sweep("syscall", 0);
    sweep("syscall-ones", u64::MAX);
    // A descriptor, mapped memory and valid lengths: most likely to succeed. Pointers match no value of a
    // rule.
    for number in (0..512).filter(|number| !NO_ANSWER.contains(number)) {
        let allowed =
            is_allowed(&policy, number, |argument| [4, u64::MAX, 64, u64::MAX, 64, 0][usize::from(argument)]);
        let verdict = attempt(&pool, "run", "syscall-fitting", &[number]);
        assert_eq!(!is_violation(&verdict), allowed, "fitting {number}: {verdict:?}");
    }
}

/// The supervisor reports the call if the kernel can guarantee its delivery.
#[test]
fn a_violation_names_its_call() {
    let pool = start(2, &[]).unwrap();
    if !kernel::can_seal() {
        return println!("skipped: this kernel does not seal");
    }
    let policy = Policy::run();
    for number in (0..512).filter(|number| !NO_ANSWER.contains(number)) {
        if is_allowed(&policy, number, |_| 0) {
            continue;
        }
        let verdict = attempt(&pool, "run", "syscall", &[number]);
        let Verdict::SandboxViolation { detail } = verdict else { panic!("{number}: {verdict:?}") };
        assert!(detail.starts_with(&format!("system call {number} ")), "{number}: {detail}");
    }
}

/// Memory keeps its permissions: code and constants are read-only, data is not executable.
#[test]
fn memory_is_either_code_or_data() {
    let pool = start(2, &[]).unwrap();
    for stage in ["run", "load", "compile"] {
        for name in ["write-own-code", "write-constants", "run-data"] {
            let verdict = attempt(&pool, stage, name, &[]);
            let is_fault = matches!(&verdict, Verdict::WorkerLost { detail } if detail.contains("SIGSEGV"));
            assert!(is_fault, "{stage} {name}: {verdict:?}");
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

/// A frame's limit covers the bytes of lines and their framing. Empty lines take 24 times as much as strings.
#[test]
fn more_lines_than_there_may_be_are_not_taken() {
    let pool = start(1, &[]).unwrap();
    let verdict = attempt(&pool, "load", "empty-lines", &[]);
    assert!(
        matches!(&verdict, Verdict::FalseReport { detail } if detail.contains("more debug output")),
        "{verdict:?}"
    );
}

//! Walks the compiled filter of each role: every rule allows exactly its calls.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;

use antares_sandbox::{
    Action, ChildRole, Condition, Filter, Instruction, Policy, SyscallRule, Test, call_name,
};

const X86_64: u32 = 0xC000_003E;
const I386: u32 = 0x4000_0003;
const AARCH64: u32 = 0xC000_00B7;
const X32_BIT: u32 = 0x4000_0000;
const KILL: u32 = libc::SECCOMP_RET_KILL_PROCESS;
const TRAP: u32 = libc::SECCOMP_RET_TRAP;
const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
/// Exceeds the kernel's call numbers.
const NUMBERS: std::ops::Range<u32> = 0..4096;

/// The input of a filter.
#[derive(Clone, Copy)]
struct Call {
    number: u32,
    arch: u32,
    arguments: [u64; 6],
}

impl Call {
    /// The word at `offset` of `struct seccomp_data`.
    fn word(&self, offset: u32) -> u32 {
        let half = |index: u32, shift: u32| {
            let argument = self.arguments[usize::try_from(index).unwrap()];
            u32::try_from(argument >> shift & 0xffff_ffff).unwrap()
        };
        match offset {
            0 => self.number,
            4 => self.arch,
            offset if offset >= 16 && offset.is_multiple_of(8) => half((offset - 16) / 8, 0),
            offset if offset >= 16 => half((offset - 16) / 8, 32),
            offset => panic!("offset {offset}"),
        }
    }
}

/// Runs `program` on `call`; supports the few instructions that our filters use.
fn walk(program: &[Instruction], call: Call) -> u32 {
    let (mut at, mut accumulator) = (0, 0);
    loop {
        let Instruction { code, jt, jf, k } = program[at];
        let jump = |taken: bool| usize::from(if taken { jt } else { jf });
        at += 1 + match code {
            0x06 => return k,
            0x20 => {
                accumulator = call.word(k);
                0
            }
            0x05 => usize::try_from(k).unwrap(),
            0x15 => jump(accumulator == k),
            0x35 => jump(accumulator >= k),
            0x45 => jump(accumulator & k != 0),
            other => panic!("instruction {other:#x}"),
        };
    }
}

fn of(role: ChildRole) -> (Policy, Filter) {
    let policy = Policy::example(role);
    let filter = Filter::of(&policy).unwrap();
    (policy, filter)
}

fn number(rule: &SyscallRule) -> u32 {
    u32::try_from(rule.call.number).unwrap()
}

fn request(filter: &Filter, number: u32, arguments: [u64; 6]) -> u32 {
    walk(filter.instructions(), Call { number, arch: X86_64, arguments })
}

fn own_process() -> u64 {
    u64::from(std::process::id())
}

/// Whether `condition` holds.
fn holds(condition: &Condition, arguments: [u64; 6]) -> bool {
    let argument = arguments[usize::from(condition.argument)];
    match condition.test {
        Test::Is(value) => argument == value,
        Test::Lacks(mask) => argument & mask == 0,
        Test::OwnProcess => argument == own_process(),
    }
}

/// Result of a call outside of the policy: a compromised compiler could handle a signal.
fn refusal(role: ChildRole) -> u32 {
    if role == ChildRole::Compile { KILL } else { TRAP }
}

/// The policy's decision on a call.
fn expected(policy: &Policy, call: u32, arguments: [u64; 6]) -> u32 {
    let rules = || policy.rules.iter().filter(|rule| number(rule) == call);
    for rule in rules() {
        if let Action::Fail(errno) = rule.answer {
            return libc::SECCOMP_RET_ERRNO | u32::try_from(errno).unwrap();
        }
    }
    let allows = |rule: &SyscallRule| rule.conditions.iter().all(|condition| holds(condition, arguments));
    if rules().any(allows) { ALLOW } else { refusal(policy.role) }
}

/// Arguments that meet all conditions of `rule`.
fn fitting(rule: &SyscallRule) -> [u64; 6] {
    let mut arguments = [0; 6];
    for condition in rule.conditions {
        arguments[usize::from(condition.argument)] = match condition.test {
            Test::Is(value) => value,
            Test::Lacks(_) => 0,
            Test::OwnProcess => own_process(),
        };
    }
    arguments
}

#[test]
fn every_rule_lets_through_what_it_says_and_nothing_next_to_it() {
    for role in ChildRole::ALL {
        let (policy, filter) = of(role);
        for rule in &policy.rules {
            let (call, arguments) = (number(rule), fitting(rule));
            assert_eq!(request(&filter, call, arguments), expected(&policy, call, arguments), "{rule}");
            assert!(![KILL, TRAP].contains(&request(&filter, call, arguments)), "{rule}");
            for (argument, bit) in (0..6).flat_map(|argument| (0..64).map(move |bit| (argument, bit))) {
                let mut changed = arguments;
                changed[argument] ^= 1 << bit;
                let answer = request(&filter, call, changed);
                assert_eq!(answer, expected(&policy, call, changed), "{rule}, argument {argument} bit {bit}");
            }
        }
    }
}

#[test]
fn calls_without_a_rule_end_the_process() {
    for role in ChildRole::ALL {
        let (policy, filter) = of(role);
        let listed: BTreeSet<u32> = policy.rules.iter().map(number).collect();
        for call in NUMBERS.chain([1 << 31]).filter(|call| !listed.contains(call)) {
            for arguments in [[0; 6], [3; 6], [u64::MAX; 6]] {
                assert_eq!(request(&filter, call, arguments), refusal(role), "{} {call}", role.name());
            }
        }
    }
}

#[test]
fn foreign_architectures_and_x32_are_killed_whatever_the_call() {
    for role in ChildRole::ALL {
        let (policy, filter) = of(role);
        let listed = policy.rules.iter().map(|rule| (number(rule), fitting(rule)));
        for (number, arguments) in listed.chain(NUMBERS.chain([u32::MAX]).map(|number| (number, [0; 6]))) {
            let on = |arch| Call { number, arch, arguments };
            for call in [on(I386), on(0), on(AARCH64), Call { number: number | X32_BIT, ..on(X86_64) }] {
                assert_eq!(walk(filter.instructions(), call), KILL, "{number:#x}");
            }
        }
    }
}

/// Asserts that `outer` allows everything that `inner`, stacked on it, allows.
#[track_caller]
fn assert_narrower(inner: ChildRole, outer: ChildRole) {
    let (inner, outer) = (Policy::example(inner), Policy::example(outer));
    for rule in &inner.rules {
        let mut arguments = fitting(rule);
        if rule.conditions.iter().any(|condition| condition.test == Test::OwnProcess) {
            // A child's process id differs from that in the zygote's filter.
            arguments[0] = own_process() + 1;
        }
        let answer = expected(&outer, number(rule), arguments);
        let roles = (inner.role.name(), outer.role.name());
        assert!(![KILL, TRAP].contains(&answer), "{roles:?}: {rule}");
        if rule.answer == Action::Allow {
            assert_eq!(answer, ALLOW, "{roles:?}: {rule}");
        }
    }
}

#[test]
fn filters_that_are_stacked_agree() {
    assert_narrower(ChildRole::Run, ChildRole::RunLoad);
    assert_narrower(ChildRole::RunLoad, ChildRole::Zygote);
    assert_narrower(ChildRole::Compile, ChildRole::Zygote);
}

#[test]
fn no_call_is_both_allowed_and_failed() {
    for role in ChildRole::ALL {
        let (policy, _) = of(role);
        let calls = |allowed: bool| -> BTreeSet<&str> {
            let rules = policy.rules.iter().filter(|rule| (rule.answer == Action::Allow) == allowed);
            rules.map(|rule| rule.call.name).collect()
        };
        let both: Vec<_> = calls(true).intersection(&calls(false)).copied().collect();
        assert!(both.is_empty(), "{}: {both:?}", role.name());
        let conditional =
            |rule: &&SyscallRule| matches!(rule.answer, Action::Fail(_)) && !rule.conditions.is_empty();
        assert_eq!(policy.rules.iter().find(conditional), None);
    }
}

#[test]
fn no_role_may_reach_out() {
    let never = "execve execveat ptrace process_vm_readv process_vm_writev kill pidfd_send_signal socket connect bpf \
                 io_uring_setup userfaultfd perf_event_open unshare setns mount keyctl shmat";
    let never: Vec<_> = never.split(' ').collect();
    let named = NUMBERS.filter(|number| call_name(*number).is_some_and(|name| never.contains(&name)));
    assert_eq!(named.count(), 18);
    for role in ChildRole::ALL {
        let (policy, _) = of(role);
        let reaching = policy.rules.iter().find(|rule| never.contains(&rule.call.name));
        assert_eq!(reaching, None, "{}", role.name());
    }
}

#[test]
fn only_a_zygote_makes_processes_and_nobody_makes_threads() {
    let clone = u32::try_from(libc::SYS_clone).unwrap();
    let fork = u64::try_from(antares_sandbox::FORK_FLAGS).unwrap();
    let thread = u64::try_from(libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND).unwrap();
    for role in ChildRole::ALL {
        let (_, filter) = of(role);
        let answer = if role == ChildRole::Zygote { ALLOW } else { refusal(role) };
        assert_eq!(request(&filter, clone, [fork, 0, 0, 0, 0, 0]), answer, "{}", role.name());
        assert_eq!(request(&filter, clone, [thread, 0, 0, 0, 0, 0]), refusal(role), "{}", role.name());
    }
}

#[test]
fn the_run_stage_reads_as_documented() {
    let text = Policy::run().to_string();
    let calls: Vec<&str> = text.lines().filter_map(|line| Some(line.split_once(": allow")?.0)).collect();
    let expected = "futex(arg1 == 0x0), futex(arg1 == 0x80), futex(arg1 == 0x1), futex(arg1 == 0x81), rt_sigreturn(), \
                    munmap(), madvise(arg2 == 0x4), mprotect(arg2 & 0x4 == 0), pkey_mprotect(arg2 & 0x4 == 0), \
                    mincore(), sysinfo(), getrusage(arg0 == 0x0), sched_yield(), clock_gettime(arg0 == 0x1), exit(), \
                    exit_group()";
    assert_eq!(calls.join(", "), expected);
    assert!(text.ends_with("any other call: kill\n"), "{text}");
}

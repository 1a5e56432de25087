//! From a policy to a seccomp program: the architecture first, then the x32 bit, then the allowlist, else kill.

use std::{
    collections::{BTreeMap, BTreeSet},
    process,
};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};

use crate::{Answer, Condition, Layer, Policy, Rule, SandboxError, Test};

/// One instruction of a filter program, as `struct sock_filter`.
pub use seccompiler::sock_filter as Instruction;

/// Bit of a call number that selects the x32 calls; seccompiler does not look at it.
const X32_BIT: u32 = 0x4000_0000;
/// `AUDIT_ARCH_X86_64`.
const ARCH_X86_64: u32 = 0xC000_003E;
/// Offsets in `struct seccomp_data`.
const NUMBER_OFFSET: u32 = 0;
const ARCH_OFFSET: u32 = 4;

// Codes of the four instructions that are written by hand (linux/bpf_common.h).
const LOAD_WORD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;

/// A compiled policy.
#[derive(Clone, Debug)]
pub struct Filter {
    program: BpfProgram,
}

impl Filter {
    /// Compiles the rules of `policy`; [`Test::OwnProcess`] is the calling process.
    ///
    /// # Errors
    /// [`SandboxError::Filter`] for a policy that is no valid filter.
    pub fn of(policy: &Policy) -> Result<Self, SandboxError> {
        let error = |source| SandboxError::Filter { role: policy.role.name(), source };
        let unconditional = |rule: &Rule| rule.answer == Answer::Allow && rule.conditions.is_empty();
        let free: BTreeSet<i64> =
            policy.rules.iter().filter(|rule| unconditional(rule)).map(|rule| rule.call.number).collect();
        let mut allowed = BTreeMap::<i64, Vec<SeccompRule>>::new();
        let mut program = prologue();
        for rule in &policy.rules {
            match rule.answer {
                Answer::Fail(errno) => program.extend(fail(rule.call.number, errno)),
                Answer::Allow => {
                    // No alternative at all is how seccompiler says "whatever the arguments are".
                    let alternatives = allowed.entry(rule.call.number).or_default();
                    if !free.contains(&rule.call.number) {
                        alternatives.push(alternative(rule.conditions).map_err(error)?);
                    }
                }
            }
        }
        let allowlist =
            SeccompFilter::new(allowed, SeccompAction::KillProcess, SeccompAction::Allow, TargetArch::x86_64);
        let allowlist: BpfProgram = allowlist.and_then(TryInto::try_into).map_err(error)?;
        program.extend(allowlist);
        Ok(Self { program })
    }

    /// The program, for tests that walk it.
    #[must_use]
    pub fn instructions(&self) -> &[Instruction] {
        &self.program
    }

    /// Installs the filter on the calling thread, for good, on top of those that are there.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn install(&self) -> Result<(), SandboxError> {
        apply_filter(&self.program).map_err(|error| {
            let source = match error {
                seccompiler::Error::Prctl(source) | seccompiler::Error::Seccomp(source) => source,
                other => std::io::Error::other(other),
            };
            SandboxError::Step { layer: Layer::Seccomp, step: "install the filter", source }
        })
    }
}

/// Kills for a foreign architecture (`int 0x80` makes i386 calls, whose numbers mean other calls) and for x32 calls;
/// leaves the call number in the accumulator.
fn prologue() -> BpfProgram {
    vec![
        instruction(LOAD_WORD, 0, 0, ARCH_OFFSET),
        instruction(JUMP_IF_EQUAL, 1, 0, ARCH_X86_64),
        instruction(RETURN, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
        instruction(LOAD_WORD, 0, 0, NUMBER_OFFSET),
        instruction(JUMP_IF_ANY_BIT, 0, 1, X32_BIT),
        instruction(RETURN, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
    ]
}

/// Returns `errno` for call `number`.
fn fail(number: i64, errno: i32) -> [Instruction; 2] {
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    let errno = u32::try_from(errno).unwrap_or(0) & libc::SECCOMP_RET_DATA;
    [instruction(JUMP_IF_EQUAL, 0, 1, number), instruction(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | errno)]
}

fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> Instruction {
    Instruction { code, jt, jf, k }
}

fn alternative(conditions: &[Condition]) -> Result<SeccompRule, seccompiler::BackendError> {
    let conditions = conditions.iter().map(|condition| {
        let (operator, value) = match condition.test {
            Test::Is(value) => (SeccompCmpOp::Eq, value),
            Test::Lacks(mask) => (SeccompCmpOp::MaskedEq(mask), 0),
            Test::OwnProcess => (SeccompCmpOp::Eq, u64::from(process::id())),
        };
        SeccompCondition::new(condition.argument, SeccompCmpArgLen::Qword, operator, value)
    });
    SeccompRule::new(conditions.collect::<Result<_, _>>()?)
}

//! Compiles a policy to a seccomp program. It checks the architecture, the x32 bit, then the allowlist. Any
//! other call ends the process, possibly with its number recorded ([`crate::name_violations`]).
//!
//! The kernel runs a new filter once for each known call number, to cache the decisions that depend on the
//! number alone. With a chain of comparisons, this is the most expensive part of starting a worker; with a
//! search tree, it is not. Tests walk every program instruction by instruction against its policy.

use std::{collections::BTreeMap, io, process};

use crate::{Action, ChildRole, Condition, Layer, Policy, SandboxError, Test};

/// One instruction of a filter program.
pub use libc::sock_filter as Instruction;

/// Bit of a call number that selects the x32 calls.
const X32_BIT: u32 = 0x4000_0000;
/// `AUDIT_ARCH_X86_64`.
const ARCH_X86_64: u32 = 0xC000_003E;
/// Offsets in `struct seccomp_data`; an argument has its low word first.
const NUMBER_OFFSET: u32 = 0;
const ARCH_OFFSET: u32 = 4;
const ARGUMENTS_OFFSET: u32 = 16;

// Opcodes of the used instructions (linux/bpf_common.h).
const LOAD_WORD: u16 = 0x20;
const JUMP: u16 = 0x05;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_NOT_BELOW: u16 = 0x35;
const JUMP_IF_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;

/// Maximum calls that a leaf of the search tree compares one by one.
const LEAF_CALLS_MAX: usize = 4;

/// A compiled policy.
#[derive(Clone, Debug)]
pub struct Filter {
    program: Vec<Instruction>,
}

/// The combined rules for one call.
#[derive(Debug)]
enum Decision {
    Allow,
    Fail(i32),
    /// Alternatives; in each, all conditions must hold.
    Depends(Vec<&'static [Condition]>),
}

impl Filter {
    /// Compiles the rules of `policy`; [`Test::OwnProcess`] is the calling process.
    ///
    /// # Errors
    /// [`SandboxError::Filter`] if the policy is too large for a filter.
    pub fn of(policy: &Policy) -> Result<Self, SandboxError> {
        let mut decisions = BTreeMap::<u32, Decision>::new();
        for rule in &policy.rules {
            let error = SandboxError::Filter { role: policy.role.name() };
            let number = u32::try_from(rule.call.number).map_err(|_| error)?;
            let decision = decisions.entry(number).or_insert_with(|| Decision::Depends(Vec::new()));
            match (rule.answer, decision) {
                (Action::Fail(errno), decision) => *decision = Decision::Fail(errno),
                (Action::Allow, decision) if rule.conditions.is_empty() => *decision = Decision::Allow,
                (Action::Allow, Decision::Depends(alternatives)) => alternatives.push(rule.conditions),
                // Already decided, whatever the arguments are.
                (Action::Allow, Decision::Allow | Decision::Fail(_)) => {}
            }
        }
        let decisions: Vec<_> = decisions.into_iter().collect();
        let mut program = prologue();
        let refusal = refusal(policy.role);
        let search = search(&decisions, refusal).ok_or(SandboxError::Filter { role: policy.role.name() })?;
        program.extend(search);
        Ok(Self { program })
    }

    /// The program, for tests that walk it.
    #[must_use]
    pub fn instructions(&self) -> &[Instruction] {
        &self.program
    }

    /// Installs the filter on the calling thread for good, on top of existing filters. The process must have
    /// `no_new_privs`.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn install(&self) -> Result<(), SandboxError> {
        let error = |source| SandboxError::Step { layer: Layer::Seccomp, step: "install the filter", source };
        let len = u16::try_from(self.program.len()).map_err(|_| error(io::ErrorKind::InvalidInput.into()))?;
        let program = libc::sock_fprog { len, filter: self.program.as_ptr().cast_mut() };
        // SAFETY: the kernel copies `len` instructions from `filter`, which is a live vector of that length.
        let answer =
            unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program) };
        if answer == 0 { Ok(()) } else { Err(error(io::Error::last_os_error())) }
    }
}

/// Kills the process for a foreign architecture (`int 0x80` makes i386 calls, whose numbers mean other calls)
/// and for x32 calls. Leaves the call number in the accumulator.
fn prologue() -> Vec<Instruction> {
    vec![
        instruction(LOAD_WORD, 0, 0, ARCH_OFFSET),
        instruction(JUMP_IF_EQUAL, 1, 0, ARCH_X86_64),
        kill(),
        instruction(LOAD_WORD, 0, 0, NUMBER_OFFSET),
        instruction(JUMP_IF_ANY_BIT, 0, 1, X32_BIT),
        kill(),
    ]
}

/// Decides the call whose number is in the accumulator. `None` if a jump would be too long.
fn search(decisions: &[(u32, Decision)], refusal: Instruction) -> Option<Vec<Instruction>> {
    if decisions.len() <= LEAF_CALLS_MAX {
        return leaf(decisions, refusal);
    }
    let (below, above) = decisions.split_at(decisions.len() / 2);
    let middle = above.first()?.0;
    let (below, above) = (search(below, refusal)?, search(above, refusal)?);
    // Only an unconditional jump reaches any distance.
    let over = u32::try_from(below.len()).ok()?;
    let mut program = vec![instruction(JUMP_IF_NOT_BELOW, 0, 1, middle), instruction(JUMP, 0, 0, over)];
    program.extend(below);
    program.extend(above);
    Some(program)
}

/// Like [`search`], with one comparison per number.
fn leaf(decisions: &[(u32, Decision)], refusal: Instruction) -> Option<Vec<Instruction>> {
    let mut program = Vec::new();
    for (number, decision) in decisions {
        let body = match decision {
            Decision::Allow => vec![allow()],
            Decision::Fail(errno) => vec![fail(*errno)?],
            Decision::Depends(alternatives) => depends(alternatives, refusal)?,
        };
        program.push(instruction(JUMP_IF_EQUAL, 0, u8::try_from(body.len()).ok()?, *number));
        program.extend(body);
    }
    program.push(refusal);
    Some(program)
}

/// Allows the call if all conditions of one alternative hold, else refuses it.
fn depends(alternatives: &[&[Condition]], refusal: Instruction) -> Option<Vec<Instruction>> {
    let mut program = Vec::new();
    for conditions in alternatives {
        let checks: Vec<Check> = conditions.iter().flat_map(checks).collect();
        // A check is two instructions. After the last one follow the return and the next alternative.
        for (index, check) in checks.iter().enumerate() {
            let onward = u8::try_from(2 * (checks.len() - index - 1) + 1).ok()?;
            let (met, unmet) = if check.is_met_by_jump { (0, onward) } else { (onward, 0) };
            program.push(instruction(LOAD_WORD, 0, 0, check.offset));
            program.push(instruction(check.code, met, unmet, check.value));
        }
        program.push(allow());
    }
    program.push(refusal);
    Some(program)
}

struct Check {
    offset: u32,
    code: u16,
    value: u32,
    is_met_by_jump: bool,
}

/// The tests of both words of an argument.
fn checks(condition: &Condition) -> [Check; 2] {
    let (code, value, is_met_by_jump) = match condition.test {
        Test::Is(value) => (JUMP_IF_EQUAL, value, true),
        Test::Lacks(mask) => (JUMP_IF_ANY_BIT, mask, false),
        Test::OwnProcess => (JUMP_IF_EQUAL, u64::from(process::id()), true),
    };
    let [a, b, c, d, e, f, g, h] = value.to_le_bytes();
    let low = ARGUMENTS_OFFSET + 8 * u32::from(condition.argument);
    let halves = [(low + 4, [e, f, g, h]), (low, [a, b, c, d])];
    halves.map(|(offset, value)| Check { offset, code, value: u32::from_le_bytes(value), is_met_by_jump })
}

/// Result of a call outside of the policy. SIGSYS ends the process, unless it has the handler that records
/// the call. A compile child could install its own handler.
fn refusal(role: ChildRole) -> Instruction {
    match role {
        ChildRole::Compile => kill(),
        ChildRole::Zygote | ChildRole::RunLoad | ChildRole::Run | ChildRole::Hosted => {
            instruction(RETURN, 0, 0, libc::SECCOMP_RET_TRAP)
        }
    }
}

fn kill() -> Instruction {
    instruction(RETURN, 0, 0, libc::SECCOMP_RET_KILL_PROCESS)
}

fn allow() -> Instruction {
    instruction(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW)
}

fn fail(errno: i32) -> Option<Instruction> {
    let errno = u32::try_from(errno).ok().filter(|errno| *errno <= libc::SECCOMP_RET_DATA)?;
    Some(instruction(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | errno))
}

fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> Instruction {
    Instruction { code, jt, jf, k }
}

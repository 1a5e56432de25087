//! Converts locations of a recording to those of evidence.

use antares_profile::evidence::{
    limits::{STACK_CALLS_MAX, STACK_INNER_MAX, STACK_OUTER_MAX},
    records::{Called, Stack},
};

use crate::{
    calls::Calls,
    recording::{ROOT, Recording, StackLocation},
    witness::Calls as SystemCalls,
};

/// Context for the conversion of locations and addresses.
pub(crate) struct Addresses<'a> {
    pub(crate) recording: &'a Recording,
    pub(crate) program: u32,
    pub(crate) vm: u64,
    pub(crate) system_calls: &'a SystemCalls,
}

impl Addresses<'_> {
    /// The innermost calls of a context, with the instruction at `pc` on top.
    pub(crate) fn stack(&self, context: u32, pc: u64) -> Stack {
        stack_of(self.recording, context, Called::At { program: self.program, pc })
    }

    /// All active calls.
    pub(crate) fn whole(&self, calls: &Calls, pc: u64) -> Stack {
        // The frames below the first call of this VM belong to its creator.
        let mut all = below(self.recording, calls.bottom());
        all.extend(calls.sites().map(|pc| Called::At { program: self.program, pc }));
        all.push(Called::At { program: self.program, pc });
        if all.len() <= STACK_OUTER_MAX + STACK_INNER_MAX {
            return Stack { outer: Vec::new(), left_out: 0, inner: all };
        }
        let inner = all.split_off(all.len() - STACK_INNER_MAX);
        let left_out = (all.len() - STACK_OUTER_MAX) as u64;
        all.truncate(STACK_OUTER_MAX);
        Stack { outer: all, left_out, inner }
    }

    /// The last system call that wrote to `address`.
    pub(crate) fn writer(&self, address: u64) -> Option<u64> {
        self.system_calls.writer(self.vm, address)
    }
}

/// The innermost calls of a context, with `top` on top.
pub(crate) fn stack_of(recording: &Recording, context: u32, top: Called) -> Stack {
    let mut all = below(recording, context);
    all.push(top);
    let left_out = all.len().saturating_sub(STACK_CALLS_MAX);
    Stack { outer: Vec::new(), left_out: left_out as u64, inner: all.split_off(left_out) }
}

/// The calls of a context, the outermost first.
fn below(recording: &Recording, mut context: u32) -> Vec<Called> {
    let mut all = Vec::new();
    while context != ROOT {
        let at = recording.contexts()[context as usize];
        match at.place {
            StackLocation::Code { program, pc } => all.push(Called::At { program, pc }),
            StackLocation::Exec(number) => all.push(Called::Exec(number)),
            StackLocation::Spawn(number) => all.push(Called::Spawn(number)),
            StackLocation::Root | StackLocation::Syscall(_) | StackLocation::Load => {}
        }
        context = at.parent;
    }
    all.reverse();
    all
}

//! Records the system calls of a run: arguments, data and results.

use std::collections::{BTreeMap, VecDeque};

use antares_profile::evidence::{
    limits::{ARGUMENTS_MAX, DATA_BYTES_MAX, SYSTEM_CALLS_MAX},
    records::{Called, Code, SystemCall},
};
use ckb_vm::{
    CoreMachine, DefaultMachine, SupportMachine,
    registers::{A0, A7},
};

use crate::{addresses::stack_of, memory::Core, recording::Recording};

const EXEC: u64 = 2043;
const LOAD_CELL_DATA_AS_CODE: u64 = 2091;
const DEBUG: u64 = 2177;
const SPAWN: u64 = 2601;
const WAIT: u64 = 2602;
const PIPE: u64 = 2604;
const WRITE: u64 = 2605;
const READ: u64 = 2606;
const INHERITED_FD: u64 = 2607;

/// The memory that a system call reads or writes, from its arguments.
#[derive(Clone, Copy, Debug, Default)]
struct Buffer {
    address: u64,
    /// Address of the length field: capacity before the call, available bytes after it.
    length_at: Option<u64>,
    /// Number of bytes if there is no length field.
    bytes: u64,
    is_output: bool,
}

/// A recorded system call.
struct Recorded {
    call: SystemCall,
    buffer: Buffer,
    context: u32,
    program: u32,
    pc: u64,
}

/// The last system calls of a run.
pub(crate) struct Calls {
    kept: VecDeque<Recorded>,
    max: usize,
    count: u64,
    /// By VM, the index of the system call that the VM waits in.
    waiting: BTreeMap<u64, u64>,
    codes: Vec<Code>,
}

/// The VM and code location that make a system call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    pub(crate) vm: u64,
    pub(crate) context: u32,
    pub(crate) program: u32,
    pub(crate) pc: u64,
}

impl Calls {
    pub(crate) fn new(max: usize) -> Self {
        let (kept, waiting, codes) = (VecDeque::new(), BTreeMap::new(), Vec::new());
        Self { kept, max: max.clamp(1, SYSTEM_CALLS_MAX), count: 0, waiting, codes }
    }

    /// Records a system call before it runs; returns its index in the run.
    pub(crate) fn begin(&mut self, vm: &DefaultMachine<Core>, caller: Caller) -> u64 {
        let memory = vm.memory().bytes();
        let registers = vm.registers();
        let (number, a) = (registers[A7], |index: usize| registers[A0 + index]);
        let arguments = std::array::from_fn(a);
        let buffer = buffer(number, &arguments, memory);
        let mut call = SystemCall {
            index: self.count,
            vm: caller.vm,
            number,
            arguments,
            result: None,
            room: buffer.length_at.and_then(|at| word(memory, at)),
            length: None,
            data: Vec::new(),
            words: Vec::new(),
            cycles: vm.cycles(),
            cost: 0,
            stack: antares_profile::evidence::records::Stack::default(),
        };
        match number {
            DEBUG => call.data = text(memory, a(0)),
            EXEC => call.words = words(memory, a(4), a(5)),
            SPAWN => {
                let [argc, argv] = [0, 8].map(|offset| word(memory, a(4).wrapping_add(offset)));
                call.words = words(memory, argc.unwrap_or_default(), argv.unwrap_or_default());
            }
            WRITE => call.data = excerpt(memory, buffer.address, call.room.unwrap_or_default()),
            _ => {}
        }
        if self.kept.len() >= self.max {
            self.kept.pop_front();
        }
        let Caller { context, program, pc, .. } = caller;
        self.kept.push_back(Recorded { call, buffer, context, program, pc });
        self.count += 1;
        self.count - 1
    }

    /// Records that a VM waits in a system call.
    pub(crate) fn wait(&mut self, vm: u64, index: u64) {
        self.waiting.insert(vm, index);
    }

    /// Records that a VM resumes, which completes the system call it waited in.
    pub(crate) fn go_on(&mut self, vm: &DefaultMachine<Core>, id: u64) {
        if let Some(index) = self.waiting.remove(&id) {
            let cost = vm.cycles();
            self.end(vm, index, cost);
        }
    }

    /// Records the result of a system call and its cycles.
    pub(crate) fn end(&mut self, vm: &DefaultMachine<Core>, index: u64, cost: u64) {
        let Some(kept) = self.find(index) else { return };
        let memory = vm.memory().bytes();
        let Recorded { call, buffer, .. } = kept;
        call.result = Some(vm.registers()[A0]);
        call.cost = cost;
        call.length = buffer.length_at.and_then(|at| word(memory, at));
        if buffer.is_output && call.result == Some(0) {
            call.data = excerpt(memory, buffer.address, written(call, buffer));
        }
        let is_code = call.number == LOAD_CELL_DATA_AS_CODE && call.result == Some(0);
        let [address, bytes, offset, _size, index, source] = call.arguments;
        let code = Code { vm: call.vm, address, bytes, offset, index, source };
        if is_code && self.codes.len() < SYSTEM_CALLS_MAX {
            self.codes.push(code);
        }
    }

    fn find(&mut self, index: u64) -> Option<&mut Recorded> {
        let first = self.kept.front()?.call.index;
        self.kept.get_mut(usize::try_from(index.checked_sub(first)?).ok()?)
    }

    /// Index of the last system call of `vm` that wrote to `address`.
    pub(crate) fn writer(&self, vm: u64, address: u64) -> Option<u64> {
        let is_it = |kept: &&Recorded| {
            let bytes = written(&kept.call, &kept.buffer);
            let is_done = kept.call.vm == vm && kept.buffer.is_output && kept.call.result == Some(0);
            let is_in =
                |start: u64, bytes: u64| address.checked_sub(start).is_some_and(|behind| behind < bytes);
            let is_length = kept.buffer.length_at.is_some_and(|at| is_in(at, 8));
            is_done && (is_in(kept.buffer.address, bytes) || is_length)
        };
        self.kept.iter().rev().find(is_it).map(|kept| kept.call.index)
    }

    /// Returns the recorded system calls, the number of dropped earlier ones, and the loaded code.
    pub(crate) fn finish(self, recording: &Recording) -> (Vec<SystemCall>, u64, Vec<Code>) {
        let left_out = self.count - self.kept.len() as u64;
        let tell = |Recorded { call, context, program, pc, .. }| {
            let stack = stack_of(recording, context, Called::At { program, pc });
            SystemCall { stack, ..call }
        };
        (self.kept.into_iter().map(tell).collect(), left_out, self.codes)
    }
}

/// Bytes that a successful call wrote to its buffer. The length of `inherited_fd` counts descriptors.
fn written(call: &SystemCall, buffer: &Buffer) -> u64 {
    let unit = if call.number == INHERITED_FD { size_of::<u64>() as u64 } else { 1 };
    let bytes = |count: u64| count.saturating_mul(unit);
    let available = call.length.map_or(buffer.bytes, bytes);
    call.room.map_or(available, |room| available.min(bytes(room)))
}

fn buffer(number: u64, arguments: &[u64; 6], memory: &[u8]) -> Buffer {
    let [first, second, third, ..] = *arguments;
    let reported =
        |address, length_at, is_output| Buffer { address, length_at: Some(length_at), bytes: 0, is_output };
    let fixed = |address, bytes| Buffer { address, length_at: None, bytes, is_output: true };
    match number {
        2051..=2083 | 2092..=2104 => reported(first, second, true),
        READ => reported(second, third, true),
        WRITE => reported(second, third, false),
        INHERITED_FD => reported(first, second, true),
        PIPE => fixed(first, 16),
        WAIT => fixed(second, 1),
        SPAWN => fixed(word(memory, arguments[4].wrapping_add(16)).unwrap_or_default(), 8),
        LOAD_CELL_DATA_AS_CODE => fixed(first, second),
        _ => Buffer::default(),
    }
}

/// The eight bytes at `address`, if they are within memory.
fn word(memory: &[u8], address: u64) -> Option<u64> {
    let at = usize::try_from(address).ok()?;
    let bytes = memory.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(*bytes.first_chunk()?))
}

/// The first of `bytes` bytes at `address`, up to the size limit.
pub(crate) fn excerpt(memory: &[u8], address: u64, bytes: u64) -> Vec<u8> {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).min(DATA_BYTES_MAX);
    let rest = usize::try_from(address).ok().and_then(|at| memory.get(at..)).unwrap_or_default();
    rest[..bytes.min(rest.len())].to_vec()
}

/// The NUL-terminated text at `address`.
fn text(memory: &[u8], address: u64) -> Vec<u8> {
    let mut bytes = excerpt(memory, address, DATA_BYTES_MAX as u64);
    let length = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    bytes.truncate(length);
    bytes
}

/// The first of `count` texts whose addresses are stored at `address`.
fn words(memory: &[u8], count: u64, address: u64) -> Vec<Vec<u8>> {
    let count = count.min(ARGUMENTS_MAX as u64);
    (0..count)
        .map_while(|index| word(memory, address.wrapping_add(8 * index)).map(|at| text(memory, at)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_inherited_fd_count_descriptors() {
        let mut call = SystemCall {
            index: 0,
            vm: 0,
            number: INHERITED_FD,
            arguments: [0; 6],
            result: Some(0),
            room: Some(4),
            length: Some(3),
            data: Vec::new(),
            words: Vec::new(),
            cycles: 0,
            cost: 0,
            stack: antares_profile::evidence::records::Stack::default(),
        };
        let buffer = buffer(INHERITED_FD, &[0; 6], &[]);
        assert_eq!(written(&call, &buffer), 24);
        call.length = Some(9);
        assert_eq!(written(&call, &buffer), 32);
        call.number = READ;
        assert_eq!(written(&call, &buffer), 4);
    }
}

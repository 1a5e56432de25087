//! The call tree of a VM, in which each call has its own node: the data of ckb-debugger's flame graphs.
//!
//! A jump to the start of a function is a call, whether it links or not. A jump to the return address of an
//! active call ends that call and all its callees. All other jumps stay in the current call.

use std::collections::HashSet;

use antares_hosted::job::CallNode;
use ckb_vm::{
    instructions::{
        Itype, Utype, extract_opcode, instruction_length,
        insts::{OP_FAR_JUMP_ABS, OP_FAR_JUMP_REL, OP_JAL, OP_JALR_VERSION0, OP_JALR_VERSION1},
    },
    registers::A0,
};

/// Maximum number of recorded calls; the cycles of later calls count for their callers.
const CALLS_MAX: usize = 8 << 20;

/// The functions of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Functions {
    /// Addresses of the functions.
    pub(crate) starts: HashSet<u64>,
    /// Address of `_sbrk`; 0 if there is none.
    pub(crate) sbrk: u64,
    /// Start of the heap; 0 if unknown.
    pub(crate) heap: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Node {
    address: u64,
    /// Return address of the call.
    link: u64,
    /// The last instruction that ran in the call.
    pc: u64,
    parent: usize,
    cycles: u64,
    depth: u32,
    /// The first argument.
    a0: u64,
}

/// The call tree of one VM. Index 0 is the root, and also means none.
#[derive(Debug)]
pub(crate) struct Calls {
    functions: Functions,
    nodes: Vec<Node>,
    at: usize,
}

impl Calls {
    pub(crate) fn new(functions: Functions, entry: u64) -> Self {
        Self { functions, nodes: vec![Node { address: entry, ..Node::default() }], at: 0 }
    }

    /// End of the heap.
    pub(crate) fn heap(&self) -> u64 {
        self.functions.heap
    }

    /// Counts `instruction` at `pc` before it runs, and follows a call or return.
    pub(crate) fn step(&mut self, pc: u64, instruction: u64, cycles: u64, registers: &[u64]) {
        let node = &mut self.nodes[self.at];
        node.cycles += cycles;
        node.pc = pc;
        let near = |immediate: i32| pc.wrapping_add_signed(immediate.into()) & !1;
        let target = match extract_opcode(instruction) {
            OP_JAL | OP_FAR_JUMP_REL => near(Utype(instruction).immediate_s()),
            OP_JALR_VERSION0 | OP_JALR_VERSION1 => {
                let jump = Itype(instruction);
                registers[jump.rs1()].wrapping_add_signed(jump.immediate_s().into()) & !1
            }
            OP_FAR_JUMP_ABS => i64::from(Utype(instruction).immediate_s()).cast_unsigned() & !1,
            _ => return,
        };
        if self.functions.starts.contains(&target) {
            let link = pc.wrapping_add(instruction_length(instruction).into());
            self.call(target, link, registers[A0]);
        } else {
            self.come_back(target, registers[A0]);
        }
    }

    fn call(&mut self, address: u64, link: u64, a0: u64) {
        let (parent, index) = (self.at, self.nodes.len());
        if index == CALLS_MAX {
            return;
        }
        let depth = self.nodes[parent].depth + 1;
        self.nodes.push(Node { address, link, parent, depth, a0, ..Node::default() });
        self.at = index;
    }

    /// Ends the innermost call with return address `target`, if there is one.
    fn come_back(&mut self, target: u64, a0: u64) {
        let mut at = self.at;
        while at != 0 {
            let node = self.nodes[at];
            if node.link == target {
                if node.address == self.functions.sbrk && node.address != 0 {
                    // `_sbrk` returns the previous end of the heap; its argument is the increment.
                    self.functions.heap = a0.wrapping_add(node.a0);
                }
                self.at = node.parent;
                return;
            }
            at = node.parent;
        }
    }

    /// The return addresses of the active calls, outermost first, then the last instruction.
    pub(crate) fn stack(&self) -> Vec<u64> {
        let mut stack = vec![self.nodes[self.at].pc];
        let mut at = self.at;
        loop {
            stack.push(self.nodes[at].link);
            if at == 0 {
                break;
            }
            at = self.nodes[at].parent;
        }
        stack.reverse();
        stack
    }

    /// All nodes, in the order of their calls: each before its callees, and these before the next call.
    pub(crate) fn into_tree(self) -> Vec<CallNode> {
        let call = |Node { depth, address, cycles, .. }| CallNode { depth, address, cycles };
        self.nodes.into_iter().map(call).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_listed_from_its_root() {
        let mut calls = Calls::new(Functions::default(), 0x100);
        calls.call(0x200, 0x104, 0);
        calls.call(0x300, 0x204, 0);
        assert_eq!(calls.stack(), [0, 0x104, 0x204, 0]);
        calls.come_back(0x204, 0);
        calls.call(0x300, 0x208, 0);
        // Two returns at once, and one that matches no call.
        calls.come_back(0x104, 0);
        calls.come_back(0x999, 0);
        calls.call(0x400, 0x108, 0);
        let tree = calls.into_tree();
        let shape: Vec<_> = tree.iter().map(|call| (call.depth, call.address)).collect();
        assert_eq!(shape, [(0, 0x100), (1, 0x200), (2, 0x300), (2, 0x300), (1, 0x400)]);
    }

    #[test]
    fn the_heap_grows_as_sbrk_says() {
        let functions = Functions { sbrk: 0x200, heap: 0x1000, ..Functions::default() };
        let mut calls = Calls::new(functions, 0x100);
        calls.call(0x200, 0x104, 0x80);
        calls.come_back(0x104, 0x1000);
        assert_eq!(calls.heap(), 0x1080);
    }
}

//! Phrases about processes: children that wait, reply and work, more of them than can be live; exec in all
//! situations.

use super::{
    orders::{Order, Verb, register},
    phrases::{Role, Writer},
    scenario::{Cell, DEPS},
};

/// Maximum generations below a script.
const DEPTH_MAX: u32 = 3;
const WRITE: u64 = 2605;
const READ: u64 = 2606;
const CLOSE: u64 = 2608;
/// Addresses of sent and received data.
const SENT: u64 = 0x3_8000;
const RECEIVED: u64 = 0x10_4000;
/// Register that counts passes; the others are used only between two orders.
const COUNTER: u8 = 9;

#[derive(Clone, Copy)]
struct Target {
    index: u64,
    source: u64,
    place: u64,
    bounds: u64,
    dep: usize,
}

impl Writer<'_> {
    /// A program in a cell dep, an input, an output or a witness, usually with valid bounds.
    fn target(&mut self) -> Target {
        let mut all = Vec::new();
        for dep in 0..self.actors {
            all.extend([(dep as u64, DEPS, 0, self.scenario.deps[dep]); 3]);
        }
        let inputs = self.scenario.inputs.iter().enumerate().map(|(index, cell)| (index as u64, 1, 0, *cell));
        let outputs =
            self.scenario.outputs.iter().enumerate().map(|(index, cell)| (index as u64, 2, 0, *cell));
        let witnesses =
            self.scenario.witnesses.iter().enumerate().map(|(index, cell)| (index as u64 + 1, 1, 1, *cell));
        all.extend(inputs.chain(outputs).chain(witnesses));
        if !self.random.one_in(24) {
            all.retain(|(.., cell)| matches!(cell, Cell::Actor(_)));
        }
        let (index, source, place, cell) = self.random.pick(&all);
        // Lists are written for a dep; for an actor elsewhere, for the dep of its kind.
        let dep = self.scenario.deps.iter().position(|dep| *dep == cell).unwrap_or(0);
        let length = cell.bytes(self.images).len() as u64;
        let bounds = match self.random.below(48) {
            0 => length,
            1 => length + 1,
            2 => 8 << 32,
            3 => length / 2,
            4 => 0x7fff_ffff,
            _ => 0,
        };
        Target { index, source, place, bounds, dep }
    }

    /// argc, and the length of the arguments: occasionally whole pages.
    fn form(&mut self) -> u64 {
        let length = self.random.pick(&[0, 0, 0, 1, 9, 4000, 4094, 7000]);
        self.random.pick(&[1, 1, 1, 2]) | length << 8
    }

    fn spawn_order(&mut self, target: Target, list: usize, descriptors: u64) -> Order {
        let Target { index, source, place, bounds, .. } = target;
        let form = self.form();
        Order::new(Verb::Spawn, &[index, source, place, bounds, list as u64, form, descriptors])
    }

    /// Waiting children, enough to suspend some VMs; then checks memory again.
    pub(super) fn crowd(&mut self) {
        if self.depth >= DEPTH_MAX {
            return self.change_memory();
        }
        let (target, children) = (self.target(), self.random.pick(&[1, 2, 4, 4, 5, 6, 7]));
        let children = if self.random.one_in(20) { 17 } else { children };
        let role = if self.random.one_in(5) { Role::Worker } else { Role::Waiting };
        let list = self.list(role, target.dep, self.depth + 1);
        let spawn = self.spawn_order(target, list, 1).to(2);
        self.add(Order::new(Verb::Set, &[children]).to(COUNTER));
        let start = self.orders.len() as u64;
        self.add(Order::new(Verb::Pipe, &[]).to(0));
        self.tell(spawn);
        self.add(Order::new(Verb::Again, &[start]).to(COUNTER));
        if self.random.one_in(2) {
            self.change_memory();
        }
        self.look();
        if self.random.one_in(2) {
            // Release the last child.
            self.tell(Order::new(Verb::Transfer, &[WRITE, Self::held(1), SENT, 8]).to(3));
            self.tell(Order::new(Verb::Wait, &[Self::held(2)]).to(3));
            if self.random.one_in(3) {
                self.tell(Order::new(Verb::Wait, &[Self::held(2)]).to(3));
            }
            self.look();
        }
    }

    /// Start of a waiting child.
    pub(super) fn wait_to_read(&mut self) {
        self.tell(Order::new(Verb::Inherit, &[3]).to(4));
        if self.random.one_in(4) {
            self.change_memory();
        }
        let read = Order::new(Verb::Transfer, &[READ, Self::held(4), RECEIVED, 64]).to(3);
        if self.random.one_in(3) { self.tell(read.computed()) } else { self.tell(read) }
    }

    /// Starts a child that replies to what it is sent.
    pub(super) fn talk(&mut self) {
        if self.depth >= DEPTH_MAX {
            return self.look();
        }
        let target = self.target();
        let list = self.list(Role::Echo, target.dep, self.depth + 1);
        self.add(Order::new(Verb::Pipe, &[]).to(0));
        self.add(Order::new(Verb::Pipe, &[]).to(5));
        // The child reads from the first pipe and writes to the second.
        let spawn = self.spawn_order(target, list, 1 | 7 << 8).to(2);
        self.tell(spawn);
        let sent = self.random.pick(&[1, 8, 100, 4096, 0x4000, 0]);
        self.tell(Order::new(Verb::Transfer, &[WRITE, Self::held(1), SENT, sent]).to(3));
        self.tell(Order::new(Verb::Transfer, &[READ, Self::held(5), RECEIVED + 0x800, 0x2000]).to(3));
        self.tell(Order::new(Verb::Sum, &[RECEIVED, 0x2000]));
        match self.random.below(4) {
            0 => self.tell(Order::new(Verb::Call, &[CLOSE, Self::held(1)])),
            1 => self.tell(Order::new(Verb::Transfer, &[READ, register(5, 1), RECEIVED, 8]).to(3)),
            _ => {}
        }
        if self.random.one_in(2) {
            self.tell(Order::new(Verb::Wait, &[Self::held(2)]).to(3));
        }
    }

    /// The child's side of `talk`.
    pub(super) fn echo(&mut self) {
        self.tell(Order::new(Verb::Inherit, &[3]).to(4));
        let length = self.random.pick(&[1, 8, 100, 0x1000, 0x5000]);
        self.tell(Order::new(Verb::Transfer, &[READ, Self::held(4), RECEIVED, length]).to(3));
        self.tell(Order::new(Verb::Transfer, &[WRITE, Self::held(5), RECEIVED, 16]).to(3));
    }

    /// Starts a working child and waits for it; also uses invalid ids.
    pub(super) fn child(&mut self) {
        if self.depth >= DEPTH_MAX {
            return self.look();
        }
        let target = self.target();
        let list = self.list(Role::Worker, target.dep, self.depth + 1);
        let spawn = self.spawn_order(target, list, 0).to(2);
        self.tell(spawn);
        self.tell(Order::new(Verb::Wait, &[Self::held(2)]).to(3));
        match self.random.below(6) {
            0 => self.tell(Order::new(Verb::Wait, &[77]).to(3)),
            1 => self.tell(Order::new(Verb::Call, &[CLOSE, 2])),
            2 => self.tell(Order::new(Verb::Transfer, &[READ, 99, RECEIVED, 8]).to(3)),
            3 => self.tell(Order::new(Verb::Spawn, &[0, DEPS, 9, 0, 0, 1, 0]).to(3)),
            4 => self.tell(Order::new(Verb::Spawn, &[99, DEPS, 0, 0, 0, 1, 0]).to(3)),
            _ => {}
        }
    }

    /// An exec that replaces this program, if its bounds are valid.
    pub(super) fn exec(&mut self) {
        if self.depth >= DEPTH_MAX {
            return self.look();
        }
        let Target { index, source, place, bounds, dep } = self.target();
        let list = self.list(Role::Worker, dep, self.depth + 1);
        let form = if self.random.one_in(30) { 0 } else { self.form() };
        self.tell(Order::new(Verb::Exec, &[index, source, place, bounds, list as u64, form]));
    }
}

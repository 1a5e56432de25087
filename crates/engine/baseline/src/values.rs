//! Allocates the values of one block to host registers, state, stack slots, or nothing if they are constant.
//!
//! The allocation takes one pass. Each value has at most one register and one memory location. A value that
//! is the block's final write of a guest register moves to that register's location as soon as the old value
//! there is dead.

use antares_ir::{Block, Op, Value};
use antares_program::Reg;

use crate::{
    assembler::{Assembler, Gpr, Mem, Rm},
    fitted::fitted,
    registers::{Pinned, TEMPS, state_slot},
};

const SLOT_BYTES: u32 = 8;

/// Memory that holds a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Location {
    /// The state's slot of a guest register whose entry or final value this is.
    State(Reg),
    /// A slot of the host frame.
    Slot(u32),
}

impl Location {
    fn memory(self) -> Mem {
        match self {
            Self::State(register) => state_slot(register),
            Self::Slot(slot) => Frame::memory(slot),
        }
    }
}

/// Facts about a value.
#[derive(Clone, Copy, Debug, Default)]
struct Info {
    /// Remaining uses as an operand.
    uses: u32,
    /// Index of the last operation that uses it; writes and the terminator count as after all operations.
    last: u32,
    /// The number, if the value is constant.
    number: Option<i64>,
    register: Option<Gpr>,
    place: Option<Location>,
}

/// The code and the frame of the current function.
#[derive(Debug, Default)]
pub(crate) struct Code {
    pub(crate) asm: Assembler,
    pub(crate) frame: Frame,
}

/// The slots of a function's host frame.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    free: Vec<u32>,
    /// Slots at the start that stay reserved for the whole function.
    reserved: u32,
    count: u32,
}

impl Frame {
    pub(crate) fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.count += 1;
            self.count - 1
        })
    }

    pub(crate) fn give(&mut self, slot: u32) {
        self.free.push(slot);
    }

    /// Reserves a slot for the whole function. Call this only before the first block.
    pub(crate) fn reserve(&mut self) -> u32 {
        self.reserved += 1;
        self.count = self.reserved;
        self.reserved - 1
    }

    /// Frees all unreserved slots at the start of a block.
    pub(crate) fn clear(&mut self) {
        self.free.clear();
        self.free.extend((self.reserved..self.count).rev());
    }

    pub(crate) fn bytes(&self) -> u32 {
        self.count * SLOT_BYTES
    }

    pub(crate) fn memory(slot: u32) -> Mem {
        Mem::at(Gpr::RSP, fitted(slot * SLOT_BYTES))
    }
}

/// The values of one block.
#[derive(Debug)]
pub(crate) struct Values<'a> {
    pinned: &'a Pinned,
    infos: Vec<Info>,
    /// By host register: the value in it.
    owners: [Option<Value>; 16],
    /// Host registers that the current operation uses.
    locked: u16,
    /// By guest register: its entry value, if the block reads it, and whether that read has been emitted.
    entries: [Option<(Value, bool)>; 32],
    /// Final values that are not yet in their guest registers' locations.
    pending: Vec<(Reg, Value)>,
    /// Slots that are dead after the current operation.
    freed: Vec<u32>,
    /// Whether the branch itself emits the comparison for its condition.
    pub(crate) is_deferred: bool,
}

impl<'a> Values<'a> {
    pub(crate) fn new(block: &Block, pinned: &'a Pinned) -> Self {
        let mut values = Self {
            pinned,
            infos: vec![Info::default(); block.ops.len()],
            owners: [None; 16],
            locked: 0,
            entries: [None; 32],
            pending: block.writes.clone(),
            freed: Vec::new(),
            is_deferred: false,
        };
        for (index, op) in (0..).zip(&block.ops) {
            let _same = op.map(|value| values.count(value, index));
            if let Op::Read(register) = op {
                values.entries[register.index()] = Some((Value(index), false));
            }
        }
        let end = fitted(block.ops.len());
        for value in block.writes.iter().map(|(_, value)| *value).chain(block.terminator.values()) {
            values.count(value, end);
        }
        values
    }

    fn count(&mut self, value: Value, user: u32) -> Value {
        let info = self.info(value);
        info.uses += 1;
        info.last = user;
        value
    }

    fn info(&mut self, value: Value) -> &mut Info {
        &mut self.infos[value.0 as usize]
    }

    /// Remaining uses of `value` as an operand.
    pub(crate) fn uses(&self, value: Value) -> u32 {
        self.infos[value.0 as usize].uses
    }

    /// The number that `value` always holds, if it is constant.
    pub(crate) fn number(&self, value: Value) -> Option<i64> {
        self.infos[value.0 as usize].number
    }

    /// Like [`Self::number`], if the number fits into an instruction.
    pub(crate) fn immediate(&self, value: Value) -> Option<i32> {
        self.number(value).and_then(|number| i32::try_from(number).ok())
    }

    pub(crate) fn set_number(&mut self, value: Value, number: i64) {
        self.info(value).number = Some(number);
    }

    /// Records that `value` is the entry value of `register`.
    pub(crate) fn read(&mut self, value: Value, register: Reg) {
        self.entries[register.index()] = Some((value, true));
        if self.uses(value) == 0 {
            return;
        }
        match self.pinned.host(register) {
            Some(host) => self.own(value, host),
            None => self.info(value).place = Some(Location::State(register)),
        }
    }

    fn own(&mut self, value: Value, register: Gpr) {
        self.info(value).register = Some(register);
        self.owners[register.index()] = Some(value);
    }

    pub(crate) fn lock(&mut self, register: Gpr) {
        self.locked |= 1 << register.0;
    }

    /// Ends the current operation.
    pub(crate) fn unlock(&mut self, code: &mut Code) {
        self.locked = 0;
        // The operation may read these slots until here.
        code.frame.free.append(&mut self.freed);
    }

    fn is_locked(&self, register: Gpr) -> bool {
        self.locked & 1 << register.0 != 0
    }

    fn is_free(&self, register: Gpr) -> bool {
        self.owners[register.index()].is_none() && !self.is_locked(register)
    }

    fn free_temp(&self) -> Option<Gpr> {
        TEMPS.into_iter().find(|temp| self.is_free(*temp))
    }

    /// Returns a locked host register for temporary use by the current operation.
    pub(crate) fn scratch(&mut self, code: &mut Code) -> Gpr {
        let register = self.free_temp().unwrap_or_else(|| {
            let victim = self.victim();
            self.evict(code, victim);
            victim
        });
        self.lock(register);
        register
    }

    /// The register whose value is needed last. Prefers a value that memory holds too.
    fn victim(&self) -> Gpr {
        let mut best = (TEMPS[0], 0);
        for temp in TEMPS.into_iter().filter(|temp| !self.is_locked(*temp)) {
            let Some(owner) = self.owners[temp.index()] else { return temp };
            let info = &self.infos[owner.0 as usize];
            let cost = 1 + 2 * u64::from(info.last) + u64::from(info.place.is_some());
            if cost > best.1 {
                best = (temp, cost);
            }
        }
        best.0
    }

    /// Moves the value in `register` to memory.
    fn evict(&mut self, code: &mut Code, register: Gpr) {
        let Some(value) = self.owners[register.index()].take() else { return };
        let info = self.info(value);
        info.register = None;
        if info.place.is_none() {
            let slot = code.frame.take();
            info.place = Some(Location::Slot(slot));
            code.asm.store(8, Frame::memory(slot), register);
        }
    }

    /// Frees the temporary `register` for the current operation and locks it.
    pub(crate) fn claim(&mut self, code: &mut Code, register: Gpr) {
        self.lock(register);
        let Some(value) = self.owners[register.index()] else { return };
        match self.free_temp() {
            Some(free) => {
                code.asm.mov(free, register);
                self.owners[register.index()] = None;
                self.own(value, free);
            }
            None => self.evict(code, register),
        }
    }

    /// Returns the locked register that holds `value`, and loads it if necessary.
    pub(crate) fn register(&mut self, code: &mut Code, value: Value) -> Gpr {
        if let Some(register) = self.infos[value.0 as usize].register {
            self.lock(register);
            return register;
        }
        let register = self.scratch(code);
        self.load(code, value, register);
        // A constant does not own its register: later uses rematerialize it.
        if self.number(value).is_none() {
            self.own(value, register);
        }
        register
    }

    /// Copies `value` to a register that the value does not own.
    pub(crate) fn load(&self, code: &mut Code, value: Value, to: Gpr) {
        let info = &self.infos[value.0 as usize];
        match (info.number, info.register, info.place) {
            (Some(number), ..) => code.asm.mov_number(to, number),
            (None, Some(register), _) => code.asm.mov(to, register),
            (None, None, Some(place)) => code.asm.mov(to, place.memory()),
            (None, None, None) => debug_assert!(false, "{value:?} is nowhere"),
        }
    }

    /// Returns `value` as an operand, in memory if it is there and this is its only remaining use.
    pub(crate) fn operand(&mut self, code: &mut Code, value: Value) -> Rm {
        let info = &self.infos[value.0 as usize];
        match (info.number, info.register, info.place) {
            (None, None, Some(place)) if info.uses == 1 => place.memory().into(),
            _ => self.register(code, value).into(),
        }
    }

    /// Consumes one use of `value` by the current operation. Frees its register and slot after the last use.
    pub(crate) fn release(&mut self, value: Value) {
        let info = &mut self.infos[value.0 as usize];
        info.uses = info.uses.checked_sub(1).expect("each use of a value is counted");
        if info.uses != 0 {
            return;
        }
        if let Some(register) = info.register.take() {
            self.locked &= !(1 << register.0);
            self.owners[register.index()] = None;
        }
        if let Some(Location::Slot(slot)) = self.infos[value.0 as usize].place.take() {
            self.freed.push(slot);
        }
    }

    /// Allocates and locks a register for `value`, the result of the current operation. Prefers the guest
    /// register of a final value if the old value there is dead, then `hint` if free. Release the operands
    /// first.
    pub(crate) fn result(&mut self, code: &mut Code, value: Value, hint: Option<Gpr>) -> Gpr {
        let is_free = |hint: &Gpr| TEMPS.contains(hint) && self.is_free(*hint);
        let register = self.own_host(value).or(hint.filter(is_free));
        let register = register.unwrap_or_else(|| self.scratch(code));
        self.lock(register);
        self.own(value, register);
        register
    }

    fn own_host(&self, value: Value) -> Option<Gpr> {
        let mut finals = self.pending.iter().filter(|(_, other)| *other == value);
        finals.find_map(|(register, _)| {
            let host = self.pinned.host(*register)?;
            (self.is_free(host) && self.is_read(*register)).then_some(host)
        })
    }

    /// Whether the block has already read the entry value of `register`, or never does.
    fn is_read(&self, register: Reg) -> bool {
        self.entries[register.index()].is_none_or(|(_, is_read)| is_read)
    }

    /// Stores `value` to its guest register's slot, if it is final and the old value there is dead.
    pub(crate) fn settle(&mut self, code: &mut Code, value: Value) {
        let Some(from) = self.infos[value.0 as usize].register else { return };
        for index in (0..self.pending.len()).rev() {
            let (register, other) = self.pending[index];
            if other != value || self.pinned.host(register).is_some() || !self.may_overwrite(register) {
                continue;
            }
            self.overwrite(register);
            code.asm.store(8, state_slot(register), from);
            self.pending.swap_remove(index);
            self.written(value, register);
        }
    }

    /// Records that `value` was written to the state's slot of `register`.
    fn written(&mut self, value: Value, register: Reg) {
        let info = self.info(value);
        info.uses = info.uses.checked_sub(1).expect("each use of a value is counted");
        if info.place.is_none() {
            info.place = Some(Location::State(register));
        }
        if info.uses == 0
            && let Some(register) = info.register.take()
        {
            self.owners[register.index()] = None;
        }
    }

    /// Whether the state's slot of `register` holds nothing that is only there.
    fn may_overwrite(&self, register: Reg) -> bool {
        let Some((entry, is_read)) = self.entries[register.index()] else { return true };
        let info = &self.infos[entry.0 as usize];
        is_read
            && (info.uses == 0 || info.register.is_some() || info.place != Some(Location::State(register)))
    }

    /// Records that the state's slot of `register` no longer holds its entry value.
    fn overwrite(&mut self, register: Reg) {
        if let Some((entry, _)) = self.entries[register.index()] {
            let info = self.info(entry);
            if info.place == Some(Location::State(register)) {
                info.place = None;
            }
        }
    }

    /// Moves all final values to their locations. Emits only moves, which do not change the flags.
    pub(crate) fn finish(&mut self, code: &mut Code) {
        self.drop_identities();
        self.save_entries(code);
        let (pinned, in_state): (Vec<_>, Vec<_>) =
            self.pending.drain(..).partition(|(register, _)| self.pinned.host(*register).is_some());
        for (register, value) in in_state {
            match self.immediate(value) {
                Some(number) => code.asm.store_number(8, state_slot(register), number),
                None => {
                    let from = self.register(code, value);
                    code.asm.store(8, state_slot(register), from);
                    self.locked &= !(1 << from.0);
                }
            }
            self.release(value);
        }
        self.finish_pinned(code, pinned);
    }

    /// Drops final values that are already in their locations.
    fn drop_identities(&mut self) {
        let (pinned, infos) = (self.pinned, &self.infos);
        self.pending.retain(|(register, value)| {
            let info = &infos[value.0 as usize];
            match pinned.host(*register) {
                Some(host) => info.register != Some(host),
                None => info.place != Some(Location::State(*register)),
            }
        });
    }

    /// Loads the entry values that would be overwritten but are still needed.
    fn save_entries(&mut self, code: &mut Code) {
        for index in 0..self.pending.len() {
            let (register, _) = self.pending[index];
            let Some((entry, _)) = self.entries[register.index()] else { continue };
            let is_needed = self.pending.iter().any(|(_, value)| *value == entry);
            if is_needed && self.infos[entry.0 as usize].place == Some(Location::State(register)) {
                let loaded = self.register(code, entry);
                self.locked &= !(1 << loaded.0);
            }
            self.overwrite(register);
        }
    }

    /// Emits the moves into pinned host registers as one parallel move.
    fn finish_pinned(&mut self, code: &mut Code, mut moves: Vec<(Reg, Value)>) {
        while !moves.is_empty() {
            let source = |value: Value| self.infos[value.0 as usize].register;
            let is_free = |(register, _): &(Reg, Value)| {
                let host = self.pinned.host(*register);
                !moves.iter().any(|(_, value)| source(*value) == host)
            };
            match moves.iter().position(is_free) {
                Some(index) => {
                    let (register, value) = moves.swap_remove(index);
                    if let Some(host) = self.pinned.host(register) {
                        self.load(code, value, host);
                    }
                    self.release(value);
                }
                None => {
                    // The moves form a cycle: a copy of one value breaks it.
                    let Some(host) = self.pinned.host(moves[0].0) else { return };
                    let Some(value) = self.owners[host.index()].take() else { return };
                    let room = self.scratch(code);
                    self.locked &= !(1 << room.0);
                    code.asm.mov(room, host);
                    self.own(value, room);
                }
            }
        }
    }
}

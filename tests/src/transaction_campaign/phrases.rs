//! Phrases: short sequences of related orders, such as loading and calling code. Lists of orders consist of
//! phrases.

use super::{
    images::{Image, Images, LIBRARY, ROUTINE_BYTES, ROUTINES},
    layouts::{self, FILLED, OVERLAPPED, TOP},
    orders::{Order, Register, Verb, register},
    scenario::{Cell, DEPS, LISTS_MAX, ORDERS_MAX, Scenario},
};
use crate::generate::Random;

/// Pages without a segment.
const FREE: u64 = 0x10_0000;
/// Address for data of cells.
const LOADED: u64 = 0x8_0000;
/// Address for code that is linked for another address.
const BESIDE: u64 = 0xc_0000;
const PAGE: u64 = 0x1000;
/// Orders reserved for the end of a list.
const END_ORDERS: usize = 6;
const LOAD_CODE: u64 = 2091;

/// Role of a list of orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A script.
    Root,
    /// A child that waits for input.
    Waiting,
    /// A child that reads and replies.
    Echo,
    /// A child, or a program started by exec.
    Worker,
}

/// Writes the lists of one script.
pub(super) struct Writer<'a> {
    pub(super) images: &'a Images,
    pub(super) random: &'a mut Random,
    pub(super) scenario: &'a mut Scenario,
    pub(super) version: u32,
    /// Number of deps that are actors.
    pub(super) actors: usize,
    /// The dep that runs the current list.
    pub(super) dep: usize,
    /// Depth in the tree of VMs.
    pub(super) depth: u32,
    pub(super) orders: Vec<Order>,
    /// Pages with loaded code.
    code: Vec<u64>,
    /// Pages to check.
    seen: Vec<(u64, u64)>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        images: &'a Images,
        random: &'a mut Random,
        scenario: &'a mut Scenario,
        version: u32,
        actors: usize,
    ) -> Self {
        let (orders, code, seen) = (Vec::new(), Vec::new(), Vec::new());
        Self { images, random, scenario, version, actors, dep: 0, depth: 0, orders, code, seen }
    }

    /// Writes a list for `dep`, and all lists that it references; returns its index.
    pub(super) fn list(&mut self, role: Role, dep: usize, depth: u32) -> usize {
        let index = self.scenario.lists.len();
        if index >= LISTS_MAX {
            return index - 1;
        }
        self.scenario.lists.push(Vec::new());
        let outer = (self.dep, self.depth);
        let orders = std::mem::take(&mut self.orders);
        let (code, seen) = (std::mem::take(&mut self.code), std::mem::take(&mut self.seen));
        (self.dep, self.depth) = (dep, depth);
        self.write(role);
        let written = std::mem::replace(&mut self.orders, orders);
        (self.code, self.seen) = (code, seen);
        (self.dep, self.depth) = outer;
        self.scenario.lists[index] = written;
        index
    }

    fn write(&mut self, role: Role) {
        if self.random.one_in(4) {
            let depth = u64::from(self.random.below(30));
            self.add(Order::new(Verb::Deep, &[depth]));
        }
        match role {
            Role::Waiting => self.wait_to_read(),
            Role::Echo => self.echo(),
            Role::Root | Role::Worker => {}
        }
        let phrases = match role {
            Role::Root => 2 + self.random.below(4),
            Role::Worker => 1 + self.random.below(3),
            Role::Waiting | Role::Echo => self.random.below(2),
        };
        for _ in 0..phrases {
            if self.orders.len() + END_ORDERS * 4 < ORDERS_MAX {
                self.phrase();
            }
        }
        if self.random.one_in(20) {
            self.fault();
        }
        self.look();
        let code =
            if role == Role::Root && !self.random.one_in(12) { 0 } else { u64::from(self.random.below(6)) };
        self.add(Order::new(Verb::Exit, &[code]));
        self.orders.truncate(ORDERS_MAX);
    }

    fn phrase(&mut self) {
        match self.random.below(if self.version == 2 { 24 } else { 15 }) {
            0..4 => self.change_memory(),
            4 => self.load_data(),
            5..8 => self.load_code(),
            8 => self.store_to_code(),
            9 | 10 if self.version > 0 => self.failing_exec(),
            11 if self.version > 0 => self.exec(),
            12 => self.work(),
            13 | 14 => self.call(),
            15..20 => self.crowd(),
            20 | 21 => self.talk(),
            22 => self.child(),
            _ => self.look(),
        }
    }

    pub(super) fn image(&self) -> &'a Image {
        match self.scenario.deps[self.dep] {
            Cell::Actor(index) => &self.images.actors[index],
            _ => &self.images.actors[0],
        }
    }

    pub(super) fn add(&mut self, order: Order) {
        self.orders.push(order);
    }

    /// As `add`, but usually prints with cycles, and sometimes uses computed numbers.
    pub(super) fn tell(&mut self, order: Order) {
        let with_cycles = self.version > 0 && !self.random.one_in(4);
        let order = order.printed(with_cycles);
        let order = if self.random.one_in(4) { order.computed() } else { order };
        self.orders.push(order);
    }

    /// A page of one of the kinds that are handled differently on suspension.
    pub(super) fn page(&mut self) -> u64 {
        let base = self.random.pick(&[FILLED, FILLED, OVERLAPPED, OVERLAPPED, TOP, TOP, FREE, LOADED]);
        let page = base + PAGE * u64::from(self.random.below(4));
        if !self.seen.contains(&(page, PAGE)) {
            self.seen.push((page, PAGE));
        }
        page
    }

    /// Checksums of touched pages and of shared segments.
    pub(super) fn look(&mut self) {
        let mut seen = self.seen.clone();
        while seen.len() > 3 {
            seen.swap_remove(self.random.below(seen.len() as u32) as usize);
        }
        seen.push(self.random.pick(&[
            (FILLED, layouts::FILLED_BYTES),
            (OVERLAPPED, layouts::OVERLAPPED_BYTES),
            (TOP, layouts::TOP_BYTES),
        ]));
        // Version 0 cannot read the last bytes of memory.
        let less = if self.version == 0 { 8 } else { 0 };
        for (page, length) in seen {
            self.tell(Order::new(Verb::Sum, &[page, length - less]));
        }
    }

    fn work(&mut self) {
        let rounds = u64::from(self.random.below(300));
        self.tell(Order::new(Verb::Work, &[rounds]));
    }

    /// Changes memory: zeros, the same content, other content and back, single bytes, a few bytes on each
    /// page.
    pub(super) fn change_memory(&mut self) {
        let page = self.page();
        // Version 0 cannot write the last bytes of memory.
        let length = PAGE - if self.version == 0 { 8 } else { 0 };
        match self.random.below(8) {
            0..3 => {
                let pages = if page & 0x3000 == 0 { u64::from(1 + self.random.below(2)) } else { 1 };
                let whole = length + PAGE * (pages - 1);
                let form = u64::from(self.random.below(2));
                self.add(Order::new(Verb::Fill, &[page, whole, 0, form]));
                self.seen.push((page, whole));
            }
            3 => self.add(Order::new(Verb::Copy, &[page, page, length])),
            4 => {
                let aside = FREE + 0x8000;
                self.add(Order::new(Verb::Copy, &[aside, page, length]));
                let with = self.random.pick(&[0, 0x1111_1111_1111_1111]);
                self.add(Order::new(Verb::Fill, &[page, length, with, 1]));
                self.add(Order::new(Verb::Copy, &[page, aside, length]));
            }
            5 => {
                let start = u64::from(self.random.below(400)) * 8;
                let with = u64::from(self.random.below(2));
                self.add(Order::new(Verb::Fill, &[page + start, 400, with, 0]));
            }
            6 => {
                let at = self.random.pick(&[0, 8, 0x7ff, 0xff0]);
                let width = self.random.pick(&[1, 2, 4, 8]);
                let number = self.random.pick(&[0, 0, 1, page.wrapping_mul(0x9e37_79b9)]);
                self.add(Order::new(Verb::Poke, &[page + at, number, width, 1, 0]));
            }
            _ => {
                let (width, count) = (self.random.pick(&[1, 8]), u64::from(1 + self.random.below(3)));
                let page = page & !0x3fff;
                self.add(Order::new(Verb::Poke, &[page + 0x10, 0, width, count, PAGE]));
            }
        }
    }

    /// Loads data of a cell to a page or an odd address, and overwrites part of it.
    fn load_data(&mut self) {
        let base = self.random.pick(&[LOADED, LOADED, FILLED, FREE]);
        let at = base + self.random.pick(&[0, 0, 0, 8, 0x800, 0xffc]);
        let capacity = self.random.pick(&[0x1000, 0x2000, 0x3000, 0x3123, 0x5000, 100, 0]);
        let offset = self.random.pick(&[0, 0, 0, 0x1000, 0x800, 0x3100, 0x9000]);
        let cells = [self.dep as u64, self.actors as u64, self.actors as u64 + 2, 77];
        let (index, source) = (self.random.pick(&cells), self.random.pick(&[DEPS, DEPS, DEPS, DEPS, 1, 2]));
        let number = if self.random.one_in(5) { 2074 } else { 0 };
        let (index, source) =
            if number == 0 { (index, source) } else { (u64::from(self.random.below(3)), 1) };
        self.tell(Order::new(Verb::Load, &[at, capacity, offset, index, source, number]));
        self.seen.push((base, 0x3000));
        match self.random.below(5) {
            0 => self.add(Order::new(Verb::Fill, &[base, PAGE, 0, 1])),
            1 => self.add(Order::new(Verb::Fill, &[base + PAGE, PAGE, 0, 0])),
            2 => self.add(Order::new(Verb::Poke, &[base + PAGE + 0x20, 0, 8, 1, 0])),
            3 => self.add(Order::new(Verb::Copy, &[base, base, PAGE])),
            _ => {}
        }
    }

    /// Loads code of a cell to its own address, elsewhere, or over other data; then calls it.
    fn load_code(&mut self) {
        let is_library = self.random.one_in(3) && !self.code.contains(&LIBRARY);
        let code = &self.images.library_code;
        let (mut cell, mut from, mut length) = if is_library {
            (self.actors + 1, code.start as u64, (code.end - code.start) as u64)
        } else {
            (self.actors, 0, self.random.pick(&[self.images.routines_bytes as u64, PAGE]))
        };
        let fresh = BESIDE + PAGE * 2 * (8 * self.code.len() as u64 % 64 + u64::from(self.random.below(8)));
        let mut page = if is_library { LIBRARY } else { fresh };
        let mut memory = self.random.pick(&[PAGE, PAGE, 2 * PAGE]);
        if self.random.one_in(5) {
            let loaded = self.code.first().copied();
            match self.random.below(12) {
                0 => page = FILLED + PAGE * u64::from(self.random.below(4)),
                1 => page = loaded.unwrap_or(fresh),
                2 | 3 => page = loaded.map_or(fresh, |page| page + PAGE),
                4 => page = fresh + 8,
                5 => memory = self.random.pick(&[0, 100]),
                6 => length = self.random.pick(&[0, 0x9000]),
                7 => length = self.random.pick(&[64, 640]),
                8 => from = self.random.pick(&[64, 0x3000, from + 128]),
                9 => cell = 77,
                10 => cell = self.actors + 3,
                _ => page = fresh,
            }
        }
        let index = cell as u64;
        self.tell(Order::new(Verb::Call, &[LOAD_CODE, page, memory, from, length, index, DEPS]));
        self.code.push(page);
        self.seen.push((page & !0xfff, PAGE));
        for _ in 0..self.random.below(3) {
            self.call_routine(page);
        }
    }

    /// Calls a routine in loaded code.
    fn call_routine(&mut self, page: u64) {
        let usual = [0, 0, 1, 1, 2, 3, 5, 8, 9, 10];
        let which = if self.random.one_in(30) {
            u64::from(self.random.below(ROUTINES as u32))
        } else {
            self.random.pick(&usual)
        };
        let which = if which == 2 && self.version == 0 { 0 } else { which };
        let third = match which {
            1 | 8 => self.random.pick(&self.image().callbacks.clone()),
            _ => FREE + 0x100 + u64::from(self.random.below(64)),
        };
        // The address for the storing callback, and a system call number.
        if self.random.one_in(3) {
            self.add(Order::new(Verb::Poke, &[0x2a200 + 8 * 30, FREE + 0x200, 8, 1, 0]));
        }
        let number = if self.version == 2 { 2603 } else { 2061 };
        let words = [page + which * ROUTINE_BYTES, u64::from(self.random.below(99)), 5, third, number];
        self.tell(Order::new(Verb::Jump, &words));
    }

    /// A native store to pages of code, or intended for code.
    fn store_to_code(&mut self) {
        let Some(page) = self.code.last().copied() else { return self.load_code() };
        if self.random.one_in(3) {
            return self.call_routine(page);
        }
        // This store must end the script.
        if self.random.one_in(6) {
            let at = self.random.pick(&[0x700, 0, 0xff8]);
            self.add(Order::new(Verb::Poke, &[page + at, 0x11, 8, 1, 0]));
        }
    }

    /// An exec that fails and continues the VM, usually after loading code, which is then written to.
    fn failing_exec(&mut self) {
        if self.code.is_empty() && !self.random.one_in(4) {
            self.load_code();
        }
        let dep = u64::from(self.random.below(self.actors as u32));
        let far = 0xffff_ffff_f000_0000;
        let words = match (self.version, self.random.below(4)) {
            (1, 0 | 1) => [99, DEPS, 0, 0],
            (1, 2) => [dep, DEPS, 0, far],
            (1, _) => [1, 1, 1, 0x7fff_0000_0000_0001],
            (_, 0) => [0, 77, 0, 0],
            (_, 1) => [dep, DEPS, 9, 0],
            (_, 2) => [0, 0x0200_0000_0000_0003, 7, 0],
            _ => [1 << 40, DEPS, 0, 0],
        };
        let [index, source, place, bounds] = words;
        self.tell(Order::new(Verb::Exec, &[index, source, place, bounds, 0, 1]));
        if let Some(page) = self.code.last().copied() {
            match self.random.below(6) {
                0..3 => self.call_routine(page),
                3 => self.tell(Order::new(Verb::Copy, &[page & !0xfff, page & !0xfff, 64])),
                _ => self.add(Order::new(Verb::Poke, &[page + 0x700, 0x22, 8, 1, 0])),
            }
        }
    }

    /// Calls additional code of the image: straight-line traces, and code covered by another segment.
    fn call(&mut self) {
        let image = self.image();
        if image.entries.is_empty() {
            return self.work();
        }
        for _ in 0..1 + self.random.below(2) {
            let at = self.random.pick(&image.entries);
            let numbers = [self.random.number(), self.random.number(), FREE + 0x40, 2061];
            self.tell(Order::new(Verb::Jump, &[at, numbers[0], numbers[1], numbers[2], numbers[3]]));
        }
    }

    fn fault(&mut self) {
        let order = match self.random.below(8) {
            0 => Order::new(Verb::Poke, &[0x1_0000, 1, 8, 1, 0]),
            1 => Order::new(Verb::Poke, &[0x40_0000 - self.random.pick(&[0, 1, 4]), 1, 8, 1, 0]),
            2 => Order::new(Verb::Peek, &[0x40_0000_u64.wrapping_sub(self.random.pick(&[0, 7, 1 << 40])), 8]),
            3 => Order::new(Verb::Jump, &[self.random.pick(&[0, 2, FREE, 0x40_0000, 1 << 33, LIBRARY])]),
            4 => Order::new(Verb::Call, &[self.random.pick(&[1, 2600, 9999, 2061])]),
            5 => Order::new(Verb::Call, &[2177, FILLED]),
            6 => Order::new(Verb::Poke, &[0x1_0ffc, 1, 8, 1, 0]),
            _ => Order::new(Verb::Load, &[0x3f_fff0, 0x100, 0, 0, DEPS, 0]),
        };
        self.tell(order);
    }

    pub(super) fn held(register_number: Register) -> u64 {
        register(register_number, 0)
    }
}

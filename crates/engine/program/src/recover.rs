//! `recover`: functions and blocks of an image, with and without symbols or section headers.
//!
//! A *start* is a pc that something calls or tail-jumps to, that a symbol names, or where the program begins.
//! A function reaches from its start over every branch and jump inside `[start, next start)`; what leaves
//! that range is a tail call. Addresses found in data or computed as constants become functions too (they may
//! be called indirectly), but cut no range. Nothing here is trusted by generated code: a wrong guess costs
//! time, never a result.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet, VecDeque},
    sync::Arc,
};

use antares_abi::{CompileLimits, CompileOptions, Hints};

use crate::{
    Decoder, GuestAddr, Image, Instruction, ProgramError, Reg,
    assemble::assemble,
    explore::{FunctionDraft, Key, Surroundings, explore},
    jump_table::references,
    taken::{code_addresses_in_data, code_words_in_data, function_tables},
};

/// Index of a function in its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionId(pub u32);

/// Index of a block in its function; 0 is the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u32);

impl BlockId {
    /// Number `index`. Limits keep blocks far below 2^32.
    ///
    /// # Panics
    /// There are 2^32 blocks.
    #[must_use]
    pub fn at(index: usize) -> Self {
        Self(u32::try_from(index).expect("limits keep blocks below 2^32"))
    }
}

/// The functions and blocks of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// VM version and ISA.
    pub options: CompileOptions,
    /// Where the script was seen to go.
    pub hints: Hints,
    /// Entry pc of the ELF.
    pub entry: GuestAddr,
    /// First address of executable pages.
    pub code_start: u64,
    /// End of executable pages.
    pub code_end: u64,
    /// Where stores need no look at page flags, `[start, end)`.
    pub writable: (u64, u64),
    /// Executable pages, which never change: address and bytes.
    pub code: Vec<(u64, Vec<u8>)>,
    /// Loaded at run time by a script, whose own code calls it and may be called by it.
    pub is_loaded_code: bool,
    /// Functions by entry pc, then link register.
    pub functions: Vec<Function>,
    /// Tables of functions in data, by an address that code computes: a guess, and what they held at the
    /// start.
    pub function_tables: BTreeMap<u64, Vec<GuestAddr>>,
}

impl Program {
    /// Whether stores are checked against all of memory, the program's own code included.
    #[must_use]
    pub fn stores_anywhere(&self) -> bool {
        self.writable.0 < self.code_end
    }

    /// The `N` bytes at `address`, if they are in executable pages.
    #[must_use]
    pub fn code_bytes<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        self.code.iter().find_map(|(start, bytes)| {
            let from = usize::try_from(address.checked_sub(*start)?).ok()?;
            bytes.get(from..from.checked_add(N)?)?.try_into().ok()
        })
    }
}

/// A function: all that its entry reaches without a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its index.
    pub id: FunctionId,
    /// Entry pc.
    pub entry: GuestAddr,
    /// Register that holds the return address: `ra`, or `t0` for millicode.
    pub link: Reg,
    /// Name of its symbol, if it has one; hostile data.
    pub name: Option<String>,
    /// Whether it may be entered from anywhere: the ELF's entry, or the target of an indirect call.
    pub is_exposed: bool,
    /// Blocks; the first one is the entry.
    pub blocks: Vec<Block>,
}

/// A straight line of instructions. The last one belongs to the terminator, if that has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Address of its first instruction.
    pub pc: GuestAddr,
    /// Instructions with their addresses.
    pub instructions: Vec<(GuestAddr, Instruction)>,
    /// How it ends.
    pub terminator: Terminator,
}

/// How a block ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Terminator {
    /// Goes on at a block.
    Jump(BlockId),
    /// The last instruction decides.
    Branch {
        /// Where the condition holds.
        taken: BlockId,
        /// Where it does not.
        otherwise: BlockId,
    },
    /// Calls a function and goes on when that returns.
    Call {
        /// The function.
        callee: FunctionId,
        /// The link register.
        link: Reg,
        /// What the link register gets.
        return_pc: GuestAddr,
        /// Where to go on.
        to: BlockId,
    },
    /// Goes to another function for good; it returns to our caller.
    TailCall(FunctionId),
    /// Calls the address that the last instruction computes, through `ra`.
    IndirectCall {
        /// What `ra` gets.
        return_pc: GuestAddr,
        /// Where to go on.
        to: BlockId,
    },
    /// Jumps to the address that the last instruction computes.
    IndirectJump {
        /// Blocks of this function that it may be. Jumps to the same ones hold the same list.
        candidates: Arc<[BlockId]>,
        /// Whether the address was read from a table, and these are all that it lists.
        is_table: bool,
    },
    /// Jumps to the address in the link register: back to the caller, or to a block after a local computed
    /// call.
    Return {
        /// Blocks after local computed calls; the same list in all returns of a function.
        locals: Arc<[BlockId]>,
    },
    /// A syscall, then goes on.
    Ecall(BlockId),
    /// The syscall with `a7` = 93, which ends the script.
    Exit,
    /// ckb-vm finds no instruction here, or native code has no way on: behind an `ebreak` that ends a
    /// function.
    Leave,
}

/// Blocks and functions of `image`, with what `hints` say of it.
///
/// # Errors
/// [`ProgramError::Functions`] and [`ProgramError::Blocks`] beyond the limits.
pub fn recover(image: &Image, limits: &CompileLimits, hints: &Hints) -> Result<Program, ProgramError> {
    let mut decoder = Decoder::new(image);
    let words = code_words_in_data(image);
    let is_code = |target: &(u64, bool)| image.is_executable(target.0);
    let (called, jumped): (Vec<_>, Vec<_>) = hints.targets().filter(is_code).partition(|target| target.1);
    let jumped = jumped.into_iter().map(|target| target.0).collect();
    let surroundings = Surroundings {
        words,
        references: references(image, &mut decoder),
        jumped,
        has_called: !called.is_empty(),
    };
    let called = called.into_iter().map(|target| target.0).collect();
    let recovery = Recovery::new(image, *limits, surroundings, called).run(&mut decoder)?;
    let mut drafts = recovery.drafts;
    if hints.distrust_tables() {
        drafts.values_mut().for_each(|draft| draft.tables.clear());
    }
    let constants = drafts.values().flat_map(|draft| &draft.constants);
    let function_tables = function_tables(image, constants, &recovery.exposed);
    let program = assemble(image, &mut decoder, &drafts, &recovery.exposed);
    Ok(Program { hints: hints.clone(), function_tables, ..program })
}

/// Rounds over the whole program until no new start is found; a later start would only turn jumps into tail
/// calls.
const ROUNDS_MAX: usize = 6;

/// How many times a block may be there, on average, before guesses are taken back.
const COPIES_MAX: u64 = 4;

/// Instructions that functions may have between them, beside one for each byte of code: guesses may overlap,
/// and pointers into one line would each hold the rest of it.
const SPARE_INSTRUCTIONS: u64 = 1 << 16;

struct Recovery<'a> {
    image: &'a Image,
    limits: CompileLimits,
    surroundings: Surroundings,
    pointers: Vec<u64>,
    starts: BTreeSet<u64>,
    exposed: BTreeSet<u64>,
    drafts: BTreeMap<Key, FunctionDraft>,
    queue: VecDeque<Key>,
    /// What may be called by its address, as far as that is a guess.
    guesses: VecDeque<Key>,
    queued: BTreeSet<Key>,
    /// What was called by its address while the script ran.
    called: Vec<u64>,
    /// What was jumped to while the script ran, and is no place inside of a function.
    entered: BTreeSet<u64>,
    /// Instructions in the middle of functions that are no guesses.
    insides: HashSet<u64>,
    blocks: u64,
    instructions: u64,
    /// Instructions beyond which guesses are not followed, and whether some were not.
    instructions_max: u64,
    is_exhausted: bool,
}

impl<'a> Recovery<'a> {
    fn new(image: &'a Image, limits: CompileLimits, surroundings: Surroundings, called: Vec<u64>) -> Self {
        let symbols = image.symbols.iter().map(|symbol| symbol.address.0);
        Self {
            image,
            limits,
            surroundings,
            pointers: code_addresses_in_data(image),
            starts: symbols.chain(called.iter().copied()).collect(),
            exposed: BTreeSet::new(),
            drafts: BTreeMap::new(),
            queue: VecDeque::new(),
            guesses: VecDeque::new(),
            queued: BTreeSet::new(),
            called,
            entered: BTreeSet::new(),
            insides: HashSet::new(),
            blocks: 0,
            instructions: 0,
            instructions_max: image.executable.iter().map(|range| range.1 - range.0).sum::<u64>()
                + SPARE_INSTRUCTIONS,
            is_exhausted: false,
        }
    }

    fn run(mut self, decoder: &mut Decoder) -> Result<Self, ProgramError> {
        let entry = self.image.entry.0;
        if entry.is_multiple_of(2) && self.image.is_executable(entry) {
            self.starts.insert(entry);
        }
        for _ in 0..ROUNDS_MAX {
            let starts = self.starts.len();
            match self.round(decoder) {
                // Labels taken for functions may be what makes a program too big.
                Err(ProgramError::Blocks { .. }) if self.drop_labels() => continue,
                other => other?,
            }
            if self.starts.len() == starts && !self.drop_labels() {
                break;
            }
        }
        Ok(self)
    }

    /// Takes back guesses if there are far more blocks than places where one begins: an address in data that
    /// is a label of a computed jump is no function, and as one it would hold all of the function around it
    /// once more. Whether there were any.
    fn drop_labels(&mut self) -> bool {
        let places: BTreeSet<u64> = self.drafts.values().flat_map(|draft| &draft.leaders).copied().collect();
        if self.blocks <= COPIES_MAX * places.len() as u64 && !self.is_exhausted {
            return false;
        }
        let labels = |(key, draft): (&Key, &FunctionDraft)| -> Vec<u64> {
            draft.candidates.iter().copied().filter(|candidate| *candidate != key.0).collect()
        };
        let labels: BTreeSet<u64> = self.drafts.iter().flat_map(labels).collect();
        let before = self.pointers.len() + self.entered.len();
        self.pointers.retain(|pointer| self.starts.contains(pointer) || !labels.contains(pointer));
        self.entered.retain(|entered| !labels.contains(entered));
        self.pointers.len() + self.entered.len() < before
    }

    fn round(&mut self, decoder: &mut Decoder) -> Result<(), ProgramError> {
        self.drafts.clear();
        self.queue.clear();
        self.guesses.clear();
        self.queued.clear();
        self.exposed.clear();
        self.insides.clear();
        (self.blocks, self.instructions, self.is_exhausted) = (0, 0, false);
        let entry = self.image.entry.0;
        if self.starts.contains(&entry) {
            self.exposed.insert(entry);
            self.enqueue((entry, Reg::RA))?;
        }
        for address in self.called.clone().into_iter().chain(self.entered.clone()) {
            self.exposed.insert(address);
            self.enqueue((address, Reg::RA))?;
        }
        for pointer in self.pointers.clone() {
            self.expose(pointer)?;
        }
        self.explore_all(decoder)?;
        // What was jumped to and belongs to no jump that is known is an entry of its own.
        let jumped = self.surroundings.jumped.iter().copied();
        let missing: Vec<u64> = jumped.filter(|target| !self.is_candidate(*target)).collect();
        for target in missing {
            self.entered.insert(target);
            self.exposed.insert(target);
            self.enqueue((target, Reg::RA))?;
        }
        self.explore_all(decoder)
    }

    /// Whether `target` is one that a computed jump of a function may go to.
    fn is_candidate(&self, target: u64) -> bool {
        self.drafts.values().any(|draft| draft.candidates.contains(&target))
    }

    fn explore_all(&mut self, decoder: &mut Decoder) -> Result<(), ProgramError> {
        // Guesses last: what is known for sure says which of them are wrong.
        while let Some(key) = self.queue.pop_front().or_else(|| self.guesses.pop_front()) {
            if self.instructions > self.instructions_max && !self.starts.contains(&key.0) {
                self.is_exhausted = true;
                self.exposed.remove(&key.0);
                continue;
            }
            let draft = explore(self.image, decoder, &self.starts, &self.surroundings, key);
            self.take(key, draft)?;
        }
        Ok(())
    }

    /// Takes `address` for one that may be called, unless it is a label in a function that has a name, or
    /// said to be no code.
    fn expose(&mut self, address: u64) -> Result<(), ProgramError> {
        let is_known = self.starts.contains(&address);
        if !is_known && (self.image.is_inside_named(address) || self.image.is_constant(address)) {
            return Ok(());
        }
        self.exposed.insert(address);
        self.enqueue((address, Reg::RA))
    }

    fn is_guess(&self, address: u64) -> bool {
        !self.starts.contains(&address) && !self.entered.contains(&address)
    }

    fn enqueue(&mut self, key: Key) -> Result<(), ProgramError> {
        if !self.image.is_executable(key.0) || !self.queued.insert(key) {
            return Ok(());
        }
        if self.queued.len() as u64 > self.limits.functions_max {
            return Err(ProgramError::Functions { max: self.limits.functions_max, at: GuestAddr(key.0) });
        }
        let is_guess = self.is_guess(key.0);
        if is_guess {
            self.guesses.push_back(key)
        } else {
            self.queue.push_back(key)
        }
        Ok(())
    }

    /// Whether a guess calls nothing in the middle of known functions, as constants do if they are read as
    /// code. What stands behind a call is no such middle: the call may never return.
    fn is_disjoint(&self, draft: &FunctionDraft) -> bool {
        let calls = draft.calls.iter().filter(|callee| callee.1 == Reg::RA).map(|callee| callee.0);
        let mut targets = calls.chain(draft.tails.iter().copied());
        targets.all(|target| self.starts.contains(&target) || !self.insides.contains(&target))
    }

    /// Keeps a draft and goes after what it calls; drops it if it was a mere guess that turned out to be no
    /// code.
    fn take(&mut self, key: Key, draft: FunctionDraft) -> Result<(), ProgramError> {
        let is_guess = self.is_guess(key.0);
        if is_guess && !(draft.is_clean() && self.is_disjoint(&draft)) {
            self.exposed.remove(&key.0);
            return Ok(());
        }
        if !is_guess {
            self.insides.extend(draft.insides());
        }
        self.instructions += draft.walked.len() as u64;
        self.blocks += draft.leaders.len() as u64;
        if self.blocks > self.limits.blocks_max {
            return Err(ProgramError::Blocks { max: self.limits.blocks_max, at: GuestAddr(key.0) });
        }
        for &callee in &draft.calls {
            self.starts.insert(callee.0);
            self.enqueue(callee)?;
        }
        for &target in draft.tails.iter().filter(|target| self.image.is_executable(**target)) {
            self.starts.insert(target);
            self.enqueue((target, key.1))?;
        }
        for &constant in draft.constants.iter().filter(|constant| *constant % 2 == 0) {
            if self.image.is_executable(constant) {
                self.expose(constant)?;
            }
        }
        self.drafts.insert(key, draft);
        Ok(())
    }
}

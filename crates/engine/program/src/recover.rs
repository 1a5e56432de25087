//! `recover`: finds the functions and blocks of an image, with or without symbols and section headers.
//!
//! A *start* is a pc that is called, tail-jumped to, named by a symbol, or the program's entry. A function
//! reaches from its start over every branch and jump inside `[start, next start)`. Exits from that range are
//! tail calls. Addresses in data or computed constants become functions too, since indirect calls may use
//! them, but do not split ranges. Generated code trusts none of this: a wrong guess costs time but never
//! changes a result.

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
    /// Creates the id of block `index`.
    ///
    /// # Panics
    /// Panics from 2^32 blocks on, far beyond the limits.
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
    /// Observed targets of the script's jumps and calls.
    pub hints: Hints,
    /// Entry pc of the ELF.
    pub entry: GuestAddr,
    /// First address of executable pages.
    pub code_start: u64,
    /// End of executable pages.
    pub code_end: u64,
    /// The range `[start, end)` in which stores need no check of page flags.
    pub writable: (u64, u64),
    /// Executable pages, which never change: address and bytes.
    pub code: Vec<(u64, Vec<u8>)>,
    /// Whether a script loads this code at run time. The script's own code and this code may call each other.
    pub is_loaded_code: bool,
    /// Functions by entry pc, then link register.
    pub functions: Vec<Function>,
    /// Guessed tables of functions in data, with their initial contents, by an address that code computes.
    pub function_tables: BTreeMap<u64, Vec<GuestAddr>>,
}

impl Program {
    /// Whether stores are checked against all of memory, including the program's own code.
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

/// A function: all code that its entry reaches without a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its index.
    pub id: FunctionId,
    /// Entry pc.
    pub entry: GuestAddr,
    /// Register that holds the return address: `ra`, or `t0` for millicode.
    pub link: Reg,
    /// Name of its symbol, if any; untrusted.
    pub name: Option<String>,
    /// Whether callers anywhere may enter it: the ELF's entry, or the target of an indirect call.
    pub is_exposed: bool,
    /// Blocks; the first one is the entry.
    pub blocks: Vec<Block>,
}

/// Straight-line instructions. The last one belongs to the terminator, if the terminator has one.
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
    /// Continues at a block.
    Jump(BlockId),
    /// Continues where the last instruction decides.
    Branch {
        /// The block for a true condition.
        taken: BlockId,
        /// The block for a false condition.
        otherwise: BlockId,
    },
    /// Calls a function and continues after its return.
    Call {
        /// The function.
        callee: FunctionId,
        /// The link register.
        link: Reg,
        /// The value that the link register gets.
        return_pc: GuestAddr,
        /// The block to continue at.
        to: BlockId,
    },
    /// Jumps to another function, which returns to this one's caller.
    TailCall(FunctionId),
    /// Calls the address that the last instruction computes, through `ra`.
    IndirectCall {
        /// The value that `ra` gets.
        return_pc: GuestAddr,
        /// The block to continue at.
        to: BlockId,
    },
    /// Jumps to the address that the last instruction computes.
    IndirectJump {
        /// Possible target blocks of this function. Jumps with the same targets share the list.
        candidates: Arc<[BlockId]>,
        /// Whether the jump reads its address from a table that lists only these.
        is_table: bool,
    },
    /// Jumps to the address in the link register: to the caller, or to a block after a local computed call.
    Return {
        /// Blocks after local computed calls. All returns of a function share the list.
        locals: Arc<[BlockId]>,
    },
    /// Makes a syscall, then continues.
    Ecall(BlockId),
    /// Makes the exit syscall, `a7` = 93, which ends the script.
    Exit,
    /// Leaves native code: ckb-vm finds no instruction here, or native code cannot continue, as after an
    /// `ebreak` that ends a function.
    Leave,
}

/// Recovers the blocks and functions of `image`, with the help of `hints`.
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
    let Round { mut drafts, exposed, .. } = recovery.now;
    if hints.distrust_tables() {
        drafts.values_mut().for_each(|draft| draft.tables.clear());
    }
    let constants = drafts.values().flat_map(|draft| &draft.constants);
    let function_tables = function_tables(image, constants, &exposed);
    Ok(Program {
        options: image.options,
        hints: hints.clone(),
        entry: image.entry,
        code_start: image.executable.first().map_or(0, |range| range.0),
        code_end: image.executable.last().map_or(0, |range| range.1),
        writable: image.writable_range(),
        code: image.code(),
        is_loaded_code: image.is_loaded_code,
        functions: assemble(image, &mut decoder, &drafts, &exposed),
        function_tables,
    })
}

/// Maximum rounds over the whole program to find new starts. A later start only turns jumps into tail calls.
const ROUNDS_MAX: usize = 6;

/// Maximum average copies of a block before recovery drops guesses.
const COPIES_MAX: u64 = 4;

/// Additional instructions that all functions together may have, beyond one for each byte of code. Guesses
/// may overlap: pointers into the same straight-line code each repeat the rest of it.
const SPARE_INSTRUCTIONS: u64 = 1 << 16;

struct Recovery<'a> {
    image: &'a Image,
    limits: CompileLimits,
    surroundings: Surroundings,
    pointers: Vec<u64>,
    starts: BTreeSet<u64>,
    /// Observed targets of indirect calls.
    called: Vec<u64>,
    /// Observed jump targets that are not inside a function.
    entered: BTreeSet<u64>,
    /// Instructions beyond which recovery ignores guesses.
    instructions_max: u64,
    now: Round,
}

/// The findings of one round over the whole program.
#[derive(Default)]
struct Round {
    exposed: BTreeSet<u64>,
    drafts: BTreeMap<Key, FunctionDraft>,
    queue: VecDeque<Key>,
    /// Guessed targets of indirect calls.
    guesses: VecDeque<Key>,
    queued: BTreeSet<Key>,
    /// Instructions in the middle of known functions.
    insides: HashSet<u64>,
    blocks: u64,
    instructions: u64,
    /// Whether guesses were ignored.
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
            called,
            entered: BTreeSet::new(),
            instructions_max: image.executable.iter().map(|range| range.1 - range.0).sum::<u64>()
                + SPARE_INSTRUCTIONS,
            now: Round::default(),
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
                // Labels classified as functions may cause the excess.
                Err(ProgramError::Blocks { .. }) if self.drop_labels() => continue,
                other => other?,
            }
            if self.starts.len() == starts && !self.drop_labels() {
                break;
            }
        }
        Ok(self)
    }

    /// Drops guesses if there are far more blocks than block starts. A label of a computed jump in data is
    /// not a function: as one it would repeat the code of the function around it. Returns whether it dropped
    /// any.
    fn drop_labels(&mut self) -> bool {
        let places: BTreeSet<u64> =
            self.now.drafts.values().flat_map(|draft| &draft.leaders).copied().collect();
        if self.now.blocks <= COPIES_MAX * places.len() as u64 && !self.now.is_exhausted {
            return false;
        }
        let labels = |(key, draft): (&Key, &FunctionDraft)| -> Vec<u64> {
            draft.candidates.iter().copied().filter(|candidate| *candidate != key.0).collect()
        };
        let labels: BTreeSet<u64> = self.now.drafts.iter().flat_map(labels).collect();
        let before = self.pointers.len() + self.entered.len();
        self.pointers.retain(|pointer| self.starts.contains(pointer) || !labels.contains(pointer));
        self.entered.retain(|entered| !labels.contains(entered));
        self.pointers.len() + self.entered.len() < before
    }

    fn round(&mut self, decoder: &mut Decoder) -> Result<(), ProgramError> {
        self.now = Round::default();
        let entry = self.image.entry.0;
        if self.starts.contains(&entry) {
            self.now.exposed.insert(entry);
            self.enqueue((entry, Reg::RA))?;
        }
        for address in self.called.clone().into_iter().chain(self.entered.clone()) {
            self.now.exposed.insert(address);
            self.enqueue((address, Reg::RA))?;
        }
        for pointer in self.pointers.clone() {
            self.expose(pointer)?;
        }
        self.explore_all(decoder)?;
        // An observed target that is no candidate of a known jump is an entry of its own.
        let is_candidate =
            |target: &u64| self.now.drafts.values().any(|draft| draft.candidates.contains(target));
        let jumped = self.surroundings.jumped.iter().copied();
        let missing: Vec<u64> = jumped.filter(|target| !is_candidate(target)).collect();
        for target in missing {
            self.entered.insert(target);
            self.now.exposed.insert(target);
            self.enqueue((target, Reg::RA))?;
        }
        self.explore_all(decoder)
    }

    fn explore_all(&mut self, decoder: &mut Decoder) -> Result<(), ProgramError> {
        // Known functions come first, because they disprove wrong guesses.
        while let Some(key) = self.now.queue.pop_front().or_else(|| self.now.guesses.pop_front()) {
            if self.now.instructions > self.instructions_max && !self.starts.contains(&key.0) {
                self.now.is_exhausted = true;
                self.now.exposed.remove(&key.0);
                continue;
            }
            let draft = explore(self.image, decoder, &self.starts, &self.surroundings, key);
            self.take(key, draft)?;
        }
        Ok(())
    }

    /// Treats `address` as callable, unless it is a label in a named function or the ELF marks it as a
    /// constant.
    fn expose(&mut self, address: u64) -> Result<(), ProgramError> {
        let is_known = self.starts.contains(&address);
        if !is_known && (self.image.is_inside_named(address) || self.image.is_constant(address)) {
            return Ok(());
        }
        self.now.exposed.insert(address);
        self.enqueue((address, Reg::RA))
    }

    fn is_guess(&self, address: u64) -> bool {
        !self.starts.contains(&address) && !self.entered.contains(&address)
    }

    fn enqueue(&mut self, key: Key) -> Result<(), ProgramError> {
        if !self.image.is_executable(key.0) || !self.now.queued.insert(key) {
            return Ok(());
        }
        if self.now.queued.len() as u64 > self.limits.functions_max {
            return Err(ProgramError::Functions { max: self.limits.functions_max, at: GuestAddr(key.0) });
        }
        let is_guess = self.is_guess(key.0);
        let queue = if is_guess { &mut self.now.guesses } else { &mut self.now.queue };
        queue.push_back(key);
        Ok(())
    }

    /// Whether a guess calls nothing in the middle of known functions. Constants read as code often do.
    /// Addresses after a call do not count as such, since the call may never return.
    fn is_disjoint(&self, draft: &FunctionDraft) -> bool {
        let calls = draft.calls.iter().filter(|callee| callee.1 == Reg::RA).map(|callee| callee.0);
        let mut targets = calls.chain(draft.tails.iter().copied());
        targets.all(|target| self.starts.contains(&target) || !self.now.insides.contains(&target))
    }

    /// Stores a draft and enqueues its callees. Drops a guess that turns out not to be code.
    fn take(&mut self, key: Key, draft: FunctionDraft) -> Result<(), ProgramError> {
        let is_guess = self.is_guess(key.0);
        if is_guess && !(draft.is_clean() && self.is_disjoint(&draft)) {
            self.now.exposed.remove(&key.0);
            return Ok(());
        }
        if !is_guess {
            self.now.insides.extend(draft.insides());
        }
        self.now.instructions += draft.walked.len() as u64;
        self.now.blocks += draft.leaders.len() as u64;
        if self.now.blocks > self.limits.blocks_max {
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
        self.now.drafts.insert(key, draft);
        Ok(())
    }
}

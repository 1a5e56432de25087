//! A profile with its addresses named.

use std::collections::HashMap;

use antares_abi::{CompileLimits, Sha256Digest};
use antares_profile::{Frame, NodeId, Profile, ProfiledProgram, ProgramId, Value};
use antares_program::{Image, read};

use crate::{Line, Location, Symbols};

/// The ELFs of a profile's programs, as far as available.
#[derive(Debug, Default)]
pub struct Programs(HashMap<Sha256Digest, Vec<u8>>);

impl Programs {
    /// Adds a program.
    pub fn add(&mut self, elf: &[u8]) {
        self.0.entry(Sha256Digest::of(elf)).or_insert_with(|| elf.to_vec());
    }

    /// The ELF with this digest.
    #[must_use]
    pub fn elf(&self, digest: &Sha256Digest) -> Option<&[u8]> {
        self.0.get(digest).map(Vec::as_slice)
    }

    fn symbols(&self, program: &ProfiledProgram) -> Symbols {
        let elf = program.elf.as_ref().and_then(|digest| self.elf(digest)).unwrap_or_default();
        Symbols::of(elf, program.options())
    }

    /// The memory of a program as loaded, if its ELF is available and valid.
    #[must_use]
    pub fn image(&self, program: &ProfiledProgram) -> Option<Image> {
        read(self.elf(&program.elf?)?, program.options(), &CompileLimits::DEFAULT).ok()
    }
}

/// Index of a function in [`View::functions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionId(pub u32);

/// A function, or a pseudo-function of a stack.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Function {
    /// Its name: `mpi_mul_hlp`, `fn_0x11000`, `[syscall debug]`.
    pub name: String,
    /// Its source file; empty if unknown.
    pub file: String,
}

/// A stack of functions and its own cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeNode {
    /// The stack below, with a smaller index; `None` for the first function.
    pub parent: Option<usize>,
    /// The function on top.
    pub function: FunctionId,
    /// Its own cost, without the functions on top of it.
    pub own: Value,
}

/// A profile with its addresses named.
pub struct View<'a> {
    profile: &'a Profile,
    programs: &'a Programs,
    symbols: Vec<Symbols>,
    functions: Vec<Function>,
    /// The functions of each node, the outermost one first, each with its line.
    named: Vec<Vec<(FunctionId, Option<Line>)>>,
    tree: Vec<TreeNode>,
    /// The tree index of each node.
    places: Vec<usize>,
}

impl<'a> View<'a> {
    /// Names the addresses of `profile`, with the ELFs in `programs`.
    #[must_use]
    pub fn new(profile: &'a Profile, programs: &'a Programs) -> Self {
        let symbols = profile.programs().iter().map(|program| programs.symbols(program)).collect();
        let mut view = Self {
            profile,
            programs,
            symbols,
            functions: Vec::new(),
            named: Vec::new(),
            tree: Vec::new(),
            places: Vec::new(),
        };
        view.name_nodes();
        view.grow_tree();
        view
    }

    /// The profile.
    #[must_use]
    pub fn profile(&self) -> &'a Profile {
        self.profile
    }

    /// Its programs.
    #[must_use]
    pub fn programs(&self) -> &'a Programs {
        self.programs
    }

    /// Symbols of a program of the profile, by index.
    #[must_use]
    pub fn symbols(&self, program: u32) -> Option<&Symbols> {
        self.symbols.get(program as usize)
    }

    /// All functions.
    #[must_use]
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// The function with this id.
    #[must_use]
    pub fn function(&self, id: FunctionId) -> &Function {
        &self.functions[id.0 as usize]
    }

    /// The stacks of functions, each after its parent.
    #[must_use]
    pub fn tree(&self) -> &[TreeNode] {
        &self.tree
    }

    /// The functions of a node, the outermost one first, with their lines: all but the first are inlined.
    #[must_use]
    pub fn named(&self, node: NodeId) -> &[(FunctionId, Option<Line>)] {
        self.named.get(node.0 as usize).map_or(&[], Vec::as_slice)
    }

    /// The nodes with own cost, each with that cost, in the profile's order.
    pub(crate) fn stacks(&self) -> impl Iterator<Item = (NodeId, Value)> {
        let nodes = self.profile.nodes().iter().zip(0..);
        let spent = nodes.filter(|(node, _)| !node.value.is_zero());
        spent.map(|(node, id)| (NodeId(id), node.value))
    }

    /// The functions of the stack that ends at an index of [`View::tree`], outermost first.
    #[must_use]
    pub fn path(&self, place: usize) -> Vec<FunctionId> {
        let mut path = Vec::new();
        let mut next = self.tree.get(place);
        while let Some(node) = next {
            path.push(node.function);
            next = node.parent.map(|parent| &self.tree[parent]);
        }
        path.reverse();
        path
    }

    /// Total cost of each node of [`View::tree`], including the nodes on top of it.
    #[must_use]
    pub fn totals(&self) -> Vec<Value> {
        let mut totals: Vec<Value> = self.tree.iter().map(|node| node.own).collect();
        for index in (0..self.tree.len()).rev() {
            if let Some(parent) = self.tree[index].parent {
                totals[parent] = totals[parent].plus(totals[index]);
            }
        }
        totals
    }

    fn name_nodes(&mut self) {
        let mut ids: HashMap<Function, FunctionId> = HashMap::new();
        let mut known: HashMap<Frame, Vec<(FunctionId, Option<Line>)>> = HashMap::new();
        for node in self.profile.nodes() {
            if let Some(names) = known.get(&node.frame) {
                self.named.push(names.clone());
                continue;
            }
            let mut names = Vec::new();
            let home = self.home(node.frame);
            for location in self.locate(node.frame).into_iter().rev() {
                let file = match location.is_inlined {
                    true => location.line.as_ref().map(|line| line.file.clone()).unwrap_or_default(),
                    false => home.clone(),
                };
                let function = Function { name: location.function, file };
                let id = *ids.entry(function.clone()).or_insert_with(|| {
                    self.functions.push(function);
                    FunctionId(u32::try_from(self.functions.len() - 1).unwrap_or(u32::MAX))
                });
                names.push((id, location.line));
            }
            known.insert(node.frame, names.clone());
            self.named.push(names);
        }
    }

    fn locate(&self, frame: Frame) -> Vec<Location> {
        let special = |name: String| vec![Location { function: name, line: None, is_inlined: false }];
        match frame {
            Frame::Code { program, pc } => match self.symbols.get(program.0 as usize) {
                Some(symbols) => symbols.locate(pc),
                None => special(format!("fn_{pc:#x}")),
            },
            frame => special(frame.to_string()),
        }
    }

    /// The file of the non-inlined function that contains `frame`.
    fn home(&self, frame: Frame) -> String {
        let home = |(program, pc): (ProgramId, u64)| Some(self.symbols.get(program.0 as usize)?.home(pc));
        frame.code().and_then(home).unwrap_or_default()
    }

    fn grow_tree(&mut self) {
        let mut children: HashMap<(Option<usize>, FunctionId), usize> = HashMap::new();
        for (node, names) in self.profile.nodes().iter().zip(&self.named) {
            let mut place = node.parent.map(|parent| self.places[parent.0 as usize]);
            for (function, _) in names {
                place = Some(*children.entry((place, *function)).or_insert_with(|| {
                    self.tree.push(TreeNode { parent: place, function: *function, own: Value::default() });
                    self.tree.len() - 1
                }));
            }
            // Every node has a name.
            let place = place.unwrap_or_default();
            self.places.push(place);
            if let Some(own) = self.tree.get_mut(place) {
                own.own = own.own.plus(node.value);
            }
        }
    }
}

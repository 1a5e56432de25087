//! Text forms of [`Image`] and [`Program`], for people and for tests.

use std::fmt;

use crate::{Block, BlockId, Function, FunctionId, Image, Program, Terminator};

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "image version {} isa {}", self.options.vm_version, self.options.isa)?;
        writeln!(f, "entry {}", self.entry)?;
        for (start, end) in &self.segments {
            writeln!(f, "segment {start:#x}..{end:#x}")?;
        }
        for (start, end) in &self.executable {
            writeln!(f, "executable {start:#x}..{end:#x}")?;
        }
        let (start, end) = self.writable_range();
        writeln!(f, "stores {start:#x}..{end:#x}")?;
        self.symbols.iter().try_for_each(|symbol| writeln!(f, "symbol {} {:?}", symbol.address, symbol.name))
    }
}

impl fmt::Display for FunctionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fn{}", self.0)
    }
}

impl fmt::Display for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block{}", self.0)
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "program version {} isa {}", self.options.vm_version, self.options.isa)?;
        writeln!(f, "entry {} code {:#x}..{:#x}", self.entry, self.code_start, self.code_end)?;
        for (address, is_called) in self.hints.targets() {
            match (address, is_called) {
                (0, true) => writeln!(f, "hint: jumps go past their tables")?,
                (_, true) => writeln!(f, "hint: {address:#x} was called")?,
                (_, false) => writeln!(f, "hint: {address:#x} was jumped to")?,
            }
        }
        let blocks = self.functions.iter().flat_map(|function| &function.blocks);
        let instructions = blocks.flat_map(|block| &block.instructions);
        match instructions.filter(|(_, instruction)| instruction.is_atomic()).count() {
            0 => {}
            count => {
                writeln!(f, "atomics: {count}, at each of which native code is left: there is none for them")?
            }
        }
        self.functions.iter().try_for_each(|function| write!(f, "\n{function}"))
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "function {} at {} link {}", self.id, self.entry, self.link)?;
        if self.is_exposed {
            f.write_str(" exposed")?;
        }
        if let Some(name) = &self.name {
            write!(f, " named {name:?}")?;
        }
        writeln!(f)?;
        for (index, block) in self.blocks.iter().enumerate() {
            write!(f, "block{index} at {}:\n{block}", block.pc)?;
        }
        Ok(())
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (pc, instruction) in &self.instructions {
            writeln!(f, "    {pc}: {instruction}")?;
        }
        writeln!(f, "    -> {}", self.terminator)
    }
}

impl fmt::Display for Terminator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Jump(to) => write!(f, "jump {to}"),
            Self::Branch { taken, otherwise } => write!(f, "branch {taken} else {otherwise}"),
            Self::Call { callee, link, return_pc, to } => {
                write!(f, "call {callee}, {link} = {return_pc}, then {to}")
            }
            Self::TailCall(callee) => write!(f, "tail call {callee}"),
            Self::IndirectCall { return_pc, to } => write!(f, "call indirect, ra = {return_pc}, then {to}"),
            Self::IndirectJump { candidates, is_table } => {
                write!(f, "jump {} {}", if *is_table { "table" } else { "indirect" }, list(candidates))
            }
            Self::Return { locals } if locals.is_empty() => f.write_str("return"),
            Self::Return { locals } => write!(f, "return or {}", list(locals)),
            Self::Ecall(to) => write!(f, "ecall, then {to}"),
            Self::Exit => f.write_str("exit"),
            Self::Leave => f.write_str("leave"),
        }
    }
}

fn list(blocks: &[BlockId]) -> String {
    let items: Vec<String> = blocks.iter().map(ToString::to_string).collect();
    format!("[{}]", items.join(" "))
}

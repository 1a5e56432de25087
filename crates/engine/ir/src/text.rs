//! The text form of the IR.

use std::fmt;

use antares_program::{BlockId, GuestAddr, Reg};

use crate::{
    Access, Block, Charge, Function, JumpTable, Module, Op, Returns, SpAfter, Terminator, Value, Width,
};

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

impl Width {
    /// Name in the text form.
    #[must_use]
    pub fn suffix(self) -> &'static str {
        ["b", "h", "w", "d"][self as usize]
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Read { "read" } else { "write" })
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Const(number) => write!(f, "const {number:#x}"),
            Self::Read(register) => write!(f, "read {register}"),
            Self::Binary(op, a, b) => write!(f, "{} {a}, {b}", op.name()),
            Self::Unary(op, a) => write!(f, "{} {a}", op.name()),
            Self::Load { width, is_signed, base, offset } => {
                write!(f, "load.{}{} {base}{offset:+}", width.suffix(), if *is_signed { "" } else { "u" })
            }
            Self::Store { width, base, offset, value } => {
                write!(f, "store.{} {base}{offset:+}, {value}", width.suffix())
            }
            Self::Check { access, base, low, high } => write!(f, "check.{access} {base}{low:+}..{high:+}"),
            Self::Proved { access, base, low, high } => write!(f, "proved.{access} {base}{low:+}..{high:+}"),
            Self::CyclesLeft => f.write_str("cycles.left"),
            Self::Charge(cycles) => write!(f, "charge {cycles}"),
        }
    }
}

fn blocks(blocks: &[(GuestAddr, BlockId)]) -> String {
    let items: Vec<String> = blocks.iter().map(|(pc, id)| format!("{pc}: {id}")).collect();
    format!("[{}]", items.join(", "))
}

fn if_link(link: Option<Value>) -> String {
    link.map_or_else(String::new, |value| format!(" if {value} is the return address"))
}

impl fmt::Display for Terminator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Jump(to) => write!(f, "jump {to}"),
            Self::Branch { condition, taken, otherwise } => {
                write!(f, "branch {condition}, {taken}, {otherwise}")
            }
            Self::Call { callee, to } => write!(f, "call {callee}, then {to}"),
            Self::TailCall { callee, link } => write!(f, "tail.call {callee}{}", if_link(*link)),
            Self::CallIndirect { target, live, to } => {
                write!(f, "call.indirect {target}, then {to} with {live}")
            }
            Self::JumpIndirect { target, candidates, may_call, link, table } => {
                let call = if *may_call && !candidates.is_empty() { " or tail.call" } else { "" };
                write!(f, "jump.indirect {target}, {}{call}{}", blocks(candidates), if_link(*link))?;
                let Some(JumpTable { register, base, start, width, entries }) = table else { return Ok(()) };
                let entries: Vec<_> = entries.iter().map(usize::to_string).collect();
                write!(f, " by {base} in {start:#x}: {} times {} bytes", entries.join(" "), width.bytes())?;
                register.map_or(Ok(()), |(value, number)| write!(f, " if {value} is {number:#x}"))
            }
            Self::Return { link, locals } if locals.is_empty() => write!(f, "return{}", if_link(*link)),
            Self::Return { link, locals } => write!(f, "return{} else {}", if_link(*link), blocks(locals)),
            Self::Ecall { pc, uses, to } => write!(f, "ecall at {pc} {uses}, then {to}"),
            Self::Exit { pc } => write!(f, "exit at {pc}"),
            Self::Leave => f.write_str("leave"),
        }
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, op) in self.ops.iter().enumerate() {
            match op.has_value() {
                true => writeln!(f, "    v{index} = {op}")?,
                false => writeln!(f, "    {op}")?,
            }
        }
        for (register, value) in &self.writes {
            writeln!(f, "    {register} = {value}")?;
        }
        writeln!(f, "    {}", self.terminator)
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, entry, params, results, .. } = self;
        write!(f, "function {id} at {entry} {params} -> {results}")?;
        if self.link != Reg::RA {
            write!(f, " linked through {}", self.link)?;
        }
        if self.is_exposed {
            f.write_str(" exposed")?;
        }
        if self.is_resumable {
            f.write_str(" resumable")?;
        }
        if let Some(low) = self.frame_low {
            write!(f, " frame {low}")?;
        }
        f.write_str(match self.sp_after {
            SpAfter::Same => "",
            SpAfter::Compared => " sp compared",
            SpAfter::Moved => " sp moved",
        })?;
        f.write_str(match self.returns {
            Returns::Once => "",
            Returns::Again => " returns again",
            Returns::Far => " returns far",
        })?;
        writeln!(f)?;
        self.loops.iter().try_for_each(|versioned| write!(f, "{versioned}"))?;
        for (index, block) in self.blocks.iter().enumerate() {
            let metered = if block.is_metered { " metered" } else { "" };
            let bounded = if block.is_bounded { " bounded" } else { "" };
            let charge = match block.charge {
                Charge::Entered => String::new(),
                Charge::Moved(cycles) => format!(" charged {cycles}"),
                Charge::Deferred => " deferred".to_owned(),
                Charge::OfDeferred { callee, call } => format!(" of deferred by {callee} called at {call}"),
            };
            writeln!(f, "block{index} at {} cycles {}{charge}{metered}{bounded}:", block.pc, block.cycles)?;
            write!(f, "{block}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "module version {} isa {}", self.options.vm_version, self.options.isa)?;
        writeln!(f, "code {:#x}..{:#x}", self.code_start, self.code_end)?;
        writeln!(f, "stores {:#x}..{:#x}", self.writable.0, self.writable.1)?;
        writeln!(f, "indirect {} changes {}", self.indirect_params, self.indirect_changes)?;
        if self.is_open {
            writeln!(f, "open")?;
        }
        if self.keeps_stores {
            writeln!(f, "keeps stores")?;
        }
        self.functions.iter().try_for_each(|function| write!(f, "\n{function}"))
    }
}

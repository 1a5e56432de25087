//! Parses the text form of the IR: [`module`] returns the module that was printed.

use std::str::FromStr;

use antares_abi::CompileOptions;
use antares_ir::{
    Access, BinaryOp, Block, Charge, Function, JumpTable, LinearSum, LoopSpan, Module, Op, Returns, SpAfter,
    Terminator, UnaryOp, Value, VersionedLoop, Width,
};
use antares_program::{BlockId, FunctionId, GuestAddr, Reg, RegSet};

/// A syntax error in a module's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: expected {expected} at {rest:?}")]
pub struct ParseError {
    /// Line number, from 1.
    pub line: usize,
    /// The expected syntax.
    pub expected: &'static str,
    /// The rest of the line.
    pub rest: String,
}

/// Parses a module.
///
/// # Errors
/// The first syntax error.
pub fn module(text: &str) -> Result<Module, ParseError> {
    Lines::of(text).module()
}

/// The remaining lines, without indents and empty lines.
struct Lines<'a> {
    left: std::iter::Peekable<std::vec::IntoIter<(usize, &'a str)>>,
    last: usize,
}

impl<'a> Lines<'a> {
    fn of(text: &'a str) -> Self {
        let lines: Vec<_> =
            (1..).zip(text.lines().map(str::trim)).filter(|(_, line)| !line.is_empty()).collect();
        let last = lines.last().map_or(0, |(line, _)| *line);
        Self { left: lines.into_iter().peekable(), last }
    }

    fn next(&mut self, expected: &'static str) -> Result<Words<'a>, ParseError> {
        let (line, rest) =
            self.left.next().ok_or(ParseError { line: self.last, expected, rest: String::new() })?;
        Ok(Words { line, rest })
    }

    /// Takes the next line if it begins with `start`, and returns the rest.
    fn next_after(&mut self, start: &str) -> Option<Words<'a>> {
        let (line, rest) = self.left.next_if(|(_, line)| line.starts_with(start))?;
        Some(Words { line, rest: &rest[start.len()..] })
    }

    fn module(&mut self) -> Result<Module, ParseError> {
        let mut words = self.next("module")?;
        let vm_version = words.after("module version ", Words::number)?;
        words.expect(" isa ")?;
        let isa = words.rest.parse().map_err(|_| words.error("an ISA"))?;
        let (code_start, code_end) = self.bounds("code ")?;
        let writable = self.bounds("stores ")?;
        let mut words = self.next("indirect")?;
        let indirect_params = words.after("indirect ", Words::set)?;
        let indirect_changes = words.after(" changes ", Words::set)?;
        let mut module = Module {
            options: CompileOptions { vm_version, isa },
            code_start,
            code_end,
            writable,
            is_open: false,
            keeps_stores: false,
            indirect_params,
            indirect_changes,
            functions: Vec::new(),
        };
        words.end()?;
        module.is_open = self.next_after("open").is_some();
        module.keeps_stores = self.next_after("keeps stores").is_some();
        while let Some(words) = self.next_after("function ") {
            module.functions.push(self.function(words)?);
        }
        match self.left.next() {
            Some((line, rest)) => Err(Words { line, rest }.error("a function")),
            None => Ok(module),
        }
    }

    fn bounds(&mut self, start: &'static str) -> Result<(u64, u64), ParseError> {
        let mut words = self.next(start)?;
        words.expect(start)?;
        let low = words.hex()?;
        let high = words.after("..", Words::hex)?;
        words.end()?;
        Ok((low, high))
    }

    fn function(&mut self, mut words: Words) -> Result<Function, ParseError> {
        let id = words.function()?;
        let entry = words.after(" at ", Words::address)?;
        let params = words.after(" ", Words::set)?;
        let results = words.after(" -> ", Words::set)?;
        let link = if words.eat(" linked through ") { words.register()? } else { Reg::RA };
        let (is_exposed, is_resumable) = (words.eat(" exposed"), words.eat(" resumable"));
        let frame_low = if words.eat(" frame ") { Some(words.signed()?) } else { None };
        let sp_after = match (words.eat(" sp compared"), words.eat(" sp moved")) {
            (true, _) => SpAfter::Compared,
            (_, true) => SpAfter::Moved,
            _ => SpAfter::Same,
        };
        let returns = match (words.eat(" returns again"), words.eat(" returns far")) {
            (true, _) => Returns::Again,
            (_, true) => Returns::Far,
            _ => Returns::Once,
        };
        words.end()?;
        let mut loops = Vec::new();
        while let Some(words) = self.next_after("loop ") {
            loops.push(self.versioned(words)?);
        }
        let mut blocks = Vec::new();
        while let Some(words) = self.next_after("block") {
            blocks.push(self.block(words, blocks.len())?);
        }
        Ok(Function {
            id,
            entry,
            link,
            is_exposed,
            is_resumable,
            params,
            results,
            frame_low,
            sp_after,
            returns,
            blocks,
            loops,
        })
    }

    fn versioned(&mut self, mut words: Words) -> Result<VersionedLoop, ParseError> {
        let header = words.block()?;
        let blocks = words.after(" blocks ", Words::number)?;
        let guard = words.after(" guard ", Words::block)?;
        let last = words.after(" last ", Words::value)?;
        words.end()?;
        let mut words = self.next("an exit")?;
        let exit = words.after("exit ", Words::block)?;
        let counter = words.after(" counter ", Words::sum)?;
        let step = words.after(" step ", Words::signed)?;
        let end = words.after(" end ", Words::sum)?;
        words.end()?;
        let mut spans = Vec::new();
        while let Some(mut words) = self.next_after("span.") {
            let access = words.access()?;
            let start = words.sum()?;
            let step = words.after(" step ", Words::signed)?;
            spans.push(LoopSpan { access, start, step, bytes: words.after(" bytes ", Words::signed)? });
            words.end()?;
        }
        Ok(VersionedLoop { guard, header, blocks, exit, counter, step, end, last, spans })
    }

    /// Parses the block with this index.
    fn block(&mut self, mut words: Words, index: usize) -> Result<Block, ParseError> {
        if words.number::<usize>()? != index {
            return Err(words.error("blocks in order"));
        }
        let pc = words.after(" at ", Words::address)?;
        let cycles = words.after(" cycles ", Words::number)?;
        let charge = words.charge()?;
        let (is_metered, is_bounded) = (words.eat(" metered"), words.eat(" bounded"));
        words.expect(":")?;
        words.end()?;
        let (mut ops, mut writes) = (Vec::new(), Vec::new());
        loop {
            let mut words = self.next("a terminator")?;
            if let Some(terminator) = words.terminator()? {
                words.end()?;
                return Ok(Block { pc, cycles, charge, is_metered, is_bounded, ops, writes, terminator });
            }
            if let Some(op) = words.effect()? {
                ops.push(op);
            } else if words.eat("v") {
                if words.number::<usize>()? != ops.len() {
                    return Err(words.error("values in order"));
                }
                ops.push(words.after(" = ", Words::op)?);
            } else {
                writes.push((words.register()?, words.after(" = ", Words::value)?));
            }
            words.end()?;
        }
    }
}

/// The rest of a line.
struct Words<'a> {
    line: usize,
    rest: &'a str,
}

impl Words<'_> {
    fn error(&self, expected: &'static str) -> ParseError {
        ParseError { line: self.line, expected, rest: self.rest.to_owned() }
    }

    fn eat(&mut self, word: &str) -> bool {
        let rest = self.rest.strip_prefix(word);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, word: &'static str) -> Result<(), ParseError> {
        if self.eat(word) { Ok(()) } else { Err(self.error(word)) }
    }

    /// Expects `word`, then parses with `read`.
    fn after<T>(
        &mut self,
        word: &'static str,
        read: impl FnOnce(&mut Self) -> Result<T, ParseError>,
    ) -> Result<T, ParseError> {
        self.expect(word)?;
        read(self)
    }

    fn end(&self) -> Result<(), ParseError> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.error("the end of the line")) }
    }

    /// Takes the longest prefix of characters that satisfy `belongs`, which `read` must accept.
    fn token<T>(
        &mut self,
        expected: &'static str,
        belongs: impl Fn(char) -> bool,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<T, ParseError> {
        let end = self.rest.find(|c| !belongs(c)).unwrap_or(self.rest.len());
        let value = read(&self.rest[..end]).ok_or_else(|| self.error(expected))?;
        self.rest = &self.rest[end..];
        Ok(value)
    }

    fn number<T: FromStr>(&mut self) -> Result<T, ParseError> {
        self.token("a number", |c| c.is_ascii_digit(), |word| word.parse().ok())
    }

    /// Parses a number, with a sign if it is negative.
    fn signed(&mut self) -> Result<i64, ParseError> {
        let sign = if self.eat("-") { "-" } else { "" };
        self.token("a number", |c| c.is_ascii_digit(), |word| format!("{sign}{word}").parse().ok())
    }

    /// Parses a number with a sign.
    fn offset(&mut self) -> Result<i64, ParseError> {
        if self.eat("+") || self.rest.starts_with('-') { self.signed() } else { Err(self.error("a sign")) }
    }

    fn hex(&mut self) -> Result<u64, ParseError> {
        self.expect("0x")?;
        self.token("digits", |c| c.is_ascii_hexdigit(), |word| u64::from_str_radix(word, 16).ok())
    }

    fn address(&mut self) -> Result<GuestAddr, ParseError> {
        self.hex().map(GuestAddr)
    }

    fn value(&mut self) -> Result<Value, ParseError> {
        self.after("v", Words::number).map(Value)
    }

    fn function(&mut self) -> Result<FunctionId, ParseError> {
        self.after("fn", Words::number).map(FunctionId)
    }

    fn block(&mut self) -> Result<BlockId, ParseError> {
        self.after("block", Words::number).map(BlockId)
    }

    fn register(&mut self) -> Result<Reg, ParseError> {
        let register = |word: &str| (0..32).map(Reg).find(|register| register.to_string() == word);
        self.token("a register", |c| c.is_ascii_alphanumeric(), register)
    }

    fn set(&mut self) -> Result<RegSet, ParseError> {
        self.expect("{")?;
        let mut set = RegSet::EMPTY;
        while !self.eat("}") {
            set = set.with(self.register()?);
            self.eat(" ");
        }
        Ok(set)
    }

    fn blocks(&mut self) -> Result<Vec<(GuestAddr, BlockId)>, ParseError> {
        self.expect("[")?;
        let mut blocks = Vec::new();
        while !self.eat("]") {
            blocks.push((self.address()?, self.after(": ", Words::block)?));
            self.eat(", ");
        }
        Ok(blocks)
    }

    fn link(&mut self) -> Result<Option<Value>, ParseError> {
        if !self.eat(" if ") {
            return Ok(None);
        }
        let value = self.value()?;
        self.expect(" is the return address")?;
        Ok(Some(value))
    }

    fn charge(&mut self) -> Result<Charge, ParseError> {
        if self.eat(" charged ") {
            return self.number().map(Charge::Moved);
        }
        if self.eat(" deferred") {
            return Ok(Charge::Deferred);
        }
        if !self.eat(" of deferred by ") {
            return Ok(Charge::Entered);
        }
        Ok(Charge::OfDeferred { callee: self.function()?, call: self.after(" called at ", Words::address)? })
    }

    fn width(&mut self) -> Result<Width, ParseError> {
        let width = |word: &str| Width::ALL.into_iter().find(|width| width.suffix() == word);
        self.token("a width", |c| "bhwd".contains(c), width)
    }

    /// Parses a sum of registers with factors, followed by a number.
    fn sum(&mut self) -> Result<LinearSum, ParseError> {
        let mut sum = LinearSum::default();
        loop {
            let number = self.signed()?;
            if !self.eat("*") {
                return Ok(LinearSum { offset: number, ..sum });
            }
            sum.terms.push((self.register()?, number));
            self.expect(" + ")?;
        }
    }

    fn access(&mut self) -> Result<Access, ParseError> {
        if self.eat("read ") {
            return Ok(Access::Read);
        }
        self.expect("write ").map(|()| Access::Write)
    }

    /// Parses a `check` or `proved`.
    fn range(&mut self, make: impl Fn(Access, Value, i64, i64) -> Op) -> Result<Op, ParseError> {
        let access = self.access()?;
        Ok(make(access, self.value()?, self.offset()?, self.after("..", Words::offset)?))
    }

    /// Parses an operation that produces no value, if it is one.
    fn effect(&mut self) -> Result<Option<Op>, ParseError> {
        let op = if self.eat("store.") {
            let (width, base) = (self.width()?, self.after(" ", Words::value)?);
            Op::Store { width, base, offset: self.offset()?, value: self.after(", ", Words::value)? }
        } else if self.eat("check.") {
            self.range(|access, base, low, high| Op::Check { access, base, low, high })?
        } else if self.eat("proved.") {
            self.range(|access, base, low, high| Op::Proved { access, base, low, high })?
        } else if self.eat("charge ") {
            Op::Charge(self.value()?)
        } else {
            return Ok(None);
        };
        Ok(Some(op))
    }

    /// Parses an operation that produces a value.
    fn op(&mut self) -> Result<Op, ParseError> {
        if self.eat("const ") {
            return Ok(Op::Const(self.hex()?.cast_signed()));
        } else if self.eat("read ") {
            return self.register().map(Op::Read);
        } else if self.eat("cycles.left") {
            return Ok(Op::CyclesLeft);
        } else if self.eat("load.") {
            let width = self.width()?;
            let is_signed = !self.eat("u");
            let base = self.after(" ", Words::value)?;
            return Ok(Op::Load { width, is_signed, base, offset: self.offset()? });
        }
        let (name, rest) = self.rest.split_once(' ').ok_or_else(|| self.error("an operation"))?;
        if let Some(op) = UnaryOp::ALL.iter().find(|op| op.name() == name) {
            self.rest = rest;
            return Ok(Op::Unary(*op, self.value()?));
        }
        let op = BinaryOp::ALL.iter().copied().find(|op| op.name() == name);
        let op = op.ok_or_else(|| self.error("an operation"))?;
        self.rest = rest;
        Ok(Op::Binary(op, self.value()?, self.after(", ", Words::value)?))
    }

    /// Parses a terminator, if it is one.
    fn terminator(&mut self) -> Result<Option<Terminator>, ParseError> {
        let terminator = if self.eat("jump.indirect ") {
            self.jump_indirect()?
        } else if self.eat("jump ") {
            Terminator::Jump(self.block()?)
        } else if self.eat("branch ") {
            let condition = self.value()?;
            let taken = self.after(", ", Words::block)?;
            Terminator::Branch { condition, taken, otherwise: self.after(", ", Words::block)? }
        } else if self.eat("call.indirect ") {
            let (target, to) = (self.value()?, self.then()?);
            Terminator::CallIndirect { target, live: self.after(" with ", Words::set)?, to }
        } else if self.eat("call ") {
            Terminator::Call { callee: self.function()?, to: self.then()? }
        } else if self.eat("tail.call ") {
            Terminator::TailCall { callee: self.function()?, link: self.link()? }
        } else if self.eat("return") {
            let link = self.link()?;
            let locals = if self.eat(" else ") { self.blocks()? } else { Vec::new() };
            Terminator::Return { link, locals }
        } else if self.eat("ecall at ") {
            let pc = self.address()?;
            let uses = self.after(" ", Words::set)?;
            Terminator::Ecall { pc, uses, to: self.then()? }
        } else if self.eat("exit at ") {
            Terminator::Exit { pc: self.address()? }
        } else if self.eat("leave") {
            Terminator::Leave
        } else {
            return Ok(None);
        };
        Ok(Some(terminator))
    }

    fn then(&mut self) -> Result<BlockId, ParseError> {
        self.after(", then ", Words::block)
    }

    fn jump_indirect(&mut self) -> Result<Terminator, ParseError> {
        let target = self.value()?;
        let candidates = self.after(", ", Words::blocks)?;
        let may_call = self.eat(" or tail.call") || candidates.is_empty();
        let link = self.link()?;
        let table = if self.eat(" by ") { Some(self.table()?) } else { None };
        Ok(Terminator::JumpIndirect { target, candidates, may_call, link, table })
    }

    fn table(&mut self) -> Result<JumpTable, ParseError> {
        let base = self.value()?;
        let start = self.after(" in ", Words::hex)?;
        self.expect(":")?;
        let mut entries = Vec::new();
        while self.eat(" ") && !self.rest.starts_with("times") {
            entries.push(self.number()?);
        }
        self.expect("times ")?;
        let bytes: i64 = self.number()?;
        let width = Width::ALL.into_iter().find(|width| width.bytes() == bytes);
        let width = width.ok_or_else(|| self.error("a width"))?;
        self.expect(" bytes")?;
        let register =
            if self.eat(" if ") { Some((self.value()?, self.after(" is ", Words::hex)?)) } else { None };
        Ok(JumpTable { register, base, start, width, entries })
    }
}

//! What a diagnosis says. The keys of its JSON are a contract: they only grow.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// A word of a fixed list; of a diagnosis that was read, whatever stands there.
pub type Word = Cow<'static, str>;

/// Why a script failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// One sentence.
    pub summary: String,
    /// How it ended.
    pub ending: Ending,
    /// Where that was decided, the innermost function first; those that are inlined are told apart.
    pub place: Vec<Frame>,
    /// Calls under way at the end, the innermost first.
    pub stack: Vec<Frame>,
    /// Calls between the innermost and the outermost that are not told.
    pub stack_left_out: u64,
    /// The instruction at the end.
    pub instruction: Instruction,
    /// The exit code, or the address that faulted, and where it came from.
    pub value: Option<Value>,
    /// The branch that decided.
    pub branch: Option<Branch>,
    /// Number of the system call that decided.
    pub system_call: Option<u64>,
    /// The last system calls, in order.
    pub system_calls: Vec<DecodedCall>,
    /// System calls before those.
    pub system_calls_left_out: u64,
    /// Registers at the end.
    pub registers: Vec<Register>,
    /// Source lines around the place.
    pub source: Vec<SourceLine>,
    /// The other VMs that ended before, in that order.
    pub children: Vec<Child>,
    /// Stacks of JavaScript that the script has printed, those of its last exceptions, in that order.
    #[serde(default)]
    pub javascript: Vec<JavaScriptStack>,
    /// The last instructions, in order.
    pub steps: Vec<Step>,
    /// Whether instructions were followed up to the end: without that there is no value and no branch.
    pub is_followed: bool,
    /// Whether there are names of functions.
    pub has_names: bool,
    /// Whether there are lines.
    pub has_lines: bool,
    /// Whether parts were left out, or names cut, for it to fit.
    #[serde(default)]
    pub is_shortened: bool,
}

/// How a script ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// `exit` or `error`.
    pub kind: Word,
    /// With `exit`.
    pub exit_code: Option<i8>,
    /// What the code means, and who says so.
    pub meaning: Option<String>,
    /// `script` (its own table), `ckb-std`, or a system script's name.
    pub meaning_from: Option<String>,
    /// With `error`: name of the variant of ckb-vm's `Error`.
    pub error: Option<String>,
    /// Its fields as text.
    pub detail: Option<String>,
    /// What it means, and what to look for.
    pub advice: Option<String>,
    /// The number of the VM.
    pub vm: u64,
}

/// A function, and where in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// Guest address; 0 for what is no code.
    pub address: u64,
    /// The function; `[exec #1]` or `[spawn #1]` for what is no code.
    pub function: String,
    /// The file, as the compiler names it.
    pub file: Option<String>,
    /// Line, from 1.
    pub line: Option<u32>,
    /// Column, from 1.
    pub column: Option<u32>,
    /// Whether it is inlined into the next one.
    pub is_inlined: bool,
}

/// An instruction and what stands there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instruction {
    /// Guest address.
    pub address: u64,
    /// As text, if it can be decoded.
    pub text: Option<String>,
    /// The address that it could not reach.
    pub fault_address: Option<u64>,
    /// `load`, `store`, `fetch`, `system_call`, `cycles` or `other`.
    pub fault: Option<Word>,
    /// What stands at that address.
    pub fault_at: Option<String>,
}

/// A value and where it came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Value {
    /// The value.
    pub value: u64,
    /// `code`, `system_call`, `memory`, or `before` if it was there before instructions were followed.
    pub made: Word,
    /// The place that made it, the innermost function first.
    pub place: Vec<Frame>,
    /// The system call that gave it.
    pub system_call: Option<u64>,
    /// The memory that it was read from, which nobody but a system call was seen writing to.
    pub address: Option<u64>,
}

/// A conditional branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch {
    /// Its place, the innermost function first.
    pub place: Vec<Frame>,
    /// As text: `bltu a0,a1`.
    pub text: String,
    /// Whether it was taken.
    pub is_taken: bool,
    /// What it compared.
    pub left: Value,
    /// With what.
    pub right: Value,
    /// The register of the left value.
    pub left_register: Word,
    /// The register of the right value.
    pub right_register: Word,
}

/// A system call, decoded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecodedCall {
    /// Its number in the run, from 0.
    pub index: u64,
    /// The VM that made it.
    pub vm: u64,
    /// Its number.
    pub number: u64,
    /// Its name; none if there is no such system call.
    pub name: Option<Word>,
    /// Its arguments, in order, each with its name.
    pub arguments: Vec<(Word, String)>,
    /// What it gave; none if it did not come back.
    pub result: Option<u64>,
    /// The name of that.
    pub result_name: Option<Word>,
    /// The length that it told.
    pub length: Option<u64>,
    /// The first bytes that it read or wrote, in hexadecimal digits.
    pub data: String,
    /// Cycles of the VM before it, and cycles that it took.
    pub cycles: u64,
    /// Cycles that it took.
    pub cost: u64,
    /// Who made it, the innermost function first.
    pub place: Vec<Frame>,
}

/// A register.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Register {
    /// Its name.
    pub name: Word,
    /// Its value.
    pub value: u64,
}

/// A line of a source file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceLine {
    /// Line, from 1.
    pub line: u32,
    /// The line.
    pub text: String,
    /// Whether it is the place.
    pub is_place: bool,
}

/// A VM that ended before the one that decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Child {
    /// How it ended.
    pub ending: Ending,
    /// Where that was decided, the innermost function first.
    pub place: Vec<Frame>,
    /// Calls under way at its end, the innermost first.
    pub stack: Vec<Frame>,
    /// The branch that decided.
    pub branch: Option<Branch>,
    /// Number of the system call that decided.
    pub system_call: Option<u64>,
}

/// A stack of JavaScript, as QuickJS prints it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JavaScriptStack {
    /// What was printed before it: the exception, or `Caused by:`.
    pub thrown: Option<String>,
    /// Calls, the innermost first.
    pub frames: Vec<JavaScriptFrame>,
    /// Outer calls that are not told.
    pub left_out: u64,
    /// Lines of the author's source around the innermost call that a source map knows.
    pub source: Vec<SourceLine>,
}

/// A call in JavaScript: in the bundle, and in what it was made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JavaScriptFrame {
    /// The function, as the bundle names it.
    pub function: String,
    /// The file; none where QuickJS has no name, as in bytecode.
    pub file: Option<String>,
    /// Line of the bundle, from 1.
    pub line: Option<u32>,
    /// Column of the bundle, from 1.
    pub column: Option<u32>,
    /// Whether it is a function of QuickJS.
    pub is_native: bool,
    /// Where that comes from, by a source map.
    pub original: Option<OriginalLocation>,
}

/// A place in what an author wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OriginalLocation {
    /// The file.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1; none where the call has none.
    pub column: Option<u32>,
}

/// An instruction that was executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Guest address.
    pub address: u64,
    /// The function.
    pub function: String,
    /// As text, if it can be decoded.
    pub text: Option<String>,
    /// The register that it has changed.
    pub register: Option<Word>,
    /// To what.
    pub value: Option<u64>,
}

/// ` in check (main.c:41:3)`.
pub(crate) fn where_it_is(frame: &Frame) -> String {
    match line(frame) {
        Some(line) => format!(" in {} ({line})", frame.function),
        None => format!(" in {} ({:#x})", frame.function, frame.address),
    }
}

/// `main.c:41:3`.
pub(crate) fn line(frame: &Frame) -> Option<String> {
    let (file, line) = (frame.file.as_ref()?, frame.line?);
    Some(frame.column.map_or_else(|| format!("{file}:{line}"), |column| format!("{file}:{line}:{column}")))
}

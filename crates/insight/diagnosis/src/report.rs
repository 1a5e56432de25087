//! The content of a diagnosis. The keys of its JSON are stable: keys are only added.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// A word from a fixed list; arbitrary in a deserialized diagnosis.
pub type Word = Cow<'static, str>;

/// Why a script failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// One sentence.
    pub summary: String,
    /// How it ended.
    pub ending: Ending,
    /// The location of the decision, the innermost function first, with inlined functions as separate frames.
    pub place: Vec<Frame>,
    /// Active calls at the end, the innermost first.
    pub stack: Vec<Frame>,
    /// Number of omitted calls between the innermost and the outermost ones.
    pub stack_left_out: u64,
    /// The last instruction.
    pub instruction: Instruction,
    /// The exit code or the faulting address, with its origin.
    pub value: Option<Value>,
    /// The branch that decided.
    pub branch: Option<Branch>,
    /// Number of the system call that decided.
    pub system_call: Option<u64>,
    /// The last system calls, in order.
    pub system_calls: Vec<DecodedCall>,
    /// Number of earlier system calls that are omitted.
    pub system_calls_left_out: u64,
    /// Registers at the end.
    pub registers: Vec<Register>,
    /// Source lines around the location.
    pub source: Vec<SourceLine>,
    /// The other VMs, in the order in which they ended.
    pub children: Vec<Child>,
    /// JavaScript stacks of the last exceptions that the script printed, in order.
    #[serde(default)]
    pub javascript: Vec<JavaScriptStack>,
    /// The last instructions, in order.
    pub steps: Vec<Step>,
    /// Whether instructions were traced up to the end; otherwise there is no value and no branch.
    pub is_followed: bool,
    /// Whether function names are available.
    pub has_names: bool,
    /// Whether line numbers are available.
    pub has_lines: bool,
    /// Whether parts were omitted or names truncated to fit a limit.
    #[serde(default)]
    pub is_shortened: bool,
}

/// How a script ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// `exit` or `error`.
    pub kind: Word,
    /// Exit code, for `exit`.
    pub exit_code: Option<i8>,
    /// Meaning of the code, and its source.
    pub meaning: Option<String>,
    /// `script` (its own table), `ckb-std`, or the name of a system script.
    pub meaning_from: Option<String>,
    /// Variant name of ckb-vm's `Error`, for `error`.
    pub error: Option<String>,
    /// Its fields, as text.
    pub detail: Option<String>,
    /// Meaning of the error, and advice.
    pub advice: Option<String>,
    /// Number of the VM.
    pub vm: u64,
}

/// A function and a location in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// Guest address; 0 if the frame is not code.
    pub address: u64,
    /// The function; `[exec #1]` or `[spawn #1]` if the frame is not code.
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

/// An instruction with its fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instruction {
    /// Guest address.
    pub address: u64,
    /// Its text, if it can be decoded.
    pub text: Option<String>,
    /// The address that it could not access.
    pub fault_address: Option<u64>,
    /// `load`, `store`, `fetch`, `system_call`, `cycles` or `other`.
    pub fault: Option<Word>,
    /// Description of that address.
    pub fault_at: Option<String>,
}

/// A value and its origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Value {
    /// The value.
    pub value: u64,
    /// `code`, `system_call`, `memory`, or `before` if it existed before tracing started.
    pub made: Word,
    /// The location that computed it, the innermost function first.
    pub place: Vec<Frame>,
    /// The system call that returned it.
    pub system_call: Option<u64>,
    /// The memory that it was read from, without a traced write except by system calls.
    pub address: Option<u64>,
}

/// A conditional branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch {
    /// Its location, the innermost function first.
    pub place: Vec<Frame>,
    /// Its text: `bltu a0,a1`.
    pub text: String,
    /// Whether it was taken.
    pub is_taken: bool,
    /// The left operand.
    pub left: Value,
    /// The right operand.
    pub right: Value,
    /// The register of the left value.
    pub left_register: Word,
    /// The register of the right value.
    pub right_register: Word,
}

/// A system call, decoded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecodedCall {
    /// Its index in the run, from 0.
    pub index: u64,
    /// The calling VM.
    pub vm: u64,
    /// Its number.
    pub number: u64,
    /// Its name; `None` if there is no such system call.
    pub name: Option<Word>,
    /// Its arguments, in order, each with its name.
    pub arguments: Vec<(Word, String)>,
    /// Its result; `None` if it did not return.
    pub result: Option<u64>,
    /// The name of the result.
    pub result_name: Option<Word>,
    /// The length that it returned.
    pub length: Option<u64>,
    /// The first bytes that it read or wrote, in hexadecimal digits.
    pub data: String,
    /// Cycles of the VM before the call.
    pub cycles: u64,
    /// Cycles of the call.
    pub cost: u64,
    /// The calling location, the innermost function first.
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
    /// Its text.
    pub text: String,
    /// Whether it is the location of the decision.
    pub is_place: bool,
}

/// A VM that ended before the one that decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Child {
    /// How it ended.
    pub ending: Ending,
    /// The location of the decision, the innermost function first.
    pub place: Vec<Frame>,
    /// Active calls at its end, the innermost first.
    pub stack: Vec<Frame>,
    /// The branch that decided.
    pub branch: Option<Branch>,
    /// Number of the system call that decided.
    pub system_call: Option<u64>,
}

/// A JavaScript stack, as QuickJS prints it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JavaScriptStack {
    /// The text before the stack: the exception, or `Caused by:`.
    pub thrown: Option<String>,
    /// Calls, the innermost first.
    pub frames: Vec<JavaScriptFrame>,
    /// Number of omitted outer calls.
    pub left_out: u64,
    /// Lines of the original source around the innermost call that a source map covers.
    pub source: Vec<SourceLine>,
}

/// A JavaScript call: in the bundle and in its original source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JavaScriptFrame {
    /// The function, as the bundle names it.
    pub function: String,
    /// The file; `None` if QuickJS has no name for it, as in bytecode.
    pub file: Option<String>,
    /// Line of the bundle, from 1.
    pub line: Option<u32>,
    /// Column of the bundle, from 1.
    pub column: Option<u32>,
    /// Whether it is a built-in function of QuickJS.
    pub is_native: bool,
    /// Its original location, from a source map.
    pub original: Option<OriginalLocation>,
}

/// A location in the author's source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OriginalLocation {
    /// The file.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1; `None` if the call has none.
    pub column: Option<u32>,
}

/// An executed instruction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Guest address.
    pub address: u64,
    /// The function.
    pub function: String,
    /// Its text, if it can be decoded.
    pub text: Option<String>,
    /// The register that it changed.
    pub register: Option<Word>,
    /// The new value.
    pub value: Option<u64>,
}

/// ` in check (main.c:41:3)`.
pub(crate) fn where_it_is(frame: &Frame) -> String {
    match line(frame) {
        Some(line) => format!(" in {} ({line})", frame.function),
        None => format!(" in {} ({:#x})", frame.function, frame.address),
    }
}

/// [`where_it_is`] for the innermost frame.
pub(crate) fn decided_at(place: &[Frame]) -> String {
    place.first().map(where_it_is).unwrap_or_default()
}

/// `main.c:41:3`.
pub(crate) fn line(frame: &Frame) -> Option<String> {
    let (file, line) = (frame.file.as_ref()?, frame.line?);
    Some(frame.column.map_or_else(|| format!("{file}:{line}"), |column| format!("{file}:{line}:{column}")))
}

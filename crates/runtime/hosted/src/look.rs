//! What a debugger's screen shows of a script group, and what its keys ask for.

use serde::{Deserialize, Serialize};

/// From the screen to a hosted process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LookAsk {
    /// Go somewhere.
    Go {
        /// How far.
        far: Far,
        /// Whether that is back.
        back: bool,
    },
    /// A command, as somebody typed it.
    Command(String),
    /// Stop where it is.
    Stop,
}

/// How far to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Far {
    /// One instruction.
    Instruction,
    /// To another line, into what is called.
    Line,
    /// To another line, over what is called.
    Over,
    /// Out of the function.
    Out,
    /// To what stops it.
    On,
}

/// What there is to see at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LookView {
    /// Why it stopped.
    pub stop: String,
    /// What a command says.
    pub answer: String,
    /// The VM that is looked at.
    pub vm: u64,
    /// All VMs.
    pub vms: Vec<u64>,
    /// Cycles of all VMs so far.
    pub cycles: u64,
    /// Where the VM is.
    pub pc: u64,
    /// Its registers.
    pub registers: [u64; 32],
    /// Its calls, the innermost first.
    pub frames: Vec<LookFrame>,
    /// Instructions around the next one.
    pub assembly: Vec<LookInstruction>,
    /// Where the memory that is shown begins.
    pub memory_at: u64,
    /// What of it can be read.
    pub memory: Vec<u8>,
    /// System calls before this moment, the last ones.
    pub calls: Vec<String>,
    /// Lines with breakpoints in the file of the innermost call.
    pub broken_lines: Vec<u32>,
}

/// A function that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LookFrame {
    /// Where it is.
    pub address: u64,
    /// Its name.
    pub function: String,
    /// The file, if that is known.
    pub file: Option<String>,
    /// The line in it.
    pub line: u32,
}

/// An instruction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LookInstruction {
    /// Where it is.
    pub address: u64,
    /// In assembly.
    pub text: String,
    /// Whether there is a breakpoint.
    pub is_broken: bool,
}

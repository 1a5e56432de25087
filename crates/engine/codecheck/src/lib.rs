//! Checks that a library's machine code looks like the output of the engine's code generators. Linearly
//! disassembles all executable bytes and refuses anything outside an allow list of instructions and code
//! shapes.
//!
//! docs/sandbox.md says what the check proves and what it does not. The crate does no IO. Its caller is a
//! sandboxed process other than the compiler's.

mod branches;
mod error;
mod image;
mod instructions;
mod memory;
mod values;
mod walk;

pub use error::{CodeError, CodeFault};

/// Statistics of code that passed the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Executable bytes.
    pub code_bytes: u64,
    /// Instructions in these bytes.
    pub instructions: u64,
}

/// Disassembles and checks the code of `library`, a shared object that has passed the structural check.
///
/// # Errors
/// Returns the first violation, with its address.
pub fn check(library: &[u8]) -> Result<Checked, CodeError> {
    let image = image::Image::of(library)?;
    let Some(code) = image.code() else { return Ok(Checked { code_bytes: 0, instructions: 0 }) };
    let lines = walk::disassemble(&code)?;
    for (index, instruction) in lines.instructions.iter().enumerate() {
        let fault = |fault: CodeFault| CodeError::Code { address: instruction.ip(), fault };
        instructions::check(instruction).map_err(fault)?;
        memory::check(instruction, &image).map_err(fault)?;
        branches::check(index, &lines, &image).map_err(fault)?;
    }
    for thunk in image.thunks()? {
        if !lines.begins(thunk) {
            return Err(CodeError::Thunk { address: thunk });
        }
    }
    let instructions = lines.instructions.len() as u64;
    Ok(Checked { code_bytes: code.bytes.len() as u64, instructions })
}

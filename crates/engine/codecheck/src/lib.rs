//! Whether the machine code of a library is such as our generators make. Disassembles all of it in a line,
//! from the first byte that will be executable to the last, and refuses what is not on a list or not in a
//! known shape.
//!
//! What that proves and what it does not: docs/sandbox.md. No IO; the caller is a sandboxed process that is
//! not the compiler's.
#![forbid(unsafe_code)]

mod branches;
mod error;
mod image;
mod instructions;
mod memory;
mod values;
mod walk;

pub use error::{CodeError, CodeFault};

/// Figures of code that was found to be in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Bytes that will be executable.
    pub code_bytes: u64,
    /// Instructions in them.
    pub instructions: u64,
}

/// Disassembles the code of `library`, a shared object whose structure has been checked, and looks at each
/// instruction.
///
/// # Errors
/// The first thing that is not as our generators make it, with its place.
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

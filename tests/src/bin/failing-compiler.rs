//! A compile worker for tests of what is made of its failures. Its full tier fails for every script except that
//! of its self-test. For a script that ends with "proved" its optimiser marks every check as proved; for one
//! that ends with "syscall" its code begins with a system call.
#![forbid(unsafe_code)]

use antares_compile_worker::sample;
use antares_compiler::{CompileError, Stage};
use antares_ir::Module;
use antares_opt::{Context, Level};
use antares_tests::native::{claim_proofs, code_of};

fn main() -> anyhow::Result<()> {
    Ok(antares_compile_worker::work_by(|elf, request| match request.stage {
        _ if elf.ends_with(b"proved") => antares_compiler::compile_by(optimize, elf, request),
        stage if stage.is_library() && elf.ends_with(b"syscall") => {
            let mut output = antares_compiler::compile(elf, request)?;
            let place = code_of(&output.bytes).start;
            output.bytes[place..place + 2].copy_from_slice(&[0x0f, 0x05]);
            Ok(output)
        }
        Stage::Library | Stage::Part { .. } if elf != sample::elf() => {
            Err(CompileError::Failed { detail: "the full tier does not want to".to_owned() })
        }
        _ => antares_compiler::compile(elf, request),
    })?)
}

fn optimize(module: &mut Module, context: Context, level: Level) {
    antares_opt::optimize(module, context, level);
    if level != Level::Plain {
        claim_proofs(module);
    }
}

//! A compile worker whose full tier fails for every script but the one that it tries itself with, for tests
//! of what is made of that.
#![forbid(unsafe_code)]

use antares_compile_worker::sample;
use antares_compiler::{CompileError, Stage};

fn main() -> anyhow::Result<()> {
    Ok(antares_compile_worker::work_by(|elf, request| match request.stage {
        Stage::Library | Stage::Part { .. } if elf != sample::elf() => {
            Err(CompileError::Failed { detail: "the full tier does not want to".to_owned() })
        }
        _ => antares_compiler::compile(elf, request),
    })?)
}

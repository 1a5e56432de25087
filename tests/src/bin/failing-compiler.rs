//! A compile worker whose full tier fails for every script except that of its self-test, for tests of the
//! fallback.
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

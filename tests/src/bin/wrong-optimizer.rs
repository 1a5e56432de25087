//! A compile worker with a wrong optimiser, which marks every check as proved. For a test of the service's
//! reaction.
#![forbid(unsafe_code)]

use antares_ir::{Module, Op};
use antares_opt::{Context, Level};

fn main() -> anyhow::Result<()> {
    let compile = |elf: &[u8], request: &_| antares_compiler::compile_by(optimize, elf, request);
    Ok(antares_compile_worker::work_by(compile)?)
}

fn optimize(module: &mut Module, context: Context, level: Level) {
    antares_opt::optimize(module, context, level);
    if level == Level::Plain {
        return;
    }
    let blocks = module.functions.iter_mut().flat_map(|function| &mut function.blocks);
    for op in blocks.flat_map(|block| &mut block.ops) {
        if let Op::Check { access, base, low, high } = *op {
            *op = Op::Proved { access, base, low, high };
        }
    }
}

//! PolkaVM, running the same C compiled to its dialect of RISC-V.

use std::time::Duration;

use anyhow::{Result, anyhow};
use polkavm::{Config, Engine, GasMeteringKind, InstancePre, Linker, Module, ModuleConfig, ProgramBlob};
use polkavm_linker::TargetInstructionSet;

use crate::{Peer, timed};

pub(crate) struct Program {
    instance: InstancePre,
    has_gas: bool,
}

impl Program {
    pub(crate) fn new(elf: &[u8], has_gas: bool) -> Result<Self> {
        let fail = |error: &dyn std::fmt::Display| anyhow!("{error}");
        let mut config = polkavm_linker::Config::default();
        config.set_min_stack_size(1 << 20);
        let blob = polkavm_linker::program_from_elf(config, TargetInstructionSet::Latest, elf)
            .map_err(|error| fail(&error))?;
        let blob = ProgramBlob::parse(blob.into()).map_err(|error| fail(&error))?;
        // The generic sandbox runs in this process, so this thread's clock measures it. The default one runs
        // in another process.
        let mut config = Config::new();
        config.set_allow_experimental(true);
        config.set_sandbox(Some(polkavm::SandboxKind::Generic));
        let engine = Engine::new(&config).map_err(|error| fail(&error))?;
        let mut module_config = ModuleConfig::new();
        module_config.set_gas_metering(has_gas.then_some(GasMeteringKind::Sync));
        let module = Module::from_blob(&engine, &module_config, blob).map_err(|error| fail(&error))?;
        let instance = Linker::<(), core::convert::Infallible>::new()
            .instantiate_pre(&module)
            .map_err(|error| fail(&error))?;
        Ok(Self { instance, has_gas })
    }
}

impl Peer for Program {
    fn run(&mut self, repetitions: u32) -> Result<(i32, Duration)> {
        let mut instance = self.instance.instantiate().map_err(|error| anyhow!("{error}"))?;
        if self.has_gas {
            instance.set_gas(i64::MAX);
        }
        let (code, time) =
            timed(|| instance.call_typed_and_get_result::<u32, _>(&mut (), "run", (repetitions,)));
        Ok((code.map_err(|error| anyhow!("{error:?}"))?.cast_signed(), time))
    }
}

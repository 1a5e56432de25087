//! Wasmtime, running the same C compiled to WebAssembly.

use std::time::Duration;

use anyhow::{Context, Result};
use wasmtime::{Config, Engine, Instance, Module, Store};

use crate::{Peer, timed};

pub(crate) struct Program {
    engine: Engine,
    module: Module,
    has_fuel: bool,
}

impl Program {
    pub(crate) fn new(bytes: &[u8], has_fuel: bool) -> Result<Self> {
        let mut config = Config::new();
        config.consume_fuel(has_fuel).wasm_wide_arithmetic(true);
        let engine = Engine::new(&config).map_err(wasm_error)?;
        let module = Module::new(&engine, bytes).map_err(wasm_error)?;
        Ok(Self { engine, module, has_fuel })
    }
}

impl Peer for Program {
    fn run(&mut self, repetitions: u32) -> Result<(i32, Duration)> {
        let mut store = Store::new(&self.engine, ());
        if self.has_fuel {
            store.set_fuel(u64::MAX).map_err(wasm_error)?;
        }
        let instance = Instance::new(&mut store, &self.module, &[]).map_err(wasm_error)?;
        let run = instance
            .get_typed_func::<i32, i32>(&mut store, "run")
            .map_err(wasm_error)
            .context("an export `run`")?;
        let repetitions = i32::try_from(repetitions)?;
        let (code, time) = timed(|| run.call(&mut store, repetitions));
        Ok((code.map_err(wasm_error)?, time))
    }
}

fn wasm_error(error: wasmtime::Error) -> anyhow::Error {
    anyhow::anyhow!("{error:?}")
}

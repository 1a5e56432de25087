//! The machine: guest memory, native tier, fallback tier (ckb-vm AsmMachine) on one shared state.

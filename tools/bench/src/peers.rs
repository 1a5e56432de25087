//! Other engines that run the same program in the same loop, as processes of the package `tools/bench/peers`.

use std::{path::Path, process::Command};

use antares_tests::{
    crates::target_folder,
    guests::{self, Foreign},
};
use anyhow::{Context, Result};

use crate::twin::Twin;

/// Name in tables, name for the process, and target (`None`: the guest's ELF).
const PEERS: [(&str, &str, Option<Foreign>); 8] = [
    ("qemu-user", "qemu", None),
    ("ckb-vm-contrib", "contrib", None),
    ("wasmtime", "wasmtime", Some(Foreign::Wasm)),
    ("wasmtime, fuel", "wasmtime-fuel", Some(Foreign::Wasm)),
    ("wasmtime wide", "wasmtime", Some(Foreign::WasmWide)),
    ("wasmtime wide, fuel", "wasmtime-fuel", Some(Foreign::WasmWide)),
    ("polkavm", "polkavm", Some(Foreign::Polkavm)),
    ("polkavm, gas", "polkavm-gas", Some(Foreign::Polkavm)),
];

pub(crate) struct Peer {
    pub(crate) name: &'static str,
    pub(crate) twin: Twin,
}

/// Starts all peers that can run `guest`. Also returns the names of the others, each with the reason.
pub(crate) fn start(guest: &str) -> (Vec<Peer>, Vec<String>) {
    let (mut peers, mut missing) = (Vec::new(), Vec::new());
    for (name, engine, target) in PEERS {
        // Foreign targets compile the guest's C, which corresponds to the guest without extensions.
        if target.is_some() && !guest.ends_with("-imc") {
            continue;
        }
        match start_one(guest, engine, target) {
            Ok(twin) => peers.push(Peer { name, twin }),
            Err(error) => {
                let reason = format!("{error:#}");
                missing.push(format!("{name}: {}", reason.lines().take(2).collect::<Vec<_>>().join(" ")));
            }
        }
    }
    (peers, missing)
}

pub(crate) fn are_built() -> bool {
    program().exists()
}

fn program() -> std::path::PathBuf {
    target_folder().join("peers/release/antares-peers")
}

fn start_one(guest: &str, engine: &str, target: Option<Foreign>) -> Result<Twin> {
    let path = match target {
        None => guests::build(guest)?,
        Some(target) => {
            let guest = guests::guest_named(guest).context("a guest")?;
            let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("native/run.c");
            guests::foreign_compile(&guest, target, &driver)?
        }
    };
    let mut twin = Twin::foreign(Command::new(program()).arg(engine).arg(path))?;
    // Check with a short run that it works.
    twin.work(1)?;
    Ok(twin)
}

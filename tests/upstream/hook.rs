//! What the patched scheduler calls: sessions that compile a program when it is first seen.

use std::{
    collections::HashMap,
    env,
    sync::{Arc, LazyLock, Mutex},
};

use antares_abi::{CodeTier, CompileOptions, Isa, Sha256Digest};
use antares_tests::kept;
pub use antares_vm::{MachineSession, NativeMachine};
use antares_vm::{Program, Tier};
use bytes::Bytes;

/// Set where scripts are interpreted.
pub const INTERPRETED: &str = "ANTARES_UPSTREAM_INTERPRETED";

/// Programs by artifact key; none if the compiler refuses.
static PROGRAMS: LazyLock<Mutex<HashMap<Sha256Digest, Option<Arc<Program>>>>> = LazyLock::new(Mutex::default);

/// A session for one script group.
pub fn session() -> Arc<MachineSession> {
    if env::var_os(INTERPRETED).is_some() {
        return MachineSession::new(Tier::Interpreter, Vec::new());
    }
    MachineSession::with_finder(Tier::Native, Box::new(find))
}

/// Checks where the script of a group ran.
pub fn report(session: &MachineSession) {
    let counts = session.take_counts();
    if env::var_os(INTERPRETED).is_some() {
        assert_eq!(counts.native_cycles, 0);
    } else {
        assert!(
            counts.interpreted_cycles == 0 || counts.native_cycles > 0 || counts.restarted.is_some(),
            "{counts:?}"
        );
    }
}

fn find(elf: &Bytes, vm_version: u32, isa: u8) -> Option<Arc<Program>> {
    let options = CompileOptions { vm_version, isa: Isa(isa) };
    let key = Sha256Digest::for_artifact(Sha256Digest::of(elf), options, CodeTier::Full);
    let mut programs = PROGRAMS.lock().expect("no compile panicked");
    let make = || {
        let library = kept::library(elf, options).expect("the compiler works").ok()?;
        Some(Arc::new(Program::new(elf.clone(), library).expect("what the compiler read, ckb-vm reads")))
    };
    programs.entry(key).or_insert_with(make).clone()
}

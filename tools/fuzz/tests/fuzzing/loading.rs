//! An instrumented library is distinct from all others.

use std::os::fd::AsFd as _;

use antares_abi::Stage;
use antares_vm::{Library, LibraryError, MachineSession, Tier};

use crate::campaign::{compiled, counted, file};

#[test]
fn a_counted_library_is_refused_wherever_others_are_loaded() {
    let elf = antares_guests::fuzzed("MAC", true).unwrap();
    let (counted, plain) = (file(&counted(&elf)), file(&compiled(&elf, Stage::Baseline)));
    let refused = Library::load(counted.as_fd()).unwrap_err();
    assert!(matches!(refused, LibraryError::Magic { .. }), "{refused}");
    let refused = Library::load_counted(plain.as_fd()).unwrap_err();
    assert!(matches!(refused, LibraryError::Magic { .. }), "{refused}");
    assert!(Library::load_counted(counted.as_fd()).unwrap().is_counted());
    assert!(!Library::load(plain.as_fd()).unwrap().is_counted());
}

#[test]
fn a_session_that_does_not_count_leaves_counted_code_alone() {
    let elf = antares_guests::fuzzed("MAC", true).unwrap();
    let library = Library::load_counted(file(&counted(&elf)).as_fd()).unwrap();
    let program = antares_vm::Program::new(elf.into(), library).unwrap();
    let session = MachineSession::new(Tier::Auto, vec![program.into()]);
    assert!(session.programs().is_empty());
    assert!(!session.take_counters(|_| ()));
}

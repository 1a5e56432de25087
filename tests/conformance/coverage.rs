//! Recovery finds the code that programs execute, with and without section headers (and so symbols).

use antares_tests::{
    coverage::{measure, without_sections},
    guests,
};
use bytes::Bytes;

#[test]
fn all_that_guests_execute_is_known() {
    for name in ["lua-b", "secp256k1-b", "interpreter-b", "mldsa-b", "picolibc-blocks-b"] {
        let elf = guests::bytes(name).unwrap();
        for (form, elf) in [("whole", elf.clone()), ("without sections", without_sections(&elf))] {
            let coverage = measure(&elf, &[Bytes::from("1")], 2).unwrap();
            println!(
                "{name}, {form}: {} of {} bytes, {} of {} executed addresses",
                coverage.known_bytes, coverage.code_bytes, coverage.executed_known, coverage.executed
            );
            assert_eq!(coverage.executed_known, coverage.executed, "{name}, {form}");
            assert!(coverage.missed.is_empty(), "{name}, {form}: {:x?}", coverage.missed);
        }
    }
}

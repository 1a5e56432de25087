//! libFuzzer on `antares_tests::fuzzing::program`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antares_tests::fuzzing::program(data));

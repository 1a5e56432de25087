//! Tests that use ckb-testtool: see `tests/`.
#![forbid(unsafe_code)]

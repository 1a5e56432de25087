//! External tests of the machine: real guests, real shared objects, ckb-vm's own machine as the oracle.
#![allow(unsafe_code, clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod confinement;
mod faults;
mod guests;
mod interpreter;
mod library;
mod meter;
mod native;
mod oracle;
mod restart;
mod wild;

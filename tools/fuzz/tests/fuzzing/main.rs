//! The fuzzer finds planted bugs in few runs with given seeds, and native code counts like the interpreter.
#![allow(clippy::unwrap_used, reason = "a test")]

mod campaign;
mod counts;
mod loading;
mod planted;

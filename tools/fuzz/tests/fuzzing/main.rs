//! Planted bugs are found, by seeds that are given, in few runs; and native code counts what an interpreter
//! counts.
#![allow(clippy::unwrap_used, reason = "a test")]

mod campaign;
mod counts;
mod loading;
mod planted;

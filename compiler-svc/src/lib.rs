//! The gRPC compile service: ask the cache, else lend a compile worker, store, answer.
#![forbid(unsafe_code)]

mod again;
pub mod app;
mod blocking;
mod compiler;
mod convert;
mod explain;
pub mod failing;
mod failures;
mod follow;
mod learn;
mod metrics;
mod operation_service;
mod operations;
mod order;
mod owned;
mod scripts;
mod service;
mod signed;
mod status;
mod store_service;
mod tier_metrics;
mod tiers;
mod upload;
mod uploads;
mod work;

pub use compiler::{Artifact, CompileError, Compiler};
pub use learn::Teacher;
pub use scripts::StoreScriptError;

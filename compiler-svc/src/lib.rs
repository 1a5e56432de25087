//! The gRPC compile service: query the cache, else lease a compile worker, store, respond.

pub mod app;
mod artifact;
mod belonging;
mod blocking;
mod compiler;
mod convert;
mod failures;
mod find_or_make;
mod follow;
mod keys_dir;
mod learn;
mod limits;
mod lookup;
mod metrics;
mod operation_service;
mod operations;
mod order;
mod owned;
mod owned_bytes;
mod recompiles;
mod scripts;
mod service;
mod signed;
mod status;
mod store_service;
mod tiers;
mod upload;
mod uploads;
mod work;

pub use artifact::{Artifact, CompileError};
pub use compiler::Compiler;
pub use learn::Teacher;
pub use order::CompileOrder;
pub use scripts::StoreScriptError;

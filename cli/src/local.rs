//! The engine on this machine: workers, native code and its cache.

pub(crate) mod code_cache;
pub mod diagnosis;
pub(crate) mod dynamic_programs;
pub mod engine;
pub(crate) mod head_start;
pub(crate) mod loaded;
pub mod native;
pub(crate) mod private_folder;
pub mod profiled;
pub(crate) mod system_calls;
pub mod workers;

//! The wire contract antares.v1: proto files and the types generated from them. No logic.

/// Package `antares.v1`; the proto files carry the documentation.
#[allow(
    unused_qualifications,
    clippy::all,
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    reason = "generated code"
)]
pub mod v1 {
    include!("generated/antares.v1.rs");
}

/// The compiled proto files, for reflection and for clients that have no copy of them.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("generated/antares.v1.bin");

/// `ErrorInfo.domain` of every error.
pub const ERROR_DOMAIN: &str = "antares.v1";

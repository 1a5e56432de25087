//! The gRPC services: calls, sessions, and the conversion between wire types and internal ones.

pub(crate) mod answers;
pub(crate) mod compiler_proxy;
pub(crate) mod convert;
pub(crate) mod profile_service;
pub(crate) mod service;
pub(crate) mod session;
pub(crate) mod status;
pub(crate) mod verify_call;
pub(crate) mod verify_many;
pub(crate) mod verify_session;

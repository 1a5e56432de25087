//! The services as gRPC tells of them: calls, sessions, and the border between wire types and ours.

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

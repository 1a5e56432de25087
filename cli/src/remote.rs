//! Servers: addresses, credentials, calls and their statuses.

#[cfg(feature = "server")]
pub(crate) mod address;
#[cfg(feature = "server")]
pub(crate) mod calls;
#[cfg(feature = "server")]
pub(crate) mod convert;
#[cfg(feature = "server")]
pub(crate) mod credentials;
#[cfg(feature = "server")]
pub(crate) mod server_profile;
#[cfg(feature = "server")]
pub(crate) mod status;

//! Scripts and their native code, ready to be loaded.

pub(crate) mod bailouts;
pub(crate) mod flight;
pub(crate) mod hints;
pub(crate) mod lessons;
pub(crate) mod library;
pub(crate) mod native;
pub(crate) mod prepare;
pub(crate) mod quarantine;
pub(crate) mod ready;
pub(crate) mod seal;

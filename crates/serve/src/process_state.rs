//! What a process may have inherited from whoever started it, and what a service wants instead: set once, before it has threads.

use std::{
    fs::OpenOptions,
    io,
    os::fd::{AsRawFd, IntoRawFd as _},
};

use rustix::{
    fs::Mode,
    process::{Resource, Rlimit, getrlimit, setrlimit, umask},
};

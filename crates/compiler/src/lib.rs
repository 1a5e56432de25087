//! The compiler on one page: read, recover, lift, verify, emit, link.

//! Locks the calling process in: policy as data, seccomp, Landlock, rlimits, capabilities, the order.

//! Zygotes and workers: spawn, lend, time out, kill, replace; the frames between parent and child.

pub mod job;

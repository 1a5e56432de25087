//! A cache on healthy, damaged and failing disks, and under kills and power loss.
#![allow(clippy::print_stdout, reason = "tests")]

mod crash;
mod damage;
mod entries;
mod faults;
#[allow(dead_code, reason = "tests/scenarios uses more of it")]
mod plan;
mod policy;
mod power;

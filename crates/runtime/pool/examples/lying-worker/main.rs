//! A worker that lies on command, or a zygote that lies according to its name, for tests of the supervisor.

use std::path::PathBuf;

mod lies;
#[path = "../../src/wire.rs"]
#[allow(dead_code, reason = "the supervisor has its part of it")]
mod wire;
mod worker;
mod zygote;

fn main() {
    let program = PathBuf::from(std::env::args().next().unwrap_or_default());
    match program.file_name().and_then(|name| name.to_str()?.strip_prefix("zygote-")) {
        Some(lie) => zygote::work(&program, lie),
        None => worker::work(),
    }
}

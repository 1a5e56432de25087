//! The pool's lying worker, for a whole server: `lie:NAME;` in a call selects the lie.

#[path = "../../../crates/runtime/pool/examples/lying-worker/lies.rs"]
mod lies;
#[path = "../../../crates/runtime/pool/examples/lying-worker/worker.rs"]
mod worker;

fn main() {
    worker::work();
}

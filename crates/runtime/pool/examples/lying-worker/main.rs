//! A worker that lies on command: what the tests of reports let loose on a supervisor.

mod lies;
mod worker;

fn main() {
    worker::work();
}

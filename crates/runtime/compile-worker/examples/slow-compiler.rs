//! A compile worker for tests. With a script that ends in `w`, it waits until it was stopped for a second.
//! With one that ends in `c`, it computes forever.

use std::{
    hint::spin_loop,
    time::{Duration, Instant},
};

fn main() -> anyhow::Result<()> {
    Ok(antares_compile_worker::work_by(|elf, request| {
        let mut last = Instant::now();
        match elf.last() {
            Some(b'w') => loop {
                let now = Instant::now();
                if now - last > Duration::from_secs(1) {
                    break;
                }
                last = now;
            },
            Some(b'c') => loop {
                spin_loop();
            },
            _ => {}
        }
        antares_compiler::compile(elf, request)
    })?)
}

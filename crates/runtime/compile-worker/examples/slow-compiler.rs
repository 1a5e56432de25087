//! A compile worker that waits until it has been stopped for a second with a script that ends in `w`, and
//! computes without end with one that ends in `c`.
#![forbid(unsafe_code)]

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

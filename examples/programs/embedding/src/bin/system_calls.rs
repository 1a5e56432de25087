//! Runs a script that may ask for a number by system call 5000, as a rollup's scripts ask for its state:
//! `system_calls SCRIPT NUMBER`.
#![forbid(unsafe_code)]

use std::{
    env, fs,
    sync::{Arc, Mutex},
};

use antares::{Engine, Flow, Guest, Run, Syscalls, Trap, VmVersion};

struct State {
    number: u64,
    asked: u32,
}

impl Syscalls for State {
    fn begin(&mut self) {
        // The script may begin again: what it asked before does not count.
        self.asked = 0;
    }

    fn call(&mut self, guest: &mut Guest<'_>) -> Result<Flow, Trap> {
        if guest.number() != 5000 {
            return Ok(Flow::NotMine);
        }
        self.asked += 1;
        guest.charge(100)?;
        guest.write(guest.arg(0), &self.number.to_le_bytes())?;
        guest.set_result(0);
        Ok(Flow::Continue)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = env::args().skip(1);
    let elf = fs::read(args.next().ok_or("usage: system_calls SCRIPT NUMBER")?)?;
    let number = args.next().ok_or("usage: system_calls SCRIPT NUMBER")?.parse()?;
    let state = Arc::new(Mutex::new(State { number, asked: 0 }));
    let script = Engine::new().compile(elf, VmVersion::V2)?;
    let outcome = script.run(Run::new().syscalls(state.clone()))?;
    let asked = state.lock().map_err(|_| "a call panicked")?.asked;
    println!("{:?}: {} cycles, asked {asked} times", outcome.end, outcome.cycles);
    Ok(())
}

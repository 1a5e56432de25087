//! A lock that opens for whoever shows its arguments once more: they must be what the first witness has as
//! its lock. It is here to be changed; it guards nothing, since arguments are public.
#![no_std]
#![no_main]

use ckb_std::{
    ckb_constants::Source,
    debug, default_alloc, entry,
    error::SysError,
    high_level::{load_script, load_witness_args},
};

entry!(main);
default_alloc!();

/// Why the cell stays locked; the discriminant is the exit code.
#[repr(i8)]
enum Refusal {
    NoWitness = 1,
    OtherWitness = 2,
    Unreadable = 3,
}

fn unlock() -> Result<(), Refusal> {
    let script = load_script().map_err(|_| Refusal::Unreadable)?;
    let witness = load_witness_args(0, Source::GroupInput).map_err(|error| match error {
        SysError::IndexOutOfBound | SysError::ItemMissing | SysError::Encoding => Refusal::NoWitness,
        _ => Refusal::Unreadable,
    })?;
    let shown = witness.lock().to_opt().ok_or(Refusal::NoWitness)?;
    if shown.raw_data() == script.args().raw_data() { Ok(()) } else { Err(Refusal::OtherWitness) }
}

fn main() -> i8 {
    match unlock() {
        Ok(()) => {
            debug!("opened");
            0
        }
        Err(refusal) => refusal as i8,
    }
}

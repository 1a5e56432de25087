//! A lock: its group's first witness contains the preimage of the hash in its arguments. With an argument, it
//! is a benchmark: it builds this many witnesses, then parses, hashes and compares them.
#![no_std]
#![no_main]

extern crate atomics as _;

use alloc::vec::Vec;

use ckb_hash::blake2b_256;
use ckb_std::{
    ckb_constants::Source,
    ckb_types::{
        bytes::Bytes,
        packed::{BytesOpt, WitnessArgs, WitnessArgsReader},
        prelude::*,
    },
    default_alloc, entry, env,
    error::SysError,
    high_level::{load_script, load_witness_args},
};

entry!(main);
default_alloc!();

/// Why the cell stays locked; the discriminant is the exit code.
#[derive(Clone, Copy)]
#[repr(i8)]
enum Refusal {
    NoWitness = 1,
    NoPreimage = 2,
    OtherHash = 3,
    System = 4,
    NotMolecule = 5,
    NoNumber = 6,
}

impl From<SysError> for Refusal {
    fn from(error: SysError) -> Self {
        match error {
            SysError::IndexOutOfBound | SysError::ItemMissing => Self::NoWitness,
            SysError::Encoding => Self::NotMolecule,
            _ => Self::System,
        }
    }
}

/// The lock field of `witness` must be the preimage of `hash`.
fn check(witness: WitnessArgsReader<'_>, hash: &[u8]) -> Result<(), Refusal> {
    let preimage = witness.lock().to_opt().ok_or(Refusal::NoPreimage)?;
    if blake2b_256(preimage.raw_data()) == *hash { Ok(()) } else { Err(Refusal::OtherHash) }
}

fn unlock() -> Result<i8, Refusal> {
    let witness = load_witness_args(0, Source::GroupInput)?;
    check(witness.as_reader(), &load_script()?.args().raw_data())?;
    Ok(0)
}

/// Witnesses of growing length, each parsed again; the last one of each round has a changed byte in its lock.
fn repeat(rounds: u32) -> Result<i8, Refusal> {
    let mut sum = 0_u8;
    for round in 0..rounds {
        for length in [0_usize, 1, 65, 300] {
            let preimage: Vec<u8> = (0..length).map(|at| (at as u32 * 7 + round) as u8).collect();
            let hash = blake2b_256(&preimage);
            let other = Bytes::from(hash.to_vec());
            let witness = WitnessArgs::new_builder()
                .lock(BytesOpt::from(Some(Bytes::from(preimage))))
                .input_type(BytesOpt::from(Some(other)))
                .build();
            let mut bytes = witness.as_slice().to_vec();
            let read = WitnessArgsReader::from_slice(&bytes).map_err(|_| Refusal::NotMolecule)?;
            check(read, &hash)?;
            if length > 100 {
                // After the header of the table and the length of the field.
                bytes[20 + round as usize % length] ^= 1;
                let read = WitnessArgsReader::from_slice(&bytes).map_err(|_| Refusal::NotMolecule)?;
                sum = sum.wrapping_add(check(read, &hash).map_or_else(|refusal| refusal as u8, |()| 0));
            }
            bytes.truncate(bytes.len() - 1);
            sum = sum.wrapping_add(u8::from(WitnessArgsReader::from_slice(&bytes).is_err()));
            sum = sum.wrapping_mul(5).wrapping_add(hash[0]);
        }
    }
    Ok((sum & 0x7f) as i8)
}

fn main() -> i8 {
    let done = match env::argv().last() {
        None => unlock(),
        Some(rounds) => {
            let number = rounds.to_str().ok().and_then(|text| text.parse().ok());
            number.ok_or(Refusal::NoNumber).and_then(repeat)
        }
    };
    done.unwrap_or_else(|refusal| refusal as i8)
}

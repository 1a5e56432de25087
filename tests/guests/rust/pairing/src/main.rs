//! A pairing over the curve BN254, as in verifiers of zero-knowledge proofs; checks that it is bilinear.
#![no_std]
#![no_main]

extern crate atomics as _;

use ckb_std::{default_alloc, entry};
use substrate_bn::{Fr, G1, G2, Group, pairing};

entry!(main);
default_alloc!();

fn main() -> i8 {
    let (Some(a), Some(b)) = (Fr::from_str("1234567890123456789"), Fr::from_str("987654321")) else {
        return 1;
    };
    let both = pairing(G1::one() * a, G2::one() * b);
    let swapped = pairing(G1::one() * b, G2::one() * a);
    if both == swapped && both != pairing(G1::one(), G2::one()) { 0 } else { 2 }
}

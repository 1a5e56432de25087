//! ckb-vm's decoder over an image, with a cache by pc.

use std::cell::RefMut;

use ckb_vm::{
    CoreMachine,
    cost_model::estimate_cycles,
    decoder::{Decoder as VmDecoder, build_decoder},
    instructions::instruction_length,
};

use crate::{Image, Instruction, image::LoadedMachine};

/// Decodes instructions of one image. The result depends only on pc, memory, ISA and version, and executable
/// pages never change, so cached results stay valid.
pub struct Decoder<'a> {
    machine: RefMut<'a, LoadedMachine>,
    decoder: VmDecoder,
    known: Vec<Option<Option<Instruction>>>,
    base: u64,
    /// Ends of executable ranges.
    ends: Vec<u64>,
}

impl<'a> Decoder<'a> {
    /// Creates the decoder for `image`, which must have no other one.
    pub fn new(image: &'a Image) -> Self {
        let base = image.executable.first().map_or(0, |range| range.0);
        let end = image.executable.last().map_or(0, |range| range.1);
        let slots = usize::try_from((end - base) / 2).unwrap_or(0);
        let machine = image.machine.borrow_mut();
        let decoder = build_decoder::<u64>(machine.isa(), machine.version());
        let ends = image.executable.iter().map(|range| range.1).collect();
        Self { machine, decoder, known: vec![None; slots], base, ends }
    }

    /// The instruction at `pc`; `None` if ckb-vm finds none (invalid encoding, page not executable).
    pub fn decode(&mut self, pc: u64) -> Option<Instruction> {
        let slot = pc.checked_sub(self.base).filter(|offset| offset % 2 == 0)?;
        let slot = usize::try_from(slot / 2).ok()?;
        if let Some(answer) = *self.known.get(slot)? {
            return answer;
        }
        let answer = self.decode_anew(pc);
        self.known[slot] = Some(answer);
        answer
    }

    /// Whether executable pages end at `pc`, or in the middle of an instruction there.
    pub(crate) fn is_end_of_code(&self, pc: u64) -> bool {
        self.ends.iter().any(|end| (0..4).contains(&end.wrapping_sub(pc)))
    }

    fn decode_anew(&mut self, pc: u64) -> Option<Instruction> {
        let packed = self.decoder.decode(self.machine.memory_mut(), pc).ok()?;
        let cycles = u32::try_from(estimate_cycles(packed)).ok()?;
        Instruction::unpack(packed, instruction_length(packed), cycles)
    }
}

//! Walks the native stack, using the libraries' frame tables, to find the active guest functions.

use antares_abi::{FrameAt, METER_MARK};

use crate::{code::Code, limits::SAMPLED_FRAMES_MAX};

/// A guest frame: the index of its library in the machine, and the guest address.
pub(crate) type GuestFrame = (usize, u64);

/// Bytes of a return address.
const RETURN_BYTES: usize = 8;
/// Maximum bytes of the instruction after a call of the meter.
const MARK_BYTES: usize = 9;
/// The fixed bits of a REX prefix.
const REX: u8 = 0x40;

/// Size of the return address cache: most samples contain those of the previous sample.
const KNOWN: usize = 128;
/// Maximum guest addresses in the cache.
const KNOWN_PCS_MAX: usize = 4096;

/// The frame table entry of one return address.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// The return address; 0 for an empty entry.
    back: usize,
    library: usize,
    /// Bytes to the end of the frame.
    bytes: usize,
    /// Index of the first of its guest addresses, and their number.
    first: usize,
    depth: usize,
}

/// Walks up the native stack during one stay in native code.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    frames: Vec<GuestFrame>,
    known: Vec<Known>,
    /// Guest addresses of the cached entries, innermost first within each entry.
    pcs: Vec<u64>,
}

impl Walk {
    /// The active guest functions, innermost first.
    pub(crate) fn frames(&self) -> &[GuestFrame] {
        &self.frames
    }

    /// Sets the pc of the innermost function.
    pub(crate) fn set_first(&mut self, pc: u64) {
        if let Some(frame) = self.frames.first_mut() {
            frame.1 = pc;
        }
    }

    /// Finds the active guest functions. Returns the return address of the call in which native code waits.
    /// `stack_pointer` points to that return address, and `top` is the end of the native stack. The walk ends
    /// at the first address without a frame table entry, or after [`SAMPLED_FRAMES_MAX`] frames. `code` must
    /// have the same libraries each time.
    ///
    /// # Safety
    /// The stack between `stack_pointer` and `top` is mapped and not written to.
    pub(crate) unsafe fn up(&mut self, code: &dyn Code, stack_pointer: usize, top: usize) -> usize {
        self.frames.clear();
        let mut at = stack_pointer;
        let mut first = 0;
        while at.is_multiple_of(RETURN_BYTES) && at < top && self.frames.len() < SAMPLED_FRAMES_MAX {
            // SAFETY: `at` is aligned, and lies between the stack pointer, from which it only grows, and the
            // top.
            let back = unsafe { (at as *const usize).read() };
            if at == stack_pointer {
                first = back;
            }
            let Some(known) = self.look_up(code, back) else { break };
            let pcs = &self.pcs[known.first..known.first + known.depth];
            self.frames.extend(pcs.iter().map(|pc| (known.library, *pc)));
            if known.bytes == 0 {
                break;
            }
            at = at.saturating_add(known.bytes);
        }
        self.frames.truncate(SAMPLED_FRAMES_MAX);
        first
    }

    fn look_up(&mut self, code: &dyn Code, back: usize) -> Option<Known> {
        if self.known.is_empty() || self.pcs.len() > KNOWN_PCS_MAX {
            self.known.clear();
            self.known.resize(KNOWN, Known::default());
            self.pcs.clear();
        }
        let place = (back ^ (back >> 7)) % KNOWN;
        if self.known[place].back != back {
            let mut frame = FrameAt::default();
            // The call precedes its return address.
            let library = code.frame(back.wrapping_sub(1), &mut frame)?;
            let (first, depth) = (self.pcs.len(), frame.chain().len());
            self.pcs.extend(frame.chain().iter().rev().map(|pc| u64::from(*pc)));
            self.known[place] = Known { back, library, bytes: frame.bytes as usize, first, depth };
        }
        Some(self.known[place])
    }
}

/// The guest address that is encoded after a meter call with return address `back`; `None` outside of library
/// code.
pub(crate) fn marked(code: &dyn Code, back: usize) -> Option<u64> {
    let end = back.checked_add(MARK_BYTES)?;
    code.texts().iter().any(|text| text.start <= back && end <= text.end).then_some(())?;
    // SAFETY: these bytes are in the text of a loaded library, which stays loaded while its code runs.
    let bytes = unsafe { (back as *const [u8; MARK_BYTES]).read() };
    let mark = if bytes[0] & 0xf0 == REX { &bytes[1..] } else { &bytes[..] };
    let [_sib, number @ ..] = mark.strip_prefix(&METER_MARK)? else { return None };
    Some(u64::from(u32::from_le_bytes(*number.first_chunk()?)))
}

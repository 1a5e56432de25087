//! The guest functions under way, from the stack of native code and the frame tables of its libraries.

use antares_abi::{FrameAt, METER_MARK};

use crate::{code::Code, limits::SAMPLED_FRAMES_MAX};

/// A guest frame: which of the machine's libraries it is in, and the guest address.
pub(crate) type GuestFrame = (usize, u64);

/// Bytes of a return address.
const RETURN_BYTES: usize = 8;
/// Bytes of the instruction behind a call of the meter, at most.
const MARK_BYTES: usize = 9;
/// Bits of a REX prefix that say what it is.
const REX: u8 = 0x40;

/// Return addresses whose frames are remembered: most samples meet those of the one before.
const KNOWN: usize = 128;
/// Guest addresses that are remembered for them, at most.
const KNOWN_PCS_MAX: usize = 4096;

/// What the frame tables say of one return address.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// The return address; 0 is none.
    back: usize,
    library: usize,
    /// Bytes to the end of the frame.
    bytes: usize,
    /// First and number of its guest addresses.
    first: usize,
    depth: usize,
}

/// Walks up the native stack, during one stay in native code.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    frames: Vec<GuestFrame>,
    known: Vec<Known>,
    /// Guest addresses of what is known, the innermost first.
    pcs: Vec<u64>,
}

impl Walk {
    /// The guest functions that were under way, the last one that was called first.
    pub(crate) fn frames(&self) -> &[GuestFrame] {
        &self.frames
    }

    /// Says where the last one is.
    pub(crate) fn set_first(&mut self, pc: u64) {
        if let Some(frame) = self.frames.first_mut() {
            frame.1 = pc;
        }
    }

    /// Finds the guest functions under way; gives the return address of native code that waits in a call.
    /// `stack_pointer` is its own: what that points to is the return address; `top` is the end of the native
    /// stack. The walk ends at the first place that no frame table knows, or after [`SAMPLED_FRAMES_MAX`]
    /// frames. `code` has the same libraries each time.
    ///
    /// # Safety
    /// All of the stack between the two is mapped, and nobody writes to it.
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
            // The call is in front of where it returns to.
            let library = code.frame(back.wrapping_sub(1), &mut frame)?;
            let (first, depth) = (self.pcs.len(), frame.chain().len());
            self.pcs.extend(frame.chain().iter().rev().map(|pc| u64::from(*pc)));
            self.known[place] = Known { back, library, bytes: frame.bytes as usize, first, depth };
        }
        Some(self.known[place])
    }
}

/// The guest address that stands behind a call of the meter which returns to `back`; none where native code
/// is not ours.
pub(crate) fn marked(code: &dyn Code, back: usize) -> Option<u64> {
    let end = back.checked_add(MARK_BYTES)?;
    code.texts().iter().any(|text| text.start <= back && end <= text.end).then_some(())?;
    // SAFETY: these bytes are all in the text of a loaded library, which stays loaded while its code runs.
    let bytes = unsafe { (back as *const [u8; MARK_BYTES]).read() };
    let mark = if bytes[0] & 0xf0 == REX { &bytes[1..] } else { &bytes[..] };
    let [_sib, number @ ..] = mark.strip_prefix(&METER_MARK)? else { return None };
    Some(u64::from(u32::from_le_bytes(*number.first_chunk()?)))
}

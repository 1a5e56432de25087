//! The guest functions under way, from the stack of native code and the frame tables of its libraries.

use antares_abi::{FrameAt, METER_MARK};

use crate::{host::Code, limits::SAMPLED_FRAMES_MAX};

/// A guest frame: which of the machine's libraries it is in, and the guest address.
pub(crate) type GuestFrame = (usize, u64);

/// Bytes of a return address.
const RETURN_BYTES: usize = 8;
/// Bytes of the instruction behind a call of the meter.
const MARK_BYTES: usize = 7;

/// Fills `frames` with the guest functions under way, the last one that was called first. `stack_pointer` is that of native
/// code which waits in a call: what it points to is the return address; `top` is the end of the native stack. The walk ends at
/// the first place that no frame table knows, or after [`SAMPLED_FRAMES_MAX`] frames.
///
/// # Safety
/// All of the stack between the two is mapped, and nobody writes to it.
pub(crate) unsafe fn walk(
    code: &dyn Code,
    stack_pointer: usize,
    top: usize,
    frames: &mut Vec<GuestFrame>,
) -> usize {
    frames.clear();
    let mut at = stack_pointer;
    let mut first = 0;
    let mut frame = FrameAt::default();
    while at.is_multiple_of(RETURN_BYTES) && at < top && frames.len() < SAMPLED_FRAMES_MAX {
        // SAFETY: `at` is aligned, and lies between the stack pointer, from which it only grows, and the top.
        let back = unsafe { (at as *const usize).read() };
        if at == stack_pointer {
            first = back;
        }
        // The call is in front of where it returns to.
        let Some(library) = code.frame(back.wrapping_sub(1), &mut frame) else { break };
        frames.extend(frame.chain().iter().rev().map(|pc| (library, u64::from(*pc))));
        if frame.bytes == 0 {
            break;
        }
        at = at.saturating_add(frame.bytes as usize);
    }
    frames.truncate(SAMPLED_FRAMES_MAX);
    first
}

/// The guest address that stands behind a call of the meter which returns to `back`; none where native code is not ours.
pub(crate) fn marked(code: &dyn Code, back: usize) -> Option<u64> {
    let end = back.checked_add(MARK_BYTES)?;
    code.texts().iter().any(|text| text.start <= back && end <= text.end).then_some(())?;
    // SAFETY: these bytes are all instructions of a loaded library, which stays loaded while its code runs.
    let bytes = unsafe { (back as *const [u8; MARK_BYTES]).read() };
    let number = bytes.strip_prefix(&METER_MARK)?;
    Some(u64::from(u32::from_le_bytes(number.try_into().ok()?)))
}

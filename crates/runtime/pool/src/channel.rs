//! The channel between a supervisor and a child: shared memory with a ring of bytes in each direction, and a
//! bell at each end.
//!
//! ```text
//! | page: positions and bells | bytes for the child | bytes for the supervisor |
//! ```
//! It uses no descriptor, and no system call except `futex` while the other side sleeps. A child thus needs
//! nothing else from the kernel while it runs guests. The memory's size is sealed, so that a child cannot
//! shrink it. Data from a child is copied before it is parsed, and checked before it is used. A child that
//! corrupts the bells only delays its own job until the deadline.

use std::{
    io::{self, Read, Write},
    mem::offset_of,
    ops::Range,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    ptr::{self, NonNull},
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    time::{Duration, Instant},
};

use antares_abi::WILD_FAULT_CALL;
use antares_sandbox::{CALL_OFFSET, name_violations, seal};
use rustix::{
    fs::{SealFlags, fcntl_add_seals, ftruncate},
    rand::{GetRandomFlags, getrandom},
};

use crate::{
    futex::{sleep, wake},
    ring::{self, RING_BYTES, Spoiled, advanced, offset},
    sealed::{self, record_copied},
};

/// Bytes before the first ring.
const HEAD_BYTES: usize = 4096;
/// Bytes of the whole shared memory.
const CHANNEL_BYTES: usize = HEAD_BYTES + 2 * RING_BYTES;
/// Address range of a child's end: far from the kernel's own choices.
const CHILD_ADDRESSES: Range<usize> = 0x1000_0000_0000..0x5000_0000_0000;
/// Bytes of a page.
const PAGE_BYTES: usize = 4096;
/// One above the highest system call number that may be recorded as a violation.
const CALLS_END: u32 = 1024;
/// Polls of the other side's positions before sleeping. A poll takes about ten nanoseconds.
const POLLS_MAX: u32 = 400;
/// Polls before the processor is yielded to other threads.
const POLLS_BEFORE_YIELD: u32 = 50;

/// Waiting for bytes that the other side writes.
pub(crate) const BYTES: u32 = 1;
/// Waiting for space in the ring that the other side reads.
pub(crate) const SPACE: u32 = 2;

const _: () = assert!(RING_BYTES.is_power_of_two() && size_of::<Head>() <= CALL_OFFSET);
const _: () = assert!(CALL_OFFSET + size_of::<u32>() <= HEAD_BYTES);

/// A shared number on a cache line of its own.
#[repr(C, align(64))]
struct Word(AtomicU32);

/// Written and read bytes of a ring since its beginning, modulo 2^32.
#[repr(C)]
struct Positions {
    written: Word,
    read: Word,
}

/// Where one side sleeps.
#[repr(C)]
struct Bell {
    rung: Word,
    /// Event to wait for, a sum of [`BYTES`] and [`SPACE`]; 0 while awake.
    waits_for: Word,
}

#[repr(C)]
struct Head {
    /// The positions of the ring for the child, and of that for the supervisor.
    places: [Positions; 2],
    /// The bells of the child and of the supervisor.
    bells: [Bell; 2],
}

/// The owner of an end of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Child,
    Supervisor,
}

impl Side {
    fn other(self) -> Self {
        match self {
            Self::Child => Self::Supervisor,
            Self::Supervisor => Self::Child,
        }
    }
}

/// One end of a channel.
#[derive(Debug)]
pub(crate) struct Channel {
    memory: NonNull<u8>,
    side: Side,
    /// This side's own positions, which the other side cannot change.
    written: AtomicU32,
    read: AtomicU32,
    /// The other side has ended.
    is_closed: AtomicBool,
}

// SAFETY: the memory is only accessed through atomics and checked copies, and is not bound to a thread.
unsafe impl Send for Channel {}
// SAFETY: as for Send. Two threads that use the same end at once would corrupt its bytes, which the peer may
// do anyway.
unsafe impl Sync for Channel {}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: `map` mapped exactly these bytes, and no pointers to them outlive the channel.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), CHANNEL_BYTES) };
    }
}

impl Channel {
    /// Creates a channel: the supervisor's end, and the file for the child's end.
    pub(crate) fn create() -> io::Result<(Self, OwnedFd)> {
        let file = sealed::create("antares-line")?;
        ftruncate(&file, CHANNEL_BYTES as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok((Self::map(file.as_fd(), Side::Supervisor, None)?, file))
    }

    /// Maps the child's end of the channel in `file`, which may be closed afterwards. The address is random, so
    /// other processes cannot know it.
    pub(crate) fn attach(file: BorrowedFd<'_>) -> io::Result<Self> {
        let mut random = [0; 8];
        getrandom(&mut random, GetRandomFlags::empty())?;
        let address = CHILD_ADDRESSES.start + usize::from_le_bytes(random) % CHILD_ADDRESSES.len();
        let address = address & !(PAGE_BYTES - 1);
        Self::map(file, Side::Child, Some(address)).or_else(|_| Self::map(file, Side::Child, None))
    }

    /// From now on, the channel records the call for which the kernel kills the child, if the kernel can
    /// guarantee the record.
    pub(crate) fn name_violations(&self) -> io::Result<()> {
        let start = self.memory.as_ptr() as usize;
        seal(start..start + CHANNEL_BYTES)?;
        // SAFETY: the word is not used otherwise, and sealed memory is never unmapped.
        unsafe { name_violations(self.memory.byte_add(CALL_OFFSET).cast().as_ptr()) }
    }

    /// Number of the call for which the child was killed, according to the child.
    pub(crate) fn named_call(&self) -> Option<u32> {
        let word = self.word(CALL_OFFSET).load(Ordering::SeqCst);
        word.checked_sub(1).filter(|number| *number < CALLS_END || *number == WILD_FAULT_CALL)
    }

    fn map(file: BorrowedFd<'_>, side: Side, place: Option<usize>) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let (start, fixed) = match place {
            Some(address) => (ptr::without_provenance_mut(address), libc::MAP_FIXED_NOREPLACE),
            None => (ptr::null_mut(), 0),
        };
        // SAFETY: without MAP_FIXED, a new mapping does not replace anything.
        let memory = unsafe {
            libc::mmap(start, CHANNEL_BYTES, access, libc::MAP_SHARED | fixed, file.as_raw_fd(), 0)
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        let (written, read, is_closed) = Default::default();
        Ok(Self { memory, side, written, read, is_closed })
    }

    /// All shared memory, for tests that corrupt it.
    pub(crate) fn memory(&self) -> NonNull<[u8]> {
        NonNull::slice_from_raw_parts(self.memory, CHANNEL_BYTES)
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: all offsets are those of words in the head of the page-aligned mapping; others may change
        // atomics at any time.
        unsafe { AtomicU32::from_ptr(self.memory.as_ptr().add(offset).cast()) }
    }

    fn positions(&self, reader: Side) -> ring::Positions<'_, AtomicU32> {
        let start = offset_of!(Head, places) + reader as usize * size_of::<Positions>();
        let word = |offset| self.word(start + offset);
        ring::Positions {
            written: word(offset_of!(Positions, written)),
            read: word(offset_of!(Positions, read)),
        }
    }

    fn bell(&self, side: Side) -> ring::Bell<'_, AtomicU32> {
        let start = offset_of!(Head, bells) + side as usize * size_of::<Bell>();
        let word = |offset| self.word(start + offset);
        ring::Bell { rung: word(offset_of!(Bell, rung)), waits_for: word(offset_of!(Bell, waits_for)) }
    }

    /// Start of the ring that `reader` reads.
    fn ring(&self, reader: Side) -> *mut u8 {
        // SAFETY: both rings are inside the mapping, after the head.
        unsafe { self.memory.as_ptr().add(HEAD_BYTES + reader as usize * RING_BYTES) }
    }

    /// Readable bytes.
    pub(crate) fn readable(&self) -> Result<usize, Spoiled> {
        self.positions(self.side).readable(self.read.load(Ordering::Relaxed))
    }

    /// Writable bytes.
    fn writable(&self) -> Result<usize, Spoiled> {
        self.positions(self.side.other()).writable(self.written.load(Ordering::Relaxed))
    }

    /// Whether the other side has read nothing since our position was `place`.
    pub(crate) fn is_untouched_since(&self, place: u32) -> bool {
        self.positions(self.side.other()).read.load(Ordering::SeqCst) == place
    }

    /// Our position in the ring that we write.
    pub(crate) fn position(&self) -> u32 {
        self.written.load(Ordering::Relaxed)
    }

    /// Writes as many of `bytes` as there is space for, and wakes the other side. Returns their number.
    pub(crate) fn put(&self, bytes: &[u8]) -> Result<usize, Spoiled> {
        let count = self.put_quietly(bytes)?;
        if count > 0 {
            self.bell(self.side.other()).ring(BYTES, wake);
        }
        Ok(count)
    }

    /// Writes all of `bytes` without waking the other side, unless little space is left. Bytes in the ring
    /// remain available to the other side even if this side ends.
    pub(crate) fn write_without_wake(&self, mut bytes: &[u8]) -> io::Result<()> {
        let mut channel = self;
        if self.writable().map_err(io::Error::other)? < RING_BYTES / 2 + bytes.len() {
            return channel.write_all(bytes);
        }
        while !bytes.is_empty() {
            bytes = &bytes[self.put_quietly(bytes).map_err(io::Error::other)?..];
        }
        Ok(())
    }

    fn put_quietly(&self, bytes: &[u8]) -> Result<usize, Spoiled> {
        let count = self.writable()?.min(bytes.len());
        if count == 0 {
            return Ok(0);
        }
        let place = self.written.load(Ordering::Relaxed);
        let (head, tail) = bytes[..count].split_at(count.min(RING_BYTES - offset(place)));
        let ring = self.ring(self.side.other());
        // SAFETY: the first part ends at most at the end of the ring, the second part begins at its start, and
        // together they are at most as long as the ring. Concurrent changes by the other side only harm the
        // other side.
        unsafe {
            ptr::copy_nonoverlapping(head.as_ptr(), ring.add(offset(place)), head.len());
            ptr::copy_nonoverlapping(tail.as_ptr(), ring, tail.len());
        }
        record_copied(count);
        let place = advanced(place, count);
        self.written.store(place, Ordering::Relaxed);
        self.positions(self.side.other()).written.store(place, Ordering::SeqCst);
        Ok(count)
    }

    /// Reads available bytes into `bytes`, and wipes them from the ring. Returns their number.
    pub(crate) fn take(&self, bytes: &mut [u8]) -> Result<usize, Spoiled> {
        let count = self.readable()?.min(bytes.len());
        if count == 0 {
            return Ok(0);
        }
        let place = self.read.load(Ordering::Relaxed);
        let (head, tail) = bytes[..count].split_at_mut(count.min(RING_BYTES - offset(place)));
        let ring = self.ring(self.side);
        // SAFETY: as in `put`. The bytes are copied before they are parsed.
        unsafe {
            let start = ring.add(offset(place));
            ptr::copy_nonoverlapping(start, head.as_mut_ptr(), head.len());
            ptr::copy_nonoverlapping(ring, tail.as_mut_ptr(), tail.len());
            start.write_bytes(0, head.len());
            ring.write_bytes(0, tail.len());
        }
        let place = advanced(place, count);
        self.read.store(place, Ordering::Relaxed);
        self.positions(self.side).read.store(place, Ordering::SeqCst);
        self.bell(self.side.other()).ring(SPACE, wake);
        Ok(count)
    }

    /// Records that the other side has ended, and wakes this side.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.bell(self.side).ring_anyway(wake);
    }

    /// Whether [`Channel::close`] was called.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    fn is_ready(&self, what: u32) -> bool {
        // `put` and `take` report corrupt positions.
        what & BYTES != 0 && self.readable() != Ok(0)
            || what & SPACE != 0 && self.writable() != Ok(0)
            || self.is_closed()
    }

    /// Waits for `what` (a sum of [`BYTES`] and [`SPACE`]) or the other side's end. May return early. Returns
    /// false if `deadline` has passed.
    pub(crate) fn wait(&self, what: u32, deadline: Option<Instant>) -> bool {
        for look in 1..=POLLS_MAX {
            if self.is_ready(what) {
                return true;
            }
            // The other side may need this processor.
            if look % POLLS_BEFORE_YIELD == 0 { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return false;
        }
        self.bell(self.side).wait(what, || self.is_ready(what), |rung, seen| sleep(rung, seen, left));
        true
    }
}

impl Read for &Channel {
    /// Waits for bytes without a deadline.
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            match Channel::take(self, bytes).map_err(io::Error::other)? {
                0 if !bytes.is_empty() => _ = self.wait(BYTES, None),
                count => return Ok(count),
            }
        }
    }
}

impl Write for &Channel {
    /// Waits for space without a deadline.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.put(bytes).map_err(io::Error::other)? {
                0 if !bytes.is_empty() => _ = self.wait(SPACE, None),
                count => return Ok(count),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::thread;

    use super::*;

    /// Both ends of a channel.
    pub(crate) fn pair() -> (Channel, Channel) {
        let (ours, file) = Channel::create().unwrap();
        (ours, Channel::attach(file.as_fd()).unwrap())
    }

    #[test]
    fn a_child_has_its_channel_where_nobody_else_knows() {
        let (_, file) = Channel::create().unwrap();
        let channels = [(); 3].map(|()| Channel::attach(file.as_fd()).unwrap());
        let places = channels.each_ref().map(|channel| channel.memory().as_ptr().cast::<u8>() as usize);
        assert!(places.iter().all(|place| CHILD_ADDRESSES.contains(place)), "{places:x?}");
        assert!(places[0] != places[1] && places[1] != places[2], "{places:x?}");
        // The second mapping is not adjacent to the first one, either.
        assert_ne!(places[0].abs_diff(places[1]), places[1].abs_diff(places[2]), "{places:x?}");
    }

    #[test]
    fn bytes_arrive_in_order_whatever_their_number() {
        let (ours, theirs) = pair();
        let sent: Vec<u8> = (0..1_000_003_u32).map(|index| (index % 251) as u8).collect();
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut buffer = vec![0; 70_001];
                let mut left = sent.len();
                while left > 0 {
                    let count = (&theirs).read(&mut buffer).unwrap();
                    (&theirs).write_all(&buffer[..count]).unwrap();
                    left -= count;
                }
            });
            // Longer than a ring, and shorter than the space in both directions.
            for chunk in sent.chunks(100_003) {
                (&ours).write_all(chunk).unwrap();
                let mut echoed = vec![0; chunk.len()];
                (&ours).read_exact(&mut echoed).unwrap();
                assert!(echoed == chunk);
            }
        });
    }

    #[test]
    fn what_was_read_is_wiped() {
        let (ours, theirs) = pair();
        (&ours).write_all(b"secret").unwrap();
        let mut buffer = [0; 6];
        (&theirs).read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"secret");
        // SAFETY: both sides have stopped writing to the channel.
        let memory = unsafe { ours.memory().as_ref() };
        assert!(memory[HEAD_BYTES..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_child_says_which_call_it_was_killed_for_if_it_makes_sense() {
        let (ours, theirs) = pair();
        assert_eq!(ours.named_call(), None);
        for (word, expected) in
            [(1, Some(0)), (42, Some(41)), (CALLS_END, Some(1023)), (CALLS_END + 1, None), (u32::MAX, None)]
        {
            theirs.word(CALL_OFFSET).store(word, Ordering::SeqCst);
            assert_eq!(ours.named_call(), expected);
        }
        theirs.word(CALL_OFFSET).store(WILD_FAULT_CALL + 1, Ordering::SeqCst);
        assert_eq!(ours.named_call(), Some(WILD_FAULT_CALL));
    }

    #[test]
    fn places_beyond_the_ring_are_refused() {
        let (ours, theirs) = pair();
        theirs.positions(Side::Supervisor).written.store(advanced(0, RING_BYTES) + 1, Ordering::SeqCst);
        assert_eq!(ours.take(&mut [0; 8]), Err(Spoiled));
        assert!(ours.wait(BYTES, None));
        theirs.positions(Side::Child).read.store(1, Ordering::SeqCst);
        assert_eq!(ours.put(b"x"), Err(Spoiled));
    }

    #[test]
    fn waiting_ends_at_the_deadline_and_when_the_line_is_closed() {
        let (ours, _theirs) = pair();
        let soon = Instant::now() + Duration::from_millis(20);
        while ours.wait(BYTES, Some(soon)) {}
        assert!(Instant::now() >= soon);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !ours.is_closed() {
                    ours.wait(BYTES, None);
                }
            });
            thread::sleep(Duration::from_millis(20));
            ours.close();
        });
    }
}

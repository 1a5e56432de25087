//! One conversation with one child: the job goes out, the reply comes back, before a deadline and within a size.

use std::{
    os::fd::BorrowedFd,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    net::{SendFlags, send},
};

use crate::frame::{self, LENGTH_BYTES};

/// Bytes read at a time.
const READ_BYTES: usize = 64 << 10;

/// What came of a conversation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// The content of the reply's frame; not decoded.
    Reply(Vec<u8>),
    /// The child closed its end first.
    Closed,
    /// The deadline passed first.
    TimedOut,
    /// What came is no frame.
    Malformed { detail: String },
}

/// Sends `job` (a frame) on `stream`, which must not block, and reads frames of at most `reply_bytes_max` bytes together: any
/// number that `take_part` takes, and one that it does not, which is the reply.
pub(crate) fn converse(
    stream: BorrowedFd<'_>,
    job: &[u8],
    reply_bytes_max: usize,
    deadline: Instant,
    mut take_part: impl FnMut(&[u8]) -> bool,
) -> Result<Heard, Errno> {
    let mut unsent = job;
    let mut received = Vec::new();
    let mut left = reply_bytes_max;
    loop {
        // A child that is gone may still have left words: keep reading when writing fails.
        unsent = send_some(stream, unsent)?;
        match receive_some(stream, &mut received)? {
            Received::More => {}
            Received::Nothing if !wait(stream, !unsent.is_empty(), deadline)? => return Ok(Heard::TimedOut),
            Received::Nothing => continue,
            Received::End => return Ok(Heard::Closed),
        }
        loop {
            match content_end(&received, left) {
                Ok(Some(end)) if received.len() >= end && take_part(&received[LENGTH_BYTES..end]) => {
                    left -= end - LENGTH_BYTES;
                    received.drain(..end);
                    continue;
                }
                Ok(Some(end)) if received.len() > end => {
                    let detail = format!("{} bytes follow the reply", received.len() - end);
                    return Ok(Heard::Malformed { detail });
                }
                Ok(Some(end)) if received.len() == end => {
                    return Ok(Heard::Reply(received.split_off(LENGTH_BYTES)));
                }
                Ok(_) => break,
                Err(error) => return Ok(Heard::Malformed { detail: error.to_string() }),
            }
        }
    }
}

/// Bytes of the frame that `received` begins with, once its length is there.
fn content_end(received: &[u8], bytes_max: usize) -> Result<Option<usize>, frame::FrameError> {
    match received.first_chunk() {
        Some(length) => Ok(Some(LENGTH_BYTES + frame::content_bytes(*length, bytes_max)?)),
        None => Ok(None),
    }
}

enum Received {
    More,
    Nothing,
    End,
}

fn send_some<'job>(stream: BorrowedFd<'_>, unsent: &'job [u8]) -> Result<&'job [u8], Errno> {
    if unsent.is_empty() {
        return Ok(unsent);
    }
    match send(stream, unsent, SendFlags::NOSIGNAL) {
        Ok(count) => Ok(&unsent[count..]),
        Err(Errno::AGAIN | Errno::INTR) => Ok(unsent),
        Err(Errno::PIPE | Errno::CONNRESET) => Ok(&[]),
        Err(error) => Err(error),
    }
}

fn receive_some(stream: BorrowedFd<'_>, received: &mut Vec<u8>) -> Result<Received, Errno> {
    let mut buffer = [0; READ_BYTES];
    match rustix::io::read(stream, &mut buffer) {
        Ok(0) | Err(Errno::CONNRESET) => Ok(Received::End),
        Ok(count) => {
            received.extend_from_slice(&buffer[..count]);
            Ok(Received::More)
        }
        Err(Errno::AGAIN | Errno::INTR) => Ok(Received::Nothing),
        Err(error) => Err(error),
    }
}

/// Waits until `stream` can be used; answers whether the deadline has not passed.
fn wait(stream: BorrowedFd<'_>, writing: bool, deadline: Instant) -> Result<bool, Errno> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left == Duration::ZERO {
        return Ok(false);
    }
    let events = if writing { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
    // A year is as good as for ever, and fits.
    let left = Timespec::try_from(left.min(Duration::from_secs(31_536_000))).map_err(|_| Errno::INVAL)?;
    match poll(&mut [PollFd::from_borrowed_fd(stream, events)], Some(&left)) {
        Ok(_) | Err(Errno::INTR) => Ok(true),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Write, os::fd::AsFd};

    use super::*;
    use crate::wire::stream_pair;

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(20)
    }

    #[test]
    fn a_reply_is_heard() {
        let (ours, theirs) = stream_pair().unwrap();
        File::from(theirs.try_clone().unwrap()).write_all(&[2, 0, 0, 0, 7, 8]).unwrap();
        assert_eq!(converse(ours.as_fd(), b"job", 2, soon(), |_| false), Ok(Heard::Reply(vec![7, 8])));
    }

    #[test]
    fn parts_come_before_the_reply_and_share_its_limit() {
        for (bytes_max, expected) in
            [(3, Heard::Reply(vec![9])), (2, Heard::Malformed { detail: String::new() })]
        {
            let (ours, theirs) = stream_pair().unwrap();
            let frames = [1, 0, 0, 0, 7, 1, 0, 0, 0, 8, 1, 0, 0, 0, 9];
            File::from(theirs.try_clone().unwrap()).write_all(&frames).unwrap();
            let mut parts = Vec::new();
            let heard = converse(ours.as_fd(), b"", bytes_max, soon(), |part| {
                let is_part = parts.len() < 2;
                parts.extend(is_part.then(|| part.to_vec()));
                is_part
            });
            assert_eq!(parts, [[7], [8]]);
            let heard = heard.unwrap();
            let is_as_expected =
                heard == expected || matches!(&heard, Heard::Malformed { .. } if bytes_max == 2);
            assert!(is_as_expected, "{heard:?}");
        }
    }

    #[test]
    fn silence_ends_at_the_deadline() {
        let (ours, theirs) = stream_pair().unwrap();
        let job = vec![0; 8 << 20];
        assert_eq!(converse(ours.as_fd(), &job, 2, soon(), |_| false), Ok(Heard::TimedOut));
        File::from(theirs).write_all(&[2, 0, 0, 0, 7]).unwrap();
        assert_eq!(converse(ours.as_fd(), &job, 2, soon(), |_| false), Ok(Heard::Closed));
    }

    #[test]
    fn hostile_replies_are_refused() {
        for reply in [&[3, 0, 0, 0][..], &[255; 4], &[1, 0, 0, 0, 7, 8]] {
            let (ours, theirs) = stream_pair().unwrap();
            File::from(theirs.try_clone().unwrap()).write_all(reply).unwrap();
            assert!(
                matches!(converse(ours.as_fd(), b"", 2, soon(), |_| false), Ok(Heard::Malformed { .. })),
                "{reply:?}"
            );
        }
    }
}

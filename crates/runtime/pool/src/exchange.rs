//! One exchange with a worker: sends the job and receives the reply, with a deadline and a size limit.

use std::time::Instant;

use crate::{
    channel::{BYTES, Channel, SPACE},
    frame::{self, LENGTH_BYTES},
    ring::Spoiled,
    sealed::record_copied,
};

/// Result of an exchange.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// The undecoded content of the reply's frame.
    Reply(Vec<u8>),
    /// The child ended first.
    Closed,
    /// The deadline passed first.
    TimedOut,
    /// The idle child did not start to read the job: it is stopped, or hangs.
    NotTaken,
    /// The bytes are not a frame.
    Malformed { detail: String },
}

impl From<Spoiled> for Heard {
    fn from(spoiled: Spoiled) -> Self {
        Self::Malformed { detail: spoiled.to_string() }
    }
}

/// Sends `job` (a frame) on `channel` and reads frames with at most `reply_bytes_max` bytes in total. Frames
/// that `take_part` accepts are parts; the first other one is the reply. The child must start to read before
/// `taken_by`.
pub(crate) fn exchange(
    channel: &Channel,
    job: &[u8],
    reply_bytes_max: usize,
    (deadline, taken_by): (Instant, Option<Instant>),
    take_part: impl FnMut(&[u8]) -> bool,
) -> Heard {
    match unrequested(channel) {
        Some(heard) => heard,
        None => {
            let place = channel.position();
            Exchange::new(reply_bytes_max).finish(channel, job, (place, taken_by), deadline, take_part)
        }
    }
}

/// Detects bytes that the child sent before the request.
fn unrequested(channel: &Channel) -> Option<Heard> {
    match channel.readable() {
        Ok(0) => None,
        Ok(bytes) => {
            Some(Heard::Malformed { detail: format!("it said {bytes} bytes that nobody asked for") })
        }
        Err(spoiled) => Some(spoiled.into()),
    }
}

/// The received bytes.
#[derive(Debug)]
pub(crate) struct Exchange {
    received: Vec<u8>,
    /// Remaining bytes for frames.
    left: usize,
}

impl Exchange {
    /// Starts an exchange with at most `reply_bytes_max` bytes.
    pub(crate) fn new(reply_bytes_max: usize) -> Self {
        Self { received: Vec::new(), left: reply_bytes_max }
    }

    /// Sends `job`, for which there must be space. Returns a result if that fails.
    pub(crate) fn request(&mut self, channel: &Channel, job: &[u8]) -> Option<Heard> {
        if let Some(heard) = unrequested(channel) {
            return Some(heard);
        }
        match channel.put(job) {
            Ok(count) if count == job.len() => None,
            Ok(_) => Some(Heard::Malformed { detail: "it has not read the job before".to_owned() }),
            Err(spoiled) => Some(spoiled.into()),
        }
    }

    /// Sends the rest of the job, and waits for the reply. The child must start to read bytes from position
    /// `place` on before `taken_by`.
    pub(crate) fn finish(
        &mut self,
        channel: &Channel,
        mut unsent: &[u8],
        (place, taken_by): (u32, Option<Instant>),
        deadline: Instant,
        mut take_part: impl FnMut(&[u8]) -> bool,
    ) -> Heard {
        let taken_by = taken_by.filter(|by| *by < deadline);
        let mut is_late = false;
        loop {
            match channel.put(unsent) {
                Ok(count) => unsent = &unsent[count..],
                Err(spoiled) => return spoiled.into(),
            }
            if let Some(heard) = self.hear(channel, &mut take_part) {
                return heard;
            }
            // Read once more after the deadline: the answer may have arrived.
            if is_late {
                return Heard::TimedOut;
            }
            let what = if unsent.is_empty() { BYTES } else { BYTES + SPACE };
            match taken_by.filter(|_| channel.is_untouched_since(place)) {
                Some(by) if Instant::now() >= by => return Heard::NotTaken,
                Some(by) => drop(channel.wait(what, Some(by))),
                None => is_late = !channel.wait(what, Some(deadline)),
            }
        }
    }

    /// Reads available bytes. Returns the result when it is known.
    pub(crate) fn hear(
        &mut self,
        channel: &Channel,
        take_part: &mut impl FnMut(&[u8]) -> bool,
    ) -> Option<Heard> {
        loop {
            // A child may have written before it ended, so read after checking for its end.
            let is_closed = channel.is_closed();
            match receive(channel, &mut self.received) {
                Ok(0) => return is_closed.then_some(Heard::Closed),
                Ok(_) => {}
                Err(spoiled) => return Some(spoiled.into()),
            }
            if let Some(heard) = self.take_frames(take_part) {
                return Some(heard);
            }
        }
    }

    /// Passes on complete parts; returns the reply, or an error.
    fn take_frames(&mut self, take_part: &mut impl FnMut(&[u8]) -> bool) -> Option<Heard> {
        let mut start = 0;
        let heard = loop {
            let rest = &self.received[start..];
            match content_end(rest, self.left) {
                Ok(Some(end)) if rest.len() >= end && take_part(&rest[LENGTH_BYTES..end]) => {
                    self.left -= end - LENGTH_BYTES;
                    start += end;
                }
                Ok(Some(end)) if rest.len() > end => {
                    let detail = format!("{} bytes follow the reply", rest.len() - end);
                    break Some(Heard::Malformed { detail });
                }
                Ok(Some(end)) if rest.len() == end => {
                    break Some(Heard::Reply(rest[LENGTH_BYTES..].to_vec()));
                }
                Ok(_) => break None,
                Err(error) => break Some(Heard::Malformed { detail: error.to_string() }),
            }
        };
        self.received.drain(..start);
        heard
    }
}

/// Length of the first frame in `received`, if known.
fn content_end(received: &[u8], bytes_max: usize) -> Result<Option<usize>, frame::FrameError> {
    match received.first_chunk() {
        Some(length) => Ok(Some(LENGTH_BYTES + frame::content_bytes(*length, bytes_max)?)),
        None => Ok(None),
    }
}

/// Appends available bytes to `received`; returns their number.
fn receive(channel: &Channel, received: &mut Vec<u8>) -> Result<usize, Spoiled> {
    let start = received.len();
    received.resize(start + channel.readable()?, 0);
    let count = channel.take(&mut received[start..])?;
    received.truncate(start + count);
    record_copied(count);
    Ok(count)
}

#[cfg(test)]
mod tests {
    use std::{io::Write, time::Duration};

    use super::*;
    use crate::channel::tests::pair;

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(20)
    }

    /// The result if the child writes `words` some time after the request.
    fn hear(words: &[u8], bytes_max: usize, take_part: impl FnMut(&[u8]) -> bool) -> Heard {
        let (ours, theirs) = pair();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                theirs.wait(BYTES, None);
                (&theirs).write_all(words).unwrap();
            });
            exchange(&ours, b"job", bytes_max, (soon() + Duration::from_secs(5), None), take_part)
        })
    }

    #[test]
    fn a_reply_is_heard() {
        assert_eq!(hear(&[2, 0, 0, 0, 7, 8], 2, |_| false), Heard::Reply(vec![7, 8]));
    }

    #[test]
    fn parts_come_before_the_reply_and_share_its_limit() {
        for (bytes_max, expected) in
            [(3, Heard::Reply(vec![9])), (2, Heard::Malformed { detail: String::new() })]
        {
            let mut parts = Vec::new();
            let heard = hear(&[1, 0, 0, 0, 7, 1, 0, 0, 0, 8, 1, 0, 0, 0, 9], bytes_max, |part| {
                let is_part = parts.len() < 2;
                parts.extend(is_part.then(|| part.to_vec()));
                is_part
            });
            assert_eq!(parts, [[7], [8]]);
            let is_as_expected =
                heard == expected || matches!(&heard, Heard::Malformed { .. } if bytes_max == 2);
            assert!(is_as_expected, "{heard:?}");
        }
    }

    #[test]
    fn silence_ends_at_the_deadline_and_with_the_child() {
        let (ours, _theirs) = pair();
        let job = vec![0; 8 << 20];
        assert_eq!(exchange(&ours, &job, 2, (soon(), None), |_| false), Heard::TimedOut);
        ours.close();
        assert_eq!(exchange(&ours, b"", 2, (soon(), None), |_| false), Heard::Closed);
    }

    #[test]
    fn a_child_that_does_not_read_is_not_waited_for_until_the_deadline() {
        let (ours, theirs) = pair();
        let deadline = Instant::now() + Duration::from_secs(60);
        let place = ours.position();
        assert_eq!(exchange(&ours, b"job", 2, (deadline, Some(soon())), |_| false), Heard::NotTaken);
        // A child that has started to read has until the deadline.
        theirs.take(&mut [0]).unwrap();
        let deadline = soon() + Duration::from_millis(50);
        let heard = Exchange::new(2).finish(&ours, b"job", (place, Some(soon())), deadline, |_| false);
        assert_eq!(heard, Heard::TimedOut);
    }

    #[test]
    fn parts_that_were_left_are_taken_without_being_woken_for() {
        let (ours, theirs) = pair();
        theirs.write_without_wake(&[1, 0, 0, 0, 7, 1, 0, 0, 0, 8]).unwrap();
        let mut parts = Vec::new();
        let mut exchange = Exchange::new(9);
        let heard = exchange.hear(&ours, &mut |part| {
            parts.extend_from_slice(part);
            true
        });
        assert_eq!((heard, parts), (None, vec![7, 8]));
    }

    #[test]
    fn last_words_are_heard() {
        let (ours, theirs) = pair();
        let heard = std::thread::scope(|scope| {
            scope.spawn(|| {
                theirs.wait(BYTES, None);
                (&theirs).write_all(&[1, 0, 0, 0, 7]).unwrap();
                ours.close();
            });
            exchange(&ours, b"job", 2, (soon() + Duration::from_secs(5), None), |_| false)
        });
        assert_eq!(heard, Heard::Reply(vec![7]));
    }

    #[test]
    fn hostile_replies_are_refused() {
        for reply in [&[3, 0, 0, 0][..], &[255; 4], &[1, 0, 0, 0, 7, 8]] {
            let heard = hear(reply, 2, |_| false);
            assert!(matches!(heard, Heard::Malformed { .. }), "{reply:?}: {heard:?}");
        }
    }

    #[test]
    fn what_nobody_asked_for_is_no_reply() {
        let (ours, theirs) = pair();
        (&theirs).write_all(&[1, 0, 0, 0, 7]).unwrap();
        let heard = exchange(&ours, b"job", 2, (soon(), None), |_| false);
        assert!(matches!(heard, Heard::Malformed { .. }), "{heard:?}");
    }
}

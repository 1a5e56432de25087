//! Frames: postcard after a `u32` little-endian length.

use std::io::{self, Read};

use serde::{Serialize, de::DeserializeOwned};

/// Bytes of a frame's length prefix.
pub(crate) const LENGTH_BYTES: usize = 4;

/// Space for most frames without reallocation.
const FRAME_BYTES: usize = 2 << 10;

/// Maximum bytes of a job's frame: only its arguments have a variable size.
pub const JOB_BYTES_MAX: usize = 16 << 20;

/// Maximum bytes of a report's frame, whatever the limit of debug output.
pub const REPORT_BYTES_MAX: usize = 64 << 20;

/// Why bytes are not a frame.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    /// The length exceeds the limit.
    #[error("a frame of {bytes} bytes is over the limit of {bytes_max}")]
    TooLarge {
        /// Announced bytes.
        bytes: usize,
        /// Maximum bytes.
        bytes_max: usize,
    },
    /// The content does not decode.
    #[error("the frame's content is malformed")]
    Malformed(#[from] postcard::Error),
    /// There are bytes after the decoded content.
    #[error("{bytes} bytes follow the frame's content")]
    Trailing {
        /// Their number.
        bytes: usize,
    },
    /// The stream broke.
    #[error("the frame cannot be read")]
    Io(#[from] io::Error),
}

/// The frame of `message`.
pub(crate) fn encode<T: Serialize>(message: &T, bytes_max: usize) -> Result<Vec<u8>, FrameError> {
    let mut space = Vec::with_capacity(FRAME_BYTES);
    space.resize(LENGTH_BYTES, 0);
    let mut frame = postcard::to_extend(message, space)?;
    let bytes = frame.len() - LENGTH_BYTES;
    let too_large = FrameError::TooLarge { bytes, bytes_max };
    match u32::try_from(bytes) {
        Ok(length) if bytes <= bytes_max => frame[..LENGTH_BYTES].copy_from_slice(&length.to_le_bytes()),
        _ => return Err(too_large),
    }
    Ok(frame)
}

/// Content length of the frame with the prefix `length`.
pub(crate) fn content_bytes(length: [u8; LENGTH_BYTES], bytes_max: usize) -> Result<usize, FrameError> {
    let bytes = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
    if bytes > bytes_max { Err(FrameError::TooLarge { bytes, bytes_max }) } else { Ok(bytes) }
}

/// Decodes `content` (a frame without its length).
pub(crate) fn decode<T: DeserializeOwned>(content: &[u8]) -> Result<T, FrameError> {
    match postcard::take_from_bytes(content)? {
        (message, []) => Ok(message),
        (_, rest) => Err(FrameError::Trailing { bytes: rest.len() }),
    }
}

/// Reads one frame from a blocking stream.
pub(crate) fn read<T: DeserializeOwned>(stream: &mut impl Read, bytes_max: usize) -> Result<T, FrameError> {
    let mut length = [0; LENGTH_BYTES];
    stream.read_exact(&mut length)?;
    let mut content = vec![0; content_bytes(length, bytes_max)?];
    stream.read_exact(&mut content)?;
    decode(&content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_round_trip() {
        let message = ("text".to_owned(), 7_u64, vec![1_u8, 2]);
        let frame = encode(&message, 64).unwrap();
        assert_eq!(read::<(String, u64, Vec<u8>)>(&mut frame.as_slice(), 64).unwrap(), message);
    }

    #[test]
    fn frames_have_a_limit() {
        assert!(matches!(encode(&"four", 4), Err(FrameError::TooLarge { bytes: 5, bytes_max: 4 })));
        let frame = encode(&"four", 5).unwrap();
        let read = read::<String>(&mut frame.as_slice(), 4);
        assert!(matches!(read, Err(FrameError::TooLarge { bytes: 5, bytes_max: 4 })));
    }

    #[test]
    fn hostile_frames_are_refused() {
        assert!(matches!(decode::<String>(&[4, b'f']), Err(FrameError::Malformed(_))));
        assert!(matches!(decode::<u8>(&[1, 2]), Err(FrameError::Trailing { bytes: 1 })));
        // A length far beyond the content must not cause an allocation.
        assert!(decode::<Vec<String>>(&[0xff, 0xff, 0xff, 0xff, 0x0f]).is_err());
        assert!(read::<u8>(&mut [2, 0, 0].as_slice(), 4).is_err());
    }
}

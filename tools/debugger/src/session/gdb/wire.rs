//! The connection to gdb: data arrives in pieces, but gdb's protocol reads single bytes.

use std::io;

use gdbstub::conn::{Connection, ConnectionExt};

/// Maximum bytes sent at once.
const PIECE: usize = 4_096;

/// A request for supported features without a list of the client's, which the library rejects.
const BARE: &[u8] = b"$qSupported#37";

/// The same request with a list.
const LISTED: &[u8] = b"$qSupported:x-#16";

/// A connection to gdb.
pub trait Wire {
    /// Waits for data; returns 0 if gdb is gone.
    ///
    /// # Errors
    /// The connection is broken.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize>;

    /// Whether data has arrived, or gdb is gone.
    ///
    /// # Errors
    /// The connection is broken.
    fn is_waiting(&mut self) -> io::Result<bool>;

    /// Sends all bytes.
    ///
    /// # Errors
    /// The connection is broken.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;
}

/// A connection with buffers for both directions.
pub(super) struct Buffered<W> {
    wire: W,
    come: Vec<u8>,
    taken: usize,
    sent: Vec<u8>,
}

impl<W: Wire> Buffered<W> {
    pub(super) fn new(wire: W) -> Self {
        Self { wire, come: Vec::new(), taken: 0, sent: Vec::new() }
    }

    fn next(&self) -> Option<u8> {
        self.come.get(self.taken).copied()
    }

    fn fill(&mut self) -> io::Result<()> {
        self.come.resize(PIECE, 0);
        let count = self.wire.read(&mut self.come)?;
        self.come.truncate(count);
        self.taken = 0;
        if let Some(start) = self.come.windows(BARE.len()).position(|bytes| bytes == BARE) {
            self.come.splice(start..start + BARE.len(), LISTED.iter().copied());
        }
        if count == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    /// Acknowledges a packet and replies that it is invalid.
    pub(super) fn refuse(&mut self) -> io::Result<()> {
        self.write_all(b"+$E16#ac")?;
        self.flush()
    }
}

impl<W: Wire> Connection for Buffered<W> {
    type Error = io::Error;

    fn write(&mut self, byte: u8) -> io::Result<()> {
        self.sent.push(byte);
        Ok(())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sent.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.sent.is_empty() {
            self.wire.write(&std::mem::take(&mut self.sent))?;
        }
        Ok(())
    }
}

impl<W: Wire> ConnectionExt for Buffered<W> {
    fn read(&mut self) -> io::Result<u8> {
        loop {
            if let Some(byte) = self.next() {
                self.taken += 1;
                return Ok(byte);
            }
            // Flush before waiting, because the other side may wait for buffered data.
            self.flush()?;
            self.fill()?;
        }
    }

    fn peek(&mut self) -> io::Result<Option<u8>> {
        self.flush()?;
        if self.next().is_none() && self.wire.is_waiting()? {
            self.fill()?;
        }
        Ok(self.next())
    }
}

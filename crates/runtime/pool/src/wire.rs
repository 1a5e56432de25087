//! The socket between supervisor and zygote: each packet is one message, with descriptors.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{BorrowedFd, OwnedFd},
};

use antares_sandbox::{EXTRA_FDS_MAX, LayerStatus};
use rustix::{
    io::{Errno, retry_on_intr},
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
        SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg,
        socketpair,
    },
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Maximum bytes of a packet from a zygote; the longest one lists the layers.
pub(crate) const NEWS_BYTES_MAX: usize = 16 << 10;
/// Maximum bytes of a packet to a zygote.
pub(crate) const SPAWN_BYTES_MAX: usize = 64;
/// Maximum descriptors of a packet.
pub(crate) const PACKET_FDS_MAX: usize = 3 + EXTRA_FDS_MAX;

/// From supervisor to zygote: fork a child. Its descriptors are the child's end of a channel, the sealed ELF,
/// and those that the fields announce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Spawn {
    /// The supervisor's number for the child.
    pub(crate) ticket: u64,
    /// Number of libraries, or of output files, which come third.
    pub(crate) extras: u8,
    /// Whether a pipe for standard error comes last.
    pub(crate) has_stderr: bool,
}

/// From zygote to supervisor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum News {
    /// The zygote is in its sandbox and has passed the self-test.
    Ready { layers: Vec<LayerStatus> },
    /// The zygote cannot work, and ends.
    Failed { detail: String },
    /// The child was forked; its pidfd accompanies this packet.
    Spawned { ticket: u64 },
    /// The child could not be forked.
    NotSpawned { ticket: u64, detail: String },
    /// The child has ended and was reaped.
    Ended { ticket: u64, end: End },
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum End {
    /// It exited with this status.
    Exit(i32),
    /// This signal killed it.
    Signal(i32),
}

/// Two connected packet sockets.
pub(crate) fn packet_pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// Sends one message with descriptors. Blocks while the peer's queue is full.
pub(crate) fn send<T: Serialize>(
    socket: BorrowedFd<'_>,
    message: &T,
    fds: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let packet = postcard::to_stdvec(message).map_err(io::Error::other)?;
    if packet.len() > NEWS_BYTES_MAX {
        return Err(Errno::MSGSIZE.into());
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PACKET_FDS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::TOOMANYREFS.into());
    }
    retry_on_intr(|| sendmsg(socket, &[IoSlice::new(&packet)], &mut ancillary, SendFlags::NOSIGNAL))?;
    Ok(())
}

/// Waits for one message of at most `BYTES` bytes. `None` when the peer is gone.
pub(crate) fn receive<T: DeserializeOwned, const BYTES: usize>(
    socket: BorrowedFd<'_>,
) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut packet = [0; BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PACKET_FDS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = retry_on_intr(|| {
        recvmsg(socket, &mut [IoSliceMut::new(&mut packet)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    });
    let received = match received {
        Ok(received) => received,
        Err(Errno::CONNRESET) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut fds = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(Errno::MSGSIZE.into());
    }
    if received.bytes == 0 {
        return Ok(None);
    }
    let message = postcard::from_bytes(&packet[..received.bytes]).map_err(io::Error::other)?;
    Ok(Some((message, fds)))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn messages_travel_with_descriptors() {
        let (ours, theirs) = packet_pair().unwrap();
        let spawn = Spawn { ticket: 3, extras: 1, has_stderr: false };
        send(ours.as_fd(), &spawn, &[ours.as_fd(), theirs.as_fd()]).unwrap();
        let (message, fds) = receive::<Spawn, SPAWN_BYTES_MAX>(theirs.as_fd()).unwrap().unwrap();
        assert_eq!((message, fds.len()), (spawn, 2));
        drop((ours, fds));
        assert!(receive::<Spawn, SPAWN_BYTES_MAX>(theirs.as_fd()).unwrap().is_none());
    }
}

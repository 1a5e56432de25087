//! Section `[admin]`: how who operates a process is told from who calls it, beside `[auth]`.

use std::path::PathBuf;

use crate::{check::Checker, section::section};

section! {
/// Who administers, beside whom `[auth]` lets.
"admin": RawAdmin {
    /// Socket (a file that this user alone may open) whose callers have the role admin, with or without
    /// `[auth]`: `--server unix:///run/antares/admin.sock`. Empty for none.
    socket: folder_or_none;
    /// Where nobody is asked who calls: whether everybody on the loopback network has the role admin. A proxy
    /// on this machine makes everybody such a peer.
    loopback: flag;
}
}

/// Longest path of a socket, bytes: what the system has room for.
const SOCKET_BYTES_MAX: usize = 107;

/// Who has the role of an administrator without having proven it to `[auth]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdminAccess {
    /// Socket whose callers have it.
    pub socket: Option<PathBuf>,
    /// Whether all peers on the loopback network have it.
    pub loopback: bool,
}

impl RawAdmin {
    /// `is_asked` says whether callers are asked who they are.
    pub(crate) fn check(&self, is_asked: bool, checker: &mut Checker) -> AdminAccess {
        let bytes = self.socket.as_os_str().len();
        if bytes > SOCKET_BYTES_MAX {
            let problem = format!("has {bytes} bytes; a socket's path has at most {SOCKET_BYTES_MAX}");
            checker.note("admin.socket", problem);
        }
        if self.loopback && is_asked {
            checker.note("admin.loopback", "makes no sense with [auth], whose rules say who administers");
        }
        AdminAccess { socket: (bytes > 0).then(|| self.socket.clone()), loopback: self.loopback }
    }
}

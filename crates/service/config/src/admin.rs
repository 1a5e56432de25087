//! Section `[admin]`: which callers administer a process, in addition to those with the role by `[auth]`.

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

/// Maximum length of a socket's path in bytes: the size of `sun_path` without its final zero.
const SOCKET_BYTES_MAX: usize = 107;

/// Callers that have the role admin without authentication by `[auth]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdminAccess {
    /// Socket whose callers have the role.
    pub socket: Option<PathBuf>,
    /// Whether all peers on the loopback network have the role.
    pub loopback: bool,
}

impl RawAdmin {
    /// `is_asked`: whether callers must authenticate.
    pub(crate) fn check(&self, is_asked: bool, checker: &mut Checker) -> AdminAccess {
        let bytes = self.socket.as_os_str().len();
        if bytes > SOCKET_BYTES_MAX {
            let problem = format!("has {bytes} bytes; a socket's path has at most {SOCKET_BYTES_MAX}");
            checker.record("admin.socket", problem);
        }
        if self.loopback && is_asked {
            checker.record("admin.loopback", "makes no sense with [auth], whose rules say who administers");
        }
        AdminAccess { socket: (bytes > 0).then(|| self.socket.clone()), loopback: self.loopback }
    }
}

//! The section `admin` as it is written.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Section `[admin]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawAdmin {
    /// Socket (a file that this user alone may open) whose callers have the role admin, with or without
    /// `[auth]`:
    /// `--server unix:///run/antares/admin.sock`. Empty for none.
    pub socket: PathBuf,
    /// Where nobody is asked who calls: whether everybody on the loopback network has the role admin. A
    /// proxy on this machine makes everybody such a peer.
    pub loopback: bool,
}

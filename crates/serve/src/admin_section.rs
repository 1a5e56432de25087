//! Section `[admin]`: how who operates a process is told from who calls it, beside `[auth]`.

use std::path::PathBuf;

use crate::{check::Checker, raw_config::RawConfig};

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

/// `is_asked` says whether callers are asked who they are.
pub(crate) fn check_admin(config: &RawConfig, is_asked: bool, checker: &mut Checker) -> AdminAccess {
    let raw = &config.admin;
    let bytes = raw.socket.as_os_str().len();
    if bytes > SOCKET_BYTES_MAX {
        let problem = format!("has {bytes} bytes; a socket's path has at most {SOCKET_BYTES_MAX}");
        checker.note("admin.socket", problem);
    }
    if raw.loopback && is_asked {
        let problem = "makes no sense with [auth], whose rules say who administers".to_owned();
        checker.note("admin.loopback", problem);
    }
    AdminAccess { socket: (bytes > 0).then(|| raw.socket.clone()), loopback: raw.loopback }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config_error::ConfigError, role::Role};

    fn mistakes(text: &str) -> Vec<String> {
        let raw: RawConfig = toml::from_str(text).unwrap();
        match raw.check(Role::Both, &[]) {
            Ok(_) => Vec::new(),
            Err(ConfigError::Mistakes(mistakes)) => mistakes.into_iter().map(|mistake| mistake.key).collect(),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn paths_fit_and_rules_decide_where_there_are_some() {
        assert!(mistakes("[admin]\nsocket = \"/run/antares/admin.sock\"\nloopback = true").is_empty());
        let asked = "[admin]\nloopback = true\n[tls]\nclient_ca = \"ca.pem\"";
        assert!(mistakes(asked).contains(&"admin.loopback".to_owned()));
        let long = format!("[admin]\nsocket = \"/{}\"", "x".repeat(SOCKET_BYTES_MAX));
        assert_eq!(mistakes(&long), ["admin.socket"]);
    }
}

//! Detects paths with a special meaning on Windows: devices, alternate data streams, shares of other machines.
//! Scripts could reach them from any folder, in some cases by a mere lookup.

/// Device names in every folder, on some versions with any extension.
const DEVICES: [&str; 6] = ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"];
/// Device names followed by a digit; the last three digits are in Latin-1.
const PORTS: [&str; 2] = ["COM", "LPT"];
const PORT_DIGITS: &str = "0123456789¹²³";

/// Whether `path` is on a drive, or relative, so that its lookup contacts no other machine. A path from the
/// user may be on a share: its lookup sends the user's name and password proof there.
pub(crate) fn is_plain(path: &str, is_named: bool) -> bool {
    below_root(path, is_named).is_some_and(|names| names.split(is_separator).all(is_plain_name))
}

fn is_separator(letter: char) -> bool {
    matches!(letter, '/' | '\\')
}

/// The path after the drive or the share.
fn below_root(path: &str, is_named: bool) -> Option<&str> {
    let Some(share) = path.strip_prefix(is_separator).and_then(|path| path.strip_prefix(is_separator)) else {
        return Some(below_drive(path).unwrap_or(path));
    };
    let (server, below) = share.split_once(is_separator).filter(|_| is_named)?;
    match server {
        // The result of `canonicalize`, which tools pass on.
        "?" => below_drive(below).filter(|names| names.starts_with(is_separator)),
        "." => None,
        _ => Some(below),
    }
}

fn below_drive(path: &str) -> Option<&str> {
    path.strip_prefix(|drive: char| drive.is_ascii_alphabetic())?.strip_prefix(':')
}

fn is_plain_name(name: &str) -> bool {
    if matches!(name, "" | "." | "..") {
        return true;
    }
    // Some versions drop trailing dots and spaces, others do not.
    let is_exact = !name.ends_with(['.', ' ']);
    let is_text = name.chars().all(|letter| letter >= ' ' && !r#"<>:"|?*"#.contains(letter));
    is_exact && is_text && !is_device(name)
}

fn is_device(name: &str) -> bool {
    let stem = name.split_once('.').map_or(name, |(stem, _)| stem).trim_end_matches(' ');
    let stem = stem.to_ascii_uppercase();
    let is_port = |port: &str| {
        let mut digits = stem.strip_prefix(port).unwrap_or_default().chars();
        digits.next().is_some_and(|digit| PORT_DIGITS.contains(digit)) && digits.next().is_none()
    };
    DEVICES.contains(&stem.as_str()) || PORTS.into_iter().any(is_port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_drives_are_plain() {
        let plain = r"file a/b.c a\b.c ..\x ./x C:\folder\file.txt c:/folder//file C:file \file console com10 LPTx
                      a.con ...x naïve";
        for path in plain.split_whitespace() {
            assert!(is_plain(path, false), "{path}");
        }
    }

    #[test]
    fn devices_and_streams_are_not_plain_whoever_names_them() {
        // A raw string: backslashes are those of the names.
        let devices = r"CON nul Aux.txt NUL. folder\PRN folder/com1/file LPT9.log COM¹ conin$ C:\x\CONOUT$ C:nul
                        file:stream file::$DATA C:\x:$I30:$INDEX_ALLOCATION \\.\COM1 \\.\pipe\name //./pipe/name
                        \\.\C:\file \??\C:\file \\?\GLOBALROOT\Device\Harddisk0 \\?\pipe\name
                        \\?\UNC\server\share\file \\?\C:file \\?\C:\NUL \\server\share\CON \\ \\server file.
                        .../x a* a? a|b";
        let with_spaces = ["NUL .x", "nul ", "file ", ".. /x", "a\tb"];
        for path in devices.split_whitespace().chain(with_spaces) {
            assert!(!is_plain(path, false), "{path}");
            assert!(!is_plain(path, true), "{path}");
        }
    }

    #[test]
    fn shares_are_asked_where_the_user_named_the_file_alone() {
        for path in
            [r"\\server\share\file", "//server/share/file", r"/\server/share\file", r"\\?\C:\folder\file"]
        {
            assert!(!is_plain(path, false), "{path}");
            assert!(is_plain(path, true), "{path}");
        }
    }
}

//! Credentials of S3 from the file that its other tools keep them in; and whether files with credentials of
//! any kind have changed.
//!
//! The environment, web identities, roles of pods and of machines are the client's own, which renews them;
//! that file it does not read.

use std::{env, fs, os::unix::fs::MetadataExt as _, path::PathBuf};

/// Files that a client reads when it is made, by the names that the environment has for them.
const READ_ONCE: [&str; 4] = [
    "GOOGLE_SERVICE_ACCOUNT",
    "GOOGLE_SERVICE_ACCOUNT_PATH",
    "SERVICE_ACCOUNT",
    "GOOGLE_APPLICATION_CREDENTIALS",
];

/// What the file has for one profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileCredentials {
    pub(crate) key_id: String,
    pub(crate) secret: String,
    pub(crate) token: Option<String>,
}

/// The file for S3; none where what comes before it is there: keys in the environment, or a web identity.
fn path() -> Option<PathBuf> {
    let is_set = |name: &str| env::var_os(name).is_some();
    if is_set("AWS_ACCESS_KEY_ID") || is_set("AWS_WEB_IDENTITY_TOKEN_FILE") && is_set("AWS_ROLE_ARN") {
        return None;
    }
    match env::var_os("AWS_SHARED_CREDENTIALS_FILE") {
        Some(path) => Some(PathBuf::from(path)),
        None => Some(PathBuf::from(env::var_os("HOME")?).join(".aws/credentials")),
    }
}

/// What is seen of the files with credentials; another one when they change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stamp(Vec<Option<[i64; 5]>>);

impl Stamp {
    /// Reads their metadata, links followed: where secrets are mounted, a link changes.
    pub(crate) fn now() -> Self {
        let others = READ_ONCE.iter().filter_map(|name| env::var_os(name).map(PathBuf::from));
        let seen = path().into_iter().chain(others).map(|path| {
            let found = fs::metadata(path).ok()?;
            let [file, length] = [found.ino(), found.len()].map(u64::cast_signed);
            Some([found.mtime(), found.mtime_nsec(), found.ctime_nsec(), file, length])
        });
        Self(seen.collect())
    }

    /// Whether the files are there and have credentials: one that is just written may not.
    pub(crate) fn is_whole(&self) -> bool {
        self.0.iter().any(Option::is_some) && path().is_none_or(|path| !path.exists() || of_file().is_some())
    }
}

/// The credentials of the profile in force; none where others come before them, or there is no such file.
pub(crate) fn of_file() -> Option<FileCredentials> {
    let path = path()?;
    let profile = env::var("AWS_PROFILE").unwrap_or_else(|_| "default".to_owned());
    parse(&fs::read_to_string(path).ok()?, &profile)
}

fn parse(text: &str, profile: &str) -> Option<FileCredentials> {
    let mut found = FileCredentials::default();
    let mut is_in_profile = false;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            is_in_profile = name.trim() == profile;
        } else if let (true, Some((key, value))) = (is_in_profile, line.split_once('=')) {
            let value = value.trim().to_owned();
            match key.trim() {
                "aws_access_key_id" => found.key_id = value,
                "aws_secret_access_key" => found.secret = value,
                "aws_session_token" => found.token = Some(value),
                _ => {}
            }
        }
    }
    (!found.key_id.is_empty() && !found.secret.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_of_the_file_are_told_apart() {
        let text = "# mine\n[default]\naws_access_key_id = A\naws_secret_access_key=B\n[ci]\naws_access_key_id=C\n\
                    aws_secret_access_key = D=\naws_session_token = E\nregion = x\n[half]\naws_access_key_id=F\n";
        let of = |key_id: &str, secret: &str, token: Option<&str>| {
            Some(FileCredentials {
                key_id: key_id.into(),
                secret: secret.into(),
                token: token.map(str::to_owned),
            })
        };
        assert_eq!(parse(text, "default"), of("A", "B", None));
        assert_eq!(parse(text, "ci"), of("C", "D=", Some("E")));
        assert_eq!(parse(text, "half"), None);
        assert_eq!(parse(text, "none"), None);
    }
}

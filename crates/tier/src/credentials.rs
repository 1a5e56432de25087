//! Credentials of S3 from the file that its other tools keep them in.
//!
//! The environment, roles of pods and of machines are the client's own; the file it does not read.

use std::{env, fs, path::PathBuf};

/// What the file has for one profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileCredentials {
    pub(crate) key_id: String,
    pub(crate) secret: String,
    pub(crate) token: Option<String>,
}

/// The credentials of the profile in force; none where the environment has some, or there is no such file.
pub(crate) fn of_file() -> Option<FileCredentials> {
    if env::var_os("AWS_ACCESS_KEY_ID").is_some() {
        return None;
    }
    let path = match env::var_os("AWS_SHARED_CREDENTIALS_FILE") {
        Some(path) => PathBuf::from(path),
        None => PathBuf::from(env::var_os("HOME")?).join(".aws/credentials"),
    };
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

//! A server's sampled profile of all runs of a script, instead of a local profile.

use std::{collections::BTreeMap, path::Path};

use antares_abi::Sha256Digest;
use antares_profile_view::{Format, read_archive};
use antares_proto::v1;
use anyhow::Context as _;

use crate::{
    args::TargetArgs, failure::Failure, input, limits::SCRIPT_BYTES_MAX, local::loaded::loaded_part,
    local::profiled::Profiled, remote::calls::Server,
};

/// The server's profile of `args`: a script by digest or file, or everything.
pub(crate) fn profile(url: &str, args: &TargetArgs) -> Result<Profiled, Failure> {
    let script = args.elf.as_deref().map(digest).transpose()?;
    let selection =
        v1::ProfileSelection { script: script.map(|digest| digest.to_string()), window_ms: args.window_ms };
    let request = v1::GetProfileRequest {
        selection: Some(selection),
        // Includes the scripts, from which everything else is derived here.
        format: Some(Format::Antares.into_str().to_owned()),
    };
    let answer = Server::parse(url, &args.credentials)?.profile(request)?;
    let (profile, programs) = read_archive(&answer.profile)
        .with_context(|| format!("{url} gave an answer that makes no sense"))
        .map_err(Failure::Service)?;
    let mut labels = BTreeMap::from([("server".to_owned(), url.to_owned())]);
    if let Some(script) = script {
        labels.insert("script".to_owned(), script.to_string());
    }
    let outcome = format!("{} cycles of all runs that {url} has seen", profile.sum().cycles);
    Ok(Profiled { profile, programs, labels, outcome, ending: String::new(), size_bytes: 0 })
}

/// `name` as a digest, or the digest of the file of that name.
pub(crate) fn digest(name: &Path) -> Result<Sha256Digest, Failure> {
    if let Some(digest) = name.to_str().and_then(|text| text.parse().ok()) {
        return Ok(digest);
    }
    let bytes = input::read_elf(name, SCRIPT_BYTES_MAX)?;
    // Only the loaded part of a long script was sent to the server.
    let part = (bytes.len() as u64 > SCRIPT_BYTES_MAX).then(|| loaded_part(&bytes)).flatten();
    Ok(Sha256Digest::of(part.as_deref().unwrap_or(&bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_named_by_digest_or_by_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("script.elf");
        std::fs::write(&path, b"script").unwrap();
        let expected = Sha256Digest::of(b"script");
        assert_eq!(digest(&path).ok(), Some(expected));
        assert_eq!(digest(Path::new(&expected.to_string())).ok(), Some(expected));
        assert!(digest(Path::new("/nowhere")).is_err());
    }
}

//! Keys in a folder: a world-readable list with public keys and revocations, and a private file for each key
//! that may sign here.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use antares_abi::Sha256Digest;
use aws_lc_rs::{
    rand::SystemRandom,
    signature::{Ed25519KeyPair, KeyPair as _},
};
use serde::{Deserialize, Serialize};

/// File name of the list within the folder. Copy the file to each machine that runs the artifacts signed
/// here.
pub const LIST: &str = "trusted.json";

/// Bytes of a key's id: the start of the public key's digest.
const ID_BYTES: usize = 8;

/// Why keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// A file cannot be read or written.
    #[error("{0}: {1}")]
    Io(PathBuf, #[source] io::Error),
    /// A file is malformed, and how.
    #[error("{0} is invalid: {1}")]
    Malformed(PathBuf, String),
    /// The name is neither a key in the list nor a digest.
    #[error("{0} is no key of the list and no digest of an artifact")]
    NoSuch(String),
    /// The name is the signing key.
    #[error("{0} is the key that signs: rotate first")]
    Signs(String),
    /// Key generation failed.
    #[error("no key could be made")]
    Make,
}

/// A public key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublicKey {
    /// Its id.
    pub id: String,
    /// The Ed25519 public key, 64 hex digits.
    pub public: String,
}

/// Contents of the file [`LIST`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct List {
    signer: String,
    keys: Vec<PublicKey>,
    revoked_keys: BTreeSet<String>,
    revoked_digests: BTreeSet<String>,
}

/// Trusted keys, revocations, and optionally a signing key.
#[derive(Debug)]
pub struct Keyring {
    list: List,
    public: BTreeMap<String, Vec<u8>>,
    pair: Option<Ed25519KeyPair>,
}

/// Whether `text` has the form of a key id.
pub fn is_key_id(text: &str) -> bool {
    text.len() == 2 * ID_BYTES && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

impl Keyring {
    /// Opens the keys in `folder`; creates a first key if there is none.
    ///
    /// # Errors
    /// A file cannot be read or written, or is malformed.
    pub fn open_or_make(folder: &Path) -> Result<Self, KeyError> {
        if !folder.join(LIST).exists() {
            Self::generate(folder, true)?;
        }
        take_from_others(folder);
        take_from_others(&folder.join(LIST));
        Self::open(folder)
    }

    /// Opens the keys in `folder`, including the signing key.
    ///
    /// # Errors
    /// A file cannot be read, or is malformed.
    pub fn open(folder: &Path) -> Result<Self, KeyError> {
        let mut keyring = Self::read(&folder.join(LIST))?;
        let path = private(folder, &keyring.list.signer);
        let der = fs::read(&path).map_err(|source| KeyError::Io(path.clone(), source))?;
        let wrong = |problem: &str| KeyError::Malformed(path.clone(), problem.to_owned());
        let pair = Ed25519KeyPair::from_pkcs8(&der).map_err(|_| wrong("it is no Ed25519 key"))?;
        if keyring.public(&keyring.list.signer) != Some(pair.public_key().as_ref()) {
            return Err(wrong("the list has another public half"));
        }
        keyring.pair = Some(pair);
        Ok(keyring)
    }

    /// Reads only the list, without a signing key.
    ///
    /// # Errors
    /// The file cannot be read, or is malformed.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let list = read_list(path)?;
        let wrong = |problem: String| KeyError::Malformed(path.to_owned(), problem);
        let mut public = BTreeMap::new();
        for key in &list.keys {
            let bytes = hex::decode(&key.public).ok().filter(|bytes| id_of(bytes) == key.id);
            let bytes = bytes.ok_or_else(|| wrong(format!("key {} is not what its id says", key.id)))?;
            public.insert(key.id.clone(), bytes);
        }
        Ok(Self { list, public, pair: None })
    }

    /// Creates a trusted key in `folder`; it becomes the signing key if `signs` is set or no key signs yet.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn generate(folder: &Path, signs: bool) -> Result<String, KeyError> {
        let io = |path: &Path| {
            let path = path.to_owned();
            move |source| KeyError::Io(path, source)
        };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(io(folder))?;
        let path = folder.join(LIST);
        let mut list = if path.exists() { read_list(&path)? } else { List::default() };
        let der = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|_| KeyError::Make)?;
        let pair = Ed25519KeyPair::from_pkcs8(der.as_ref()).map_err(|_| KeyError::Make)?;
        let public = pair.public_key().as_ref();
        let id = id_of(public);
        let key = private(folder, &id);
        let mut file =
            fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&key).map_err(io(&key))?;
        file.write_all(der.as_ref()).and_then(|()| file.sync_all()).map_err(io(&key))?;
        list.keys.push(PublicKey { id: id.clone(), public: hex::encode(public) });
        if signs || list.signer.is_empty() {
            list.signer.clone_from(&id);
        }
        write_list(&path, &list)?;
        Ok(id)
    }

    /// Makes a trusted key the signing key.
    ///
    /// # Errors
    /// The key is not in the list, or its private file is missing.
    pub fn sign_with(folder: &Path, id: &str) -> Result<(), KeyError> {
        let path = folder.join(LIST);
        let mut list = read_list(&path)?;
        let is_there = list.keys.iter().any(|key| key.id == id) && !list.revoked_keys.contains(id);
        if !is_there || !private(folder, id).exists() {
            return Err(KeyError::NoSuch(id.to_owned()));
        }
        id.clone_into(&mut list.signer);
        write_list(&path, &list)
    }

    /// Revokes a key, or the digest of an artifact or script. From then on, artifacts that the key signed,
    /// that have the digest or that were compiled from the script are misses.
    ///
    /// # Errors
    /// The name is neither a key nor a digest, or it is the signing key.
    pub fn revoke(folder: &Path, name: &str) -> Result<(), KeyError> {
        let path = folder.join(LIST);
        let mut list = read_list(&path)?;
        if list.signer == name {
            return Err(KeyError::Signs(name.to_owned()));
        }
        if list.keys.iter().any(|key| key.id == name) {
            list.revoked_keys.insert(name.to_owned());
            list.keys.retain(|key| key.id != name);
        } else if let Ok(digest) = name.parse::<Sha256Digest>() {
            list.revoked_digests.insert(digest.to_string());
        } else {
            return Err(KeyError::NoSuch(name.to_owned()));
        }
        write_list(&path, &list)
    }

    /// Trusted keys.
    pub fn keys(&self) -> &[PublicKey] {
        &self.list.keys
    }

    /// Id of the signing key, as the list has it.
    pub fn signer_id(&self) -> &str {
        &self.list.signer
    }

    /// Revoked ids of keys and revoked digests of artifacts and scripts.
    pub fn revoked(&self) -> impl Iterator<Item = &str> {
        self.list.revoked_keys.iter().chain(&self.list.revoked_digests).map(String::as_str)
    }

    pub(crate) fn signer(&self) -> Option<(&str, &Ed25519KeyPair)> {
        Some((self.list.signer.as_str(), self.pair.as_ref()?))
    }

    pub(crate) fn public(&self, id: &str) -> Option<&[u8]> {
        self.public.get(id).map(Vec::as_slice)
    }

    pub(crate) fn is_key_revoked(&self, id: &str) -> bool {
        self.list.revoked_keys.contains(id)
    }

    /// Whether the artifact or the script with this digest is revoked, whichever key signed it.
    pub fn is_digest_revoked(&self, digest: &Sha256Digest) -> bool {
        !self.list.revoked_digests.is_empty() && self.list.revoked_digests.contains(&digest.to_string())
    }
}

fn id_of(public: &[u8]) -> String {
    hex::encode(&Sha256Digest::of(public).0[..ID_BYTES])
}

fn private(folder: &Path, id: &str) -> PathBuf {
    // Ids come from a file: they must not lead out of the folder.
    let id = if is_key_id(id) { id } else { "none" };
    folder.join(format!("{id}.key"))
}

/// Removes write permissions of other users: a file that they can write cannot be trusted. A file that
/// another user owns, or that is on a read-only mount, keeps its mode.
fn take_from_others(path: &Path) {
    let Ok(found) = fs::metadata(path) else { return };
    let mode = found.permissions().mode();
    if mode & 0o022 != 0 {
        // An error is ignored: the mount decides.
        drop(fs::set_permissions(path, fs::Permissions::from_mode(mode & !0o022)));
    }
}

fn read_list(path: &Path) -> Result<List, KeyError> {
    let bytes = fs::read(path).map_err(|source| KeyError::Io(path.to_owned(), source))?;
    serde_json::from_slice(&bytes).map_err(|error| KeyError::Malformed(path.to_owned(), error.to_string()))
}

/// Writes the list atomically.
fn write_list(path: &Path, list: &List) -> Result<(), KeyError> {
    let error = |source| KeyError::Io(path.to_owned(), source);
    let text = serde_json::to_string_pretty(list).map_err(|problem| error(problem.into()))?;
    let new = path.with_extension("new");
    // Remove a leftover file or a symbolic link instead of writing through it.
    drop(fs::remove_file(&new));
    let made = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new);
    let written = made.and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        // Set the mode explicitly, regardless of the umask.
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
        file.sync_all()
    });
    written.and_then(|()| fs::rename(&new, path)).map_err(error)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn nobody_else_may_write_what_decides_which_code_runs() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("deep/keys");
        let id = Keyring::open_or_make(&folder).unwrap().signer_id().to_owned();
        let (list, key) = (folder.join(LIST), private(&folder, &id));
        assert_eq!((mode(&folder), mode(&list), mode(&key)), (0o700, 0o600, 0o600));
        // Modes that an earlier version set under a umask of 0.
        for path in [&folder, &list] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
        }
        Keyring::open_or_make(&folder).unwrap();
        assert_eq!((mode(&folder), mode(&list)), (0o755, 0o755));
        // A symbolic link in place of the new list is not followed.
        let outside = parent.path().join("outside");
        fs::write(&outside, "precious").unwrap();
        symlink(&outside, list.with_extension("new")).unwrap();
        Keyring::revoke(&folder, &Sha256Digest::of(b"x").to_string()).unwrap();
        assert_eq!(fs::read(&outside).unwrap(), b"precious");
    }
}

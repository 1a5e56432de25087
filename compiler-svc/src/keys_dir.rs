//! Default folder of the signing keys: next to the store, not inside, so that restoring or deleting the store
//! does not undo revocations.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use antares_config::Signing;
use antares_trust::LIST;

/// The folder of `signing`'s keys. Moves keys of former versions out of the store. They stay there if nothing
/// can be created next to it: if the store is the root of a volume.
///
/// # Errors
/// The path of the folder belongs to another user.
pub(crate) fn folder(signing: &Signing) -> io::Result<PathBuf> {
    let keys = signing.keys.clone();
    let Some(former) = signing.former_keys.as_deref() else { return Ok(keys) };
    if is_ours(&keys, former)? {
        if former.join(LIST).exists() {
            let (here, there) = (keys.display(), former.display());
            tracing::warn!("keys are in {here}; those in {there}, of an earlier copy, are not looked at");
        }
        return Ok(keys);
    }
    if former.join(LIST).exists() {
        return Ok(moved(former, &keys));
    }
    match fs::DirBuilder::new().create(&keys) {
        Ok(()) if is_on_one_device(&keys, former) => Ok(keys),
        made => {
            if made.is_ok() {
                drop(fs::remove_dir(&keys));
            }
            tracing::warn!(
                "signing keys and what is revoked are kept in {}, and restored and deleted with it: set signing.keys",
                former.display()
            );
            Ok(former.to_owned())
        }
    }
}

fn moved(former: &Path, keys: &Path) -> PathBuf {
    match fs::rename(former, keys) {
        Ok(()) => {
            tracing::info!("keys were moved from {} to {}", former.display(), keys.display());
            keys.to_owned()
        }
        Err(error) => {
            tracing::warn!(
                %error,
                "keys stay in {}, and are restored and deleted with it: set signing.keys",
                former.display()
            );
            former.to_owned()
        }
    }
}

/// Whether the folder exists; a user who could have created it must not decide whose code runs.
fn is_ours(keys: &Path, former: &Path) -> io::Result<bool> {
    let found = match fs::symlink_metadata(keys) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let ours = former.parent().and_then(|store| fs::metadata(store).ok()).map(|store| store.uid());
    let is_ours = found.is_dir() && [Some(0), ours].contains(&Some(found.uid()));
    if !is_ours {
        let problem = format!("{} is no folder of this user", keys.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
    }
    Ok(true)
}

/// Whether `keys` lasts as long as the store that contains `former`.
fn is_on_one_device(keys: &Path, former: &Path) -> bool {
    let device = |path: &Path| fs::metadata(path).ok().map(|found| found.dev());
    former.parent().is_some_and(|store| device(store) == device(keys))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use antares_trust::Keyring;

    use super::*;

    fn of(store: &Path) -> Signing {
        let keys = store.with_file_name("store-keys");
        Signing { keys, former_keys: Some(store.join("keys")), trusted: None }
    }

    #[test]
    fn keys_are_beside_the_store_and_move_out_of_it() {
        let data = tempfile::tempdir().unwrap();
        let (store, beside) = (data.path().join("store"), data.path().join("store-keys"));
        fs::create_dir(&store).unwrap();
        assert_eq!(folder(&of(&store)).unwrap(), beside);
        fs::remove_dir(&beside).unwrap();

        // As earlier versions left them.
        let id = Keyring::open_or_make(&store.join("keys")).unwrap().signer_id().to_owned();
        assert_eq!(folder(&of(&store)).unwrap(), beside);
        assert_eq!(Keyring::open(&beside).unwrap().signer_id(), id);
        assert!(!store.join("keys").exists());

        // A copy of the store with its own keys changes nothing.
        Keyring::open_or_make(&store.join("keys")).unwrap();
        assert_eq!(folder(&of(&store)).unwrap(), beside);
        assert_eq!(Keyring::open(&beside).unwrap().signer_id(), id);
    }

    #[test]
    fn what_others_left_there_is_not_believed() {
        let data = tempfile::tempdir().unwrap();
        let (store, theirs) = (data.path().join("store"), data.path().join("theirs"));
        fs::create_dir(&store).unwrap();
        Keyring::open_or_make(&theirs).unwrap();
        symlink(&theirs, data.path().join("store-keys")).unwrap();
        assert!(folder(&of(&store)).is_err());
    }

    #[test]
    fn a_store_that_is_a_volume_keeps_them_within() {
        // Nothing can be created next to it.
        let store = Path::new("/proc/self");
        let signing = Signing { keys: "/proc/self-keys".into(), ..of(store) };
        assert_eq!(folder(&signing).unwrap(), store.join("keys"));
    }
}

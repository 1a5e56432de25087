//! Hosts that lack a layer: it is reported by name, accepted only by name, and its absence has an effect.

use antares_pool::{Layer, Pool, PoolError, Verdict};

use crate::{
    hostile::{self, attempt, is_ok, is_violation, start},
    layers::{lie, where_it_is_reported},
};

/// Runs `test` where system call `number` fails with `errno`.
fn where_call_fails(number: i64, errno: i32, test: impl FnOnce() + Send) {
    where_it_is_reported(&lie(Layer::Seccomp, number, None), errno, test);
}

/// Whether `layer` is active, with its detail.
fn status(pool: &Pool, layer: Layer) -> (bool, String) {
    let found = hostile::status(pool, layer);
    (found.active, found.detail)
}

#[test]
fn without_landlock_nothing_starts_unless_it_is_accepted() {
    where_call_fails(libc::SYS_landlock_create_ruleset, libc::EPERM, || {
        let pool = start(1, &[Layer::Landlock]).unwrap();
        let refused = "refused, as by the filter of a container".to_owned();
        assert_eq!(status(&pool, Layer::Landlock), (false, refused));
    });
    where_call_fails(libc::SYS_landlock_create_ruleset, libc::ENOSYS, || {
        let missing = match start(1, &[]) {
            Err(PoolError::LayersMissing { missing }) => missing,
            other => panic!("{other:?}"),
        };
        assert_eq!(missing.iter().map(|status| status.layer).collect::<Vec<_>>(), [Layer::Landlock]);
        assert!(matches!(start(1, &[Layer::Capabilities]), Err(PoolError::LayersMissing { .. })));

        let pool = start(1, &[Layer::Landlock]).unwrap();
        let missing = "not in this kernel, or a filter hides it".to_owned();
        assert_eq!(status(&pool, Layer::Landlock), (false, missing));
        // Landlock restricts files in the load stage, and the filter in the run stage.
        assert!(is_ok(&attempt(&pool, "load", "open", &[])));
        assert!(is_violation(&attempt(&pool, "run", "open", &[])));
    });
}

#[test]
fn without_namespaces_the_fence_is_still_whole() {
    where_call_fails(libc::SYS_unshare, libc::EPERM, || {
        let pool = start(1, &[]).unwrap();
        assert_eq!(status(&pool, Layer::Namespaces), (false, "the host does not permit them".to_owned()));
        assert_eq!(attempt(&pool, "load", "open", &[]), Verdict::Done(format!("errno {}", libc::EACCES)));
        assert!(is_violation(&attempt(&pool, "run", "socket", &[])));
    });
}

#[test]
fn without_seccomp_nothing_starts() {
    for (call, errno, allowed, reason) in [
        (libc::SYS_seccomp, libc::ENOSYS, &Layer::ALL[..], "seccomp"),
        // A zygote that cannot fork.
        (libc::SYS_clone, libc::EAGAIN, &[], "fork"),
    ] {
        where_call_fails(call, errno, || {
            let error = start(1, allowed).unwrap_err();
            assert!(error.to_string().contains(reason), "{reason}: {error}");
        });
    }
}

//! The session of a machine: ckb-script creates machines itself and passes none of our data to them, so they
//! take the session that is current on their thread.

use std::{cell::RefCell, sync::Arc, thread::LocalKey};

pub(crate) type Current<S> = RefCell<Option<Arc<S>>>;

/// Runs `work` with `session` as the current one of this thread.
pub(crate) fn enter<S: 'static, T>(
    current: &'static LocalKey<Current<S>>,
    session: &Arc<S>,
    work: impl FnOnce() -> T,
) -> T {
    struct Restore<S: 'static>(&'static LocalKey<Current<S>>, Option<Arc<S>>);
    impl<S> Drop for Restore<S> {
        fn drop(&mut self) {
            self.0.set(self.1.take());
        }
    }
    let _restore = Restore(current, current.replace(Some(session.clone())));
    work()
}

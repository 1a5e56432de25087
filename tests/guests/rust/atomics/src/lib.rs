//! LLVM's helpers for atomic operations without atomic instructions: a script has one thread.
#![no_std]

macro_rules! changes {
    ($($name:ident $change:expr;)*) => {$(
        /// # Safety
        ///
        /// `at` points to a word that may be read and written.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(at: *mut u64, by: u64) -> u64 {
            let change: fn(u64, u64) -> u64 = $change;
            // SAFETY: by the function's own precondition.
            unsafe { at.replace(change(at.read(), by)) }
        }
    )*};
}

changes! {
    __sync_fetch_and_add_8 |old, by| old.wrapping_add(by);
    __sync_fetch_and_sub_8 |old, by| old.wrapping_sub(by);
    __sync_fetch_and_and_8 |old, by| old & by;
    __sync_fetch_and_or_8 |old, by| old | by;
    __sync_fetch_and_xor_8 |old, by| old ^ by;
    __sync_lock_test_and_set_8 |_, by| by;
}

/// # Safety
///
/// `at` points to a word that may be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __sync_val_compare_and_swap_8(at: *mut u64, old: u64, new: u64) -> u64 {
    // SAFETY: by the function's own precondition.
    unsafe {
        let found = at.read();
        if found == old {
            at.write(new);
        }
        found
    }
}

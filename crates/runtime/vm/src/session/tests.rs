//! Of attempts.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;

#[test]
fn an_attempt_that_panics_leaves_the_session_native() {
    let session = MachineSession::new(Tier::Auto, Vec::new());
    let attempt = || {
        assert!(!session.is_interpreting(), "the second time");
        session.give_up(BailoutReason::Ecall, std::iter::empty());
    };
    catch_unwind(AssertUnwindSafe(|| session.attempt(attempt))).unwrap_err();
    assert!(!session.is_interpreting());
}

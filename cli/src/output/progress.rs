//! Shows on a terminal that a long operation is in progress.

use std::{sync::mpsc, thread, time::Duration};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::limits::PROGRESS_AFTER;

/// Interval between moves of the indicator.
const TICK: Duration = Duration::from_millis(120);

/// Runs `work`; if it takes long, shows `message` and the elapsed time on a terminal.
pub(crate) fn while_working<T: Send>(message: &str, work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let (done, is_done) = mpsc::channel::<()>();
        scope.spawn(move || {
            // The sender is dropped on every exit.
            if is_done.recv_timeout(PROGRESS_AFTER) == Err(mpsc::RecvTimeoutError::Timeout) {
                let bar = spinner(message);
                let _ = is_done.recv();
                bar.finish_and_clear();
            }
        });
        let result = work();
        drop(done);
        result
    })
}

/// A progress indicator that is hidden unless standard error is a terminal.
fn spinner(message: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
        bar.set_style(style);
    }
    bar.set_elapsed(PROGRESS_AFTER);
    bar.set_message(message.to_owned());
    bar.enable_steady_tick(TICK);
    bar
}

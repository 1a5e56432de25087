//! Shows on a terminal that a long piece of work is going on.

use std::{sync::mpsc, thread, time::Duration};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::limits::PROGRESS_AFTER;

/// How often the indicator moves.
const TICK: Duration = Duration::from_millis(120);

/// Does `work`; when it lasts, `message` and the time spent appear on standard error, if that is a terminal.
pub(crate) fn while_working<T: Send>(message: &str, work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let (done, is_done) = mpsc::channel::<()>();
        scope.spawn(move || {
            // The sender is dropped when the work ends, in whichever way.
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

/// A moving indicator that hides itself where standard error is no terminal.
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

//! The last warnings and errors of the log, for the status page: one line for each place in the code, so that
//! what callers can produce at will drowns nothing else.

use std::{
    collections::HashMap,
    fmt::{self, Write as _},
    sync::{LazyLock, Mutex, PoisonError},
    time::SystemTime,
};

use tracing::{
    Event, Level, Subscriber,
    callsite::Identifier,
    field::{Field, Visit},
};
use tracing_subscriber::layer::{Context, Layer};

/// Characters that are kept of a line.
const CHARS_MAX: usize = 400;

/// Places that are told.
const TOLD_MAX: usize = 20;

/// By their places in the code, of which there are so many and no more.
static LAST: LazyLock<Mutex<HashMap<Identifier, LastLine>>> = LazyLock::new(Mutex::default);

/// The last line of a place in the code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LastLine {
    pub(crate) at: SystemTime,
    pub(crate) is_error: bool,
    /// Lines of this place since the process began.
    pub(crate) count: u64,
    pub(crate) text: String,
}

/// The places that had something to say, the last one first.
pub(crate) fn last_errors() -> Vec<LastLine> {
    let last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let mut lines: Vec<LastLine> = last.values().cloned().collect();
    lines.sort_by_key(|line| std::cmp::Reverse(line.at));
    lines.truncate(TOLD_MAX);
    lines
}

/// Keeps the lines that [`last_errors`] tells.
#[derive(Debug)]
pub(crate) struct LastErrors;

impl<S: Subscriber> Layer<S> for LastErrors {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        if *metadata.level() > Level::WARN {
            return;
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        let is_error = *metadata.level() == Level::ERROR;
        let line = LastLine { at: SystemTime::now(), is_error, count: 1, text: text.0 };
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        last.entry(metadata.callsite())
            .and_modify(|kept| *kept = LastLine { count: kept.count + 1, ..line.clone() })
            .or_insert(line);
    }
}

/// The message and the fields behind it.
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut room = Room { text: &mut self.0, left: CHARS_MAX };
        room.left = room.left.saturating_sub(room.text.chars().count());
        // Where there is no room the rest is left out.
        let _ = match field.name() {
            "message" => write!(room, "{value:?}"),
            name => write!(room, " {name}={value:?}"),
        };
    }
}

/// A text that takes so many more characters.
struct Room<'a> {
    text: &'a mut String,
    left: usize,
}

impl fmt::Write for Room<'_> {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        for one in more.chars() {
            if self.left == 0 {
                return Err(fmt::Error);
            }
            self.left -= 1;
            self.text.push(one);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[test]
    fn one_place_does_not_drown_the_others() {
        tracing::subscriber::with_default(tracing_subscriber::registry().with(LastErrors), || {
            tracing::error!(of = "test", "a disk is full");
            tracing::info!("nothing to see");
            let long = "x".repeat(10_000);
            (0..1_000).for_each(|number| tracing::warn!(number, long, "what callers can bring about"));
        });
        let lines = last_errors();
        let find = |text: &str| lines.iter().find(|line| line.text.starts_with(text));
        let disk = find("a disk is full").unwrap();
        assert_eq!((disk.is_error, disk.count, &*disk.text), (true, 1, "a disk is full of=\"test\""));
        let many = find("what callers can bring about number=999 ").unwrap();
        assert!(!many.is_error && many.count == 1_000 && many.text.len() == CHARS_MAX, "{many:?}");
        assert!(find("nothing to see").is_none());
    }
}

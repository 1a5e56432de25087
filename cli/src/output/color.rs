//! Whether reports have colour: on a terminal, unless `--color` or the environment overrides it.

use std::{
    env,
    io::{self, IsTerminal as _},
    sync::OnceLock,
};

use clap::ValueEnum;

/// What `--color` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    /// Where a terminal shows it, and `NO_COLOR` is not set
    #[default]
    Auto,
    /// Everywhere
    Always,
    /// Nowhere
    Never,
}

/// The meaning of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    Good,
    Bad,
}

static IS_ON: OnceLock<bool> = OnceLock::new();

/// Stores the choice. The first one counts.
pub(crate) fn choose(choice: ColorChoice) {
    let _ = IS_ON.set(is_on(choice, io::stdout().is_terminal(), |name| env::var(name).ok()));
}

fn is_on(choice: ColorChoice, is_terminal: bool, variable: impl Fn(&str) -> Option<String>) -> bool {
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            let is_refused = variable("NO_COLOR").is_some_and(|text| !text.is_empty());
            is_terminal && !is_refused && variable("TERM").as_deref() != Some("dumb")
        }
    }
}

/// `text` in the colour of `mood`, if there is colour.
pub(crate) fn paint(text: &str, mood: Mood) -> String {
    painted(text, mood, IS_ON.get().copied().unwrap_or(false))
}

fn painted(text: &str, mood: Mood, is_on: bool) -> String {
    let code = match mood {
        Mood::Good => 32,
        Mood::Bad => 31,
    };
    if is_on { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_rules_hold() {
        let with = |name: &'static str, value: &'static str| {
            move |asked: &str| (asked == name).then(|| value.to_owned())
        };
        let none = |_: &str| None;
        assert!(is_on(ColorChoice::Auto, true, none));
        assert!(!is_on(ColorChoice::Auto, false, none));
        assert!(!is_on(ColorChoice::Auto, true, with("NO_COLOR", "1")));
        assert!(is_on(ColorChoice::Auto, true, with("NO_COLOR", "")));
        assert!(!is_on(ColorChoice::Auto, true, with("TERM", "dumb")));
        assert!(is_on(ColorChoice::Always, false, with("NO_COLOR", "1")));
        assert!(!is_on(ColorChoice::Never, true, none));
    }

    #[test]
    fn a_colour_ends_where_its_word_does() {
        assert_eq!(painted("ok", Mood::Good, true), "\u{1b}[32mok\u{1b}[0m");
        assert_eq!(painted("failed", Mood::Bad, false), "failed");
    }
}

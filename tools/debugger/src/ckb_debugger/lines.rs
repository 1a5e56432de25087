//! ckb-debugger's output lines, which other programs parse.

use std::{
    fmt,
    io::{self, IsTerminal as _, Write as _},
};

use antares_profile_view::printable;

/// Cycles as ckb-debugger prints them: `3364(3.3K)`.
pub(crate) struct Cycles(pub(crate) u64);

impl fmt::Display for Cycles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const THOUSAND: u64 = 1024;
        const MILLION: u64 = THOUSAND * THOUSAND;
        #[expect(clippy::cast_precision_loss, reason = "one digit behind the point is shown")]
        let part = |of: u64| self.0 as f64 / of as f64;
        match self.0 {
            ..THOUSAND => write!(f, "{}", self.0),
            THOUSAND..MILLION => write!(f, "{}({:.1}K)", self.0, part(THOUSAND)),
            MILLION.. => write!(f, "{}({:.1}M)", self.0, part(MILLION)),
        }
    }
}

/// Prints a line. Ignores errors, because the reader may be gone.
pub(crate) fn say(line: impl fmt::Display) {
    let _ = writeln!(io::stdout().lock(), "{line}");
}

/// Prints a line of debug output, unless it is empty. Escapes terminal commands.
pub(crate) fn log(text: &str) {
    let text = text.trim_end_matches('\n');
    if text.is_empty() {
        return;
    }
    if io::stdout().is_terminal() {
        say(format_args!("Script log: {}", printable(text)));
    } else {
        say(format_args!("Script log: {text}"));
    }
}

/// Prints the result of a script.
pub(crate) fn result(code: i8, cycles: u64) {
    say(format_args!("Run result: {code}"));
    say(format_args!("All cycles: {}", Cycles(cycles)));
}

/// Prints the end of a script.
pub(crate) fn end(end: &Result<(i8, u64), String>) {
    match end {
        Ok((code, cycles)) => result(*code, *cycles),
        Err(why) => error(why),
    }
}

/// Prints the VM's error.
pub(crate) fn error(text: &str) {
    say(format_args!("Run result: {text}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_rounded_from_a_thousand_on() {
        let of = |cycles| Cycles(cycles).to_string();
        assert_eq!([0, 529, 1023, 1024].map(of), ["0", "529", "1023", "1024(1.0K)"]);
        assert_eq!([3364, 119_776].map(of), ["3364(3.3K)", "119776(117.0K)"]);
        assert_eq!([1_048_575, 1_641_938].map(of), ["1048575(1024.0K)", "1641938(1.6M)"]);
    }
}

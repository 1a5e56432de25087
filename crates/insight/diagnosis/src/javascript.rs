//! JavaScript stacks: QuickJS prints them to the debug output, and source maps lead from the bundle to the
//! original source.

use std::collections::VecDeque;

use crate::{
    Diagnosis,
    encoding::lines_around,
    report::{JavaScriptFrame, JavaScriptStack, OriginalLocation},
};

/// Maximum reported stacks; the last ones are retained.
const STACKS_MAX: usize = 4;
/// Maximum reported calls of a stack, the innermost ones.
const FRAMES_MAX: usize = 64;
/// Maximum bytes of a name, and of the text of an exception.
const NAME_BYTES_MAX: usize = 256;

/// Prefix of a call in a stack.
const AT: &str = "    at ";

impl Diagnosis {
    /// Replaces the JavaScript stacks by those in `debug`, a run's debug output, if it contains any.
    #[must_use]
    pub fn with_javascript<'a>(mut self, debug: impl IntoIterator<Item = &'a str>) -> Self {
        let found = stacks(debug);
        if !found.is_empty() {
            self.javascript = found;
        }
        self
    }

    /// Adds original locations: `original` maps a call of a bundle, `text` returns the source.
    #[must_use]
    pub fn with_originals(
        mut self,
        original: &dyn Fn(&JavaScriptFrame) -> Option<OriginalLocation>,
        text: &dyn Fn(&JavaScriptFrame) -> Option<String>,
    ) -> Self {
        for stack in &mut self.javascript {
            for frame in &mut stack.frames {
                frame.original = original(frame);
            }
            let innermost = stack.frames.iter().find_map(|frame| Some((frame, frame.original.as_ref()?)));
            if let Some((frame, place)) = innermost {
                stack.source = text(frame).map(|text| lines_around(&text, place.line)).unwrap_or_default();
            }
        }
        self
    }
}

/// The stacks in debug output, in order. A system call's text may have many lines, and a stack many texts.
fn stacks<'a>(debug: impl IntoIterator<Item = &'a str>) -> Vec<JavaScriptStack> {
    let mut found: VecDeque<JavaScriptStack> = VecDeque::new();
    // Text before the next call: in the same system call's text, and all of the previous text.
    let (mut head, mut last_text) = (String::new(), String::new());
    let mut is_open = false;
    for text in debug {
        for line in text.lines() {
            let call = line.split_once(AT).and_then(|(before, call)| Some((before, frame(call)?)));
            let Some((before, frame)) = call else {
                is_open &= line.trim().is_empty() && head.is_empty();
                head = if line.trim().is_empty() { String::new() } else { joined(&head, line) };
                continue;
            };
            if !is_open || !before.trim().is_empty() {
                let thrown = joined(&head, before);
                let thrown = if thrown.is_empty() { &last_text } else { &thrown };
                if found.len() == STACKS_MAX {
                    found.pop_front();
                }
                found.push_back(JavaScriptStack {
                    thrown: is_thrown(thrown).then(|| cut(thrown)),
                    frames: Vec::new(),
                    left_out: 0,
                    source: Vec::new(),
                });
                (head, is_open) = (String::new(), true);
            }
            if let Some(stack) = found.back_mut() {
                match stack.frames.len() {
                    FRAMES_MAX => stack.left_out += 1,
                    _ => stack.frames.push(frame),
                }
            }
        }
        last_text = std::mem::take(&mut head);
    }
    found.into()
}

fn joined(head: &str, line: &str) -> String {
    match (head, line.trim()) {
        ("", line) => line.to_owned(),
        (head, line) if head.len() < NAME_BYTES_MAX => format!("{head}\n{line}").trim_end().to_owned(),
        (head, _) => head.to_owned(),
    }
}

/// Whether a text has the form of an exception: `Error: none left`, `Caused by:`, `AmountError`.
fn is_thrown(text: &str) -> bool {
    let name = text.split([':', '\n']).next().unwrap_or_default();
    let has_message = name.len() < text.len();
    let is_name = |word: &str| word.chars().all(|at| at.is_alphanumeric() || "_$.".contains(at));
    name == "Caused by" || (!name.is_empty() && is_name(name) && (has_message || name.ends_with("Error")))
}

/// `fn (file:line:column)`, `fn (file:line)`, `fn (file)`, `fn (native)`; file names may be empty.
fn frame(text: &str) -> Option<JavaScriptFrame> {
    let (function, place) = text.trim_end().strip_suffix(')')?.rsplit_once(" (")?;
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|number| is_number && *number > 0)
    };
    let last = |text: &str| text.rsplit_once(':').and_then(|(rest, last)| Some((rest.len(), number(last)?)));
    let (file, line, column) = match last(place) {
        None => (place, None, None),
        Some((end, second)) => match last(&place[..end]) {
            None => (&place[..end], Some(second), None),
            Some((start, first)) => (&place[..start], Some(first), Some(second)),
        },
    };
    Some(JavaScriptFrame {
        function: cut(function),
        is_native: file == "native" && line.is_none(),
        file: Some(file).filter(|file| !file.is_empty() && *file != "native").map(cut),
        line,
        column,
        original: None,
    })
}

fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(NAME_BYTES_MAX)].to_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    fn decoded(debug: &[&str]) -> Vec<String> {
        let frame = |frame: &JavaScriptFrame| {
            let JavaScriptFrame { function, file, line, column, is_native, .. } = frame;
            let numbers: Vec<_> = [line, column].into_iter().flatten().map(u32::to_string).collect();
            let native = if *is_native { "native" } else { "" };
            format!("{function}({} {native}{})", file.as_deref().unwrap_or("-"), numbers.join(":"))
        };
        let stack = |stack: &JavaScriptStack| {
            let frames: Vec<_> = stack.frames.iter().map(frame).collect();
            format!("{}| {}", stack.thrown.as_deref().unwrap_or("-"), frames.join(", "))
        };
        stacks(debug.iter().copied()).iter().map(stack).collect()
    }

    #[test]
    fn what_quickjs_prints_is_read() {
        // From ckb-js-vm of ckb-testtool 1.0.5, for a file and bytecode; with columns, from a newer QuickJS.
        let debug = [
            "Run from file, local access enabled. For Testing only.",
            "Error: no",
            "    at inner (<run_from_file>)\n    at outer (:19)\n    at new A (a b.js:3:14)\n    at map (native)",
            "checking failed on src/qjs.c:478, code = -7",
        ];
        let stack = "Error: no| inner(<run_from_file> ), outer(- 19), new A(a b.js 3:14), map(- native)";
        assert_eq!(decoded(&debug), [stack]);
    }

    #[test]
    fn causes_are_stacks_of_their_own() {
        let debug = [
            "    at main (:30)\n    at <anonymous> (:45)\n\nCaused by:     at step (:39)\n    at main (:28)",
        ];
        let stacks = ["-| main(- 30), <anonymous>(- 45)", "Caused by:| step(- 39), main(- 28)"];
        assert_eq!(decoded(&debug), stacks);
        let debug = ["one word", "    at f (a:1)", "other", "E: x\ny", "    at g (a:2)\n", "    at h (a:3)"];
        assert_eq!(decoded(&debug), ["-| f(a 1)", "E: x\ny| g(a 2), h(a 3)"]);
    }

    #[test]
    fn other_lines_are_no_stack() {
        let others = ["", "    at", "    at x", "  at f (a:1)", "we are at f (a:1)"];
        assert_eq!(decoded(&others), [] as [&str; 0]);
        let numbers = "    at f (a:0)\n    at g (a:99999999999)\n    at h (:+1)";
        assert_eq!(decoded(&[numbers]), ["-| f(a:0 ), g(a:99999999999 ), h(:+1 )"]);
    }

    #[test]
    fn hostile_output_has_limits() {
        let long = "é".repeat(1000);
        let frames = format!("    at {long} ({long}:1)\n").repeat(100);
        let debug: Vec<_> = (0..9).flat_map(|_| [format!("E: {long}"), frames.clone()]).collect();
        let stacks = stacks(debug.iter().map(String::as_str));
        assert_eq!(stacks.len(), STACKS_MAX);
        let stack = &stacks[3];
        assert_eq!((stack.frames.len(), stack.left_out), (FRAMES_MAX, 36));
        assert!(stack.frames[0].function.len() <= NAME_BYTES_MAX);
        assert!(stack.thrown.as_ref().unwrap().len() <= NAME_BYTES_MAX);
    }
}

//! Serializes a diagnosis within a byte limit, so that a process with access to the sources can complete it.

use crate::{
    Diagnosis, ErrorCodes,
    report::{Child, DecodedCall, Frame, SourceLine, decided_at},
};

/// Frames of a location, and of a stack, in a shortened diagnosis.
const FRAMES_SHORT: usize = 8;
const STACK_SHORT: usize = 32;

/// System calls in a shortened diagnosis, in addition to the one that decided.
const SYSTEM_CALLS_SHORT: usize = 8;

/// Other VMs in a shortened diagnosis.
const CHILDREN_SHORT: usize = 4;

/// Bytes of a name, an argument or a text in the shortest form.
const NAME_SHORT: usize = 96;

/// Source lines before and after the location.
const LINES_AROUND: u32 = 3;

/// Why bytes are not a diagnosis.
#[derive(Debug, thiserror::Error)]
#[error("no diagnosis: {0}")]
pub struct DiagnosisError(#[from] serde_json::Error);

impl Diagnosis {
    /// The diagnosis as JSON, at most `bytes_max` bytes. Omits the least important parts until it fits, and
    /// sets [`Diagnosis::is_shortened`]. `None` if it does not fit even then.
    #[must_use]
    pub fn into_json(mut self, bytes_max: usize) -> Option<String> {
        let steps: [fn(&mut Self); 4] =
            [Self::without_steps, Self::shorten_frames, Self::with_few_calls, Self::with_short_names];
        for step in steps {
            if let Some(json) = self.json_within(bytes_max) {
                return Some(json);
            }
            step(&mut self);
            self.is_shortened = true;
        }
        self.json_within(bytes_max)
    }

    fn json_within(&self, bytes_max: usize) -> Option<String> {
        let mut bytes = vec![0; bytes_max];
        // Writing to a full slice fails.
        let mut left = &mut bytes[..];
        serde_json::to_writer(&mut left, self).ok()?;
        let written = bytes_max - left.len();
        bytes.truncate(written);
        String::from_utf8(bytes).ok()
    }

    /// Parses the JSON of a diagnosis.
    ///
    /// # Errors
    /// The JSON has another structure.
    pub fn from_json(json: &str) -> Result<Self, DiagnosisError> {
        Ok(serde_json::from_str(json)?)
    }

    /// Adds the meanings of exit codes from `codes`.
    #[must_use]
    pub fn with_codes(mut self, codes: &ErrorCodes) -> Self {
        for ending in
            self.children.iter_mut().map(|child| &mut child.ending).chain(std::iter::once(&mut self.ending))
        {
            let meaning = ending.exit_code.filter(|code| *code != 0).and_then(|code| codes.meaning(code));
            if let Some(meaning) = meaning {
                ending.meaning = Some(meaning.to_owned());
                ending.meaning_from = Some("script".to_owned());
            }
        }
        if let (Some(code), Some(meaning)) = (self.ending.exit_code, &self.ending.meaning) {
            self.summary = exit_summary(code, Some(meaning), &decided_at(&self.place));
        }
        self
    }

    /// Adds the source lines around the location, if `source` has the file.
    #[must_use]
    pub fn with_source(mut self, source: &dyn Fn(&str) -> Option<String>) -> Self {
        if self.source.is_empty() {
            self.source = source_at(&self.place, source);
        }
        self
    }

    fn without_steps(&mut self) {
        self.steps.clear();
    }

    /// The locations of everything but the stacks.
    fn places(&mut self) -> impl Iterator<Item = &mut Vec<Frame>> {
        let children = self.children.iter_mut();
        let children = children.map(|Child { place, branch, .. }| (place, branch));
        let ends = children.chain([(&mut self.place, &mut self.branch)]);
        let ends = ends.flat_map(|(place, branch)| {
            let branches = branch.iter_mut();
            let of_branches =
                branches.flat_map(|it| [&mut it.place, &mut it.left.place, &mut it.right.place]);
            [place].into_iter().chain(of_branches)
        });
        let calls = self.system_calls.iter_mut().map(|call| &mut call.place);
        ends.chain(calls).chain(self.value.iter_mut().map(|value| &mut value.place))
    }

    fn shorten_frames(&mut self) {
        let left_out = self.stack.len().saturating_sub(STACK_SHORT) as u64;
        self.stack.truncate(STACK_SHORT);
        self.stack_left_out = self.stack_left_out.saturating_add(left_out);
        self.places().for_each(|place| place.truncate(FRAMES_SHORT));
        self.children.iter_mut().for_each(|child| child.stack.truncate(FRAMES_SHORT));
    }

    fn with_few_calls(&mut self) {
        // The last exception.
        self.javascript.drain(..self.javascript.len().saturating_sub(1));
        for stack in &mut self.javascript {
            let left_out = stack.frames.len().saturating_sub(FRAMES_SHORT);
            stack.frames.truncate(FRAMES_SHORT);
            stack.left_out = stack.left_out.saturating_add(left_out as u64);
        }
        let skipped = self.system_calls.len().saturating_sub(SYSTEM_CALLS_SHORT);
        let rest = self.system_calls.split_off(skipped);
        let decided = self.system_call;
        let before = std::mem::take(&mut self.system_calls).into_iter();
        self.system_calls = before.filter(|call| Some(call.index) == decided).chain(rest).collect();
        self.system_calls_left_out = self.system_calls_left_out.saturating_add(skipped as u64);
        // The last ones to end.
        let first = self.children.len().saturating_sub(CHILDREN_SHORT);
        self.children.drain(..first);
    }

    fn with_short_names(&mut self) {
        cut(&mut self.summary, 2 * NAME_SHORT);
        self.source.clear();
        self.javascript.clear();
        for Child { ending, place, stack, .. } in &mut self.children {
            place.truncate(1);
            stack.clear();
            ending.detail.iter_mut().for_each(|detail| cut(detail, NAME_SHORT));
        }
        for DecodedCall { arguments, data, .. } in &mut self.system_calls {
            arguments.iter_mut().for_each(|(_, text)| cut(text, NAME_SHORT));
            cut(data, NAME_SHORT);
        }
        let mut stack = std::mem::take(&mut self.stack);
        for frame in self.places().chain([&mut stack]).flatten() {
            cut(&mut frame.function, NAME_SHORT);
            frame.file.iter_mut().for_each(|file| cut(file, NAME_SHORT));
        }
        self.stack = stack;
        self.ending.detail.iter_mut().for_each(|detail| cut(detail, 4 * NAME_SHORT));
    }
}

/// `exit code 5 (AmountTooSmall), decided in check (main.c:41:3)`.
pub(crate) fn exit_summary(code: i8, meaning: Option<&str>, place: &str) -> String {
    let meaning = meaning.map(|meaning| format!(" ({meaning})")).unwrap_or_default();
    format!("exit code {code}{meaning}, decided{place}")
}

/// The source lines around the innermost of `frames` with a line, if `source` has its file.
pub(crate) fn source_at(frames: &[Frame], source: &dyn Fn(&str) -> Option<String>) -> Vec<SourceLine> {
    let with_line = frames.iter().find_map(|frame| Some((frame.file.as_ref()?, frame.line?)));
    let lines = with_line.and_then(|(file, line)| Some(lines_around(&source(file)?, line)));
    lines.unwrap_or_default()
}

/// The lines of `text` around `line`.
pub(crate) fn lines_around(text: &str, line: u32) -> Vec<SourceLine> {
    let (first, last) = (line.saturating_sub(LINES_AROUND).max(1), line.saturating_add(LINES_AROUND));
    let numbered = text.lines().zip(1_u32..).filter(|(_, number)| (first..=last).contains(number));
    let decoded = |(text, number): (&str, u32)| SourceLine {
        line: number,
        text: text.to_owned(),
        is_place: number == line,
    };
    numbered.map(decoded).collect()
}

fn cut(text: &mut String, bytes: usize) {
    text.truncate(text.floor_char_boundary(bytes));
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    /// What is missing is nothing.
    fn of<T: DeserializeOwned>(json: Value) -> T {
        serde_json::from_value(json).unwrap()
    }

    fn frame(number: u64, name: &str) -> Frame {
        let file = format!("{name}.c");
        of(json!({ "address": number, "function": name, "file": file, "line": 3, "is_inlined": true }))
    }

    fn call(index: u64, frames: &[Frame]) -> DecodedCall {
        let arguments = json!([["index", "\u{1}".repeat(2000)]]);
        let call = of(json!({
            "index": index, "vm": 0, "number": 2074, "name": "load_witness", "arguments": arguments, "result": 1,
            "data": "", "cycles": 0, "cost": 0, "place": [],
        }));
        DecodedCall { place: frames.to_vec(), ..call }
    }

    fn diagnosis(name: &str, frames: usize, calls: u64) -> Diagnosis {
        let frames: Vec<_> = (0..frames as u64).map(|number| frame(number, name)).collect();
        let whole: Diagnosis = of(json!({
            "summary": "exit code 5, decided", "ending": { "kind": "exit", "exit_code": 5, "vm": 0 },
            "instruction": { "address": 4 }, "system_call": 0, "place": [], "stack": [], "stack_left_out": 1,
            "system_calls": [], "system_calls_left_out": 7, "registers": [], "source": [], "children": [],
            "steps": [], "is_followed": true, "has_names": true, "has_lines": true,
        }));
        let child: Child = of(json!({ "ending": whole.ending, "place": [], "stack": [] }));
        let child = Child { place: frames.clone(), stack: frames.clone(), ..child };
        Diagnosis {
            place: frames.clone(),
            stack: frames.clone(),
            system_calls: (0..calls).map(|index| call(index, &frames)).collect(),
            children: vec![child; 32],
            ..whole
        }
    }

    #[test]
    fn what_fits_is_whole_and_is_read_again() {
        let whole = diagnosis("main", 3, 2);
        let json = whole.clone().into_json(1 << 20).unwrap();
        assert_eq!(Diagnosis::from_json(&json).unwrap(), whole);
        assert!(Diagnosis::from_json("{}").is_err());
    }

    #[test]
    fn what_is_huge_is_shortened_and_keeps_what_decided() {
        let huge = diagnosis(&"\u{1}".repeat(512), 1000, 64);
        let json = huge.into_json(256 << 10).unwrap();
        assert!(json.len() <= 256 << 10);
        let decoded = Diagnosis::from_json(&json).unwrap();
        assert!(decoded.is_shortened);
        assert_eq!(decoded.system_calls.first().unwrap().index, 0, "the one that decided");
        assert_eq!(decoded.system_calls.last().unwrap().index, 63);
        let left_out = 1 + 1000 - STACK_SHORT as u64;
        assert_eq!((decoded.stack.len(), decoded.stack_left_out), (STACK_SHORT, left_out));
        assert_eq!(decoded.system_calls_left_out, 7 + 56);
        assert_eq!(diagnosis("main", 1, 1).into_json(10), None);
    }

    #[test]
    fn a_table_and_sources_can_come_later() {
        let codes = ErrorCodes::parse("5 = TooSmall\n").unwrap();
        let source = |file: &str| (file == "main.c").then(|| "one\ntwo\nthree\nfour\n".to_owned());
        let decoded = diagnosis("main", 1, 0).with_codes(&codes).with_source(&source);
        assert_eq!(decoded.summary, "exit code 5 (TooSmall), decided in main (main.c:3)");
        assert_eq!(decoded.ending.meaning_from.as_deref(), Some("script"));
        let places: Vec<_> =
            decoded.source.iter().filter(|line| line.is_place).map(|line| &*line.text).collect();
        assert_eq!((decoded.source.len(), places), (4, vec!["three"]));
    }
}

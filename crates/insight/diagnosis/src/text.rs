//! A diagnosis as text.

use std::fmt::Write as _;

use crate::{
    Diagnosis,
    decide::own,
    report::{
        Branch, Child, DecodedCall, Ending, Frame, JavaScriptFrame, JavaScriptStack, SourceLine, Value,
        decided_at, line, where_it_is,
    },
};

/// Calls and system calls in the short text.
const SHORT_CALLS: usize = 8;
const SHORT_SYSTEM_CALLS: usize = 3;

/// Digits of data per line.
const DATA_DIGITS: usize = 64;

impl Diagnosis {
    /// A short text of about a dozen lines.
    #[must_use]
    pub fn to_short_text(&self) -> String {
        let mut text = format!("why: {}\n", self.summary);
        if let Some(advice) =
            self.ending.advice.as_ref().filter(|_| self.ending.error.as_deref() == Some("InvalidInstruction"))
        {
            let _ = writeln!(text, "  {advice}");
        }
        self.write_javascript(&mut text, SHORT_CALLS);
        self.write_decided(&mut text, true);
        let is_elsewhere = self.is_elsewhere();
        let calls = if is_elsewhere { &self.place } else { &self.stack };
        let calls = self.calls(calls, SHORT_CALLS, is_elsewhere);
        let _ = write!(text, "  calls\n{calls}");
        self.write_system_calls(&mut text, SHORT_SYSTEM_CALLS);
        for child in self.children.iter().filter(|child| has_failed(&child.ending)) {
            let _ = writeln!(text, "  {}", describe_child(child));
        }
        text
    }

    /// The full text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!("why: {}\n", self.summary);
        if let Some(advice) = &self.ending.advice {
            let _ = writeln!(text, "  {advice}");
        }
        self.write_javascript(&mut text, usize::MAX);
        self.write_decided(&mut text, false);
        write_source(&mut text, &self.source);
        if self.is_elsewhere() {
            let _ =
                write!(text, "  calls, where it was decided\n{}", self.calls(&self.place, usize::MAX, true));
        }
        let _ = write!(text, "  calls, at the end\n{}", self.calls(&self.stack, usize::MAX, false));
        let at = &self.instruction;
        let _ = writeln!(
            text,
            "  instruction {:#x}  {}",
            at.address,
            at.text.as_deref().unwrap_or("(none that can be read)")
        );
        if let (Some(fault), Some(address), Some(what)) = (&at.fault, at.fault_address, &at.fault_at) {
            let _ = writeln!(text, "  {fault} at {address:#x}: {what}");
        }
        self.write_system_calls(&mut text, usize::MAX);
        for child in &self.children {
            let _ =
                write!(text, "  {}\n{}", describe_child(child), self.calls(&child.stack, SHORT_CALLS, true));
            if let Some(branch) = &child.branch {
                let _ = writeln!(text, "    {}", describe_branch(branch, child.place.first()));
            }
        }
        self.write_registers(&mut text);
        self.write_steps(&mut text);
        if self.is_shortened {
            text += "  it was too long: parts of it are left out\n";
        }
        if !self.has_names {
            text +=
                "  the script is stripped: build it with symbols (and -g) to see functions and lines here\n";
        } else if !self.has_lines {
            text += "  there are no lines: build with -g, or debug = true, to see them here\n";
        }
        text
    }

    fn write_decided(&self, text: &mut String, is_short: bool) {
        // Where a code was made is told by the first line already.
        let is_reported = |value: &Value| is_short && self.ending.kind == "exit" && value.made == "code";
        if let Some(value) = self.value.as_ref().filter(|value| !is_reported(value)) {
            let what = if self.ending.kind == "exit" { "code" } else { "address" };
            let _ = writeln!(text, "  {what} {}", describe_value(value));
        }
        if let Some(branch) = &self.branch {
            let reported = self.place.first().filter(|_| self.ending.kind == "exit");
            let _ = writeln!(text, "  {}", describe_branch(branch, reported));
        }
        let decided = self.system_calls.iter().find(|call| Some(call.index) == self.system_call);
        if let Some(call) = decided {
            let _ = writeln!(text, "  system call {}", describe_call(call));
        }
    }

    fn write_javascript(&self, text: &mut String, max: usize) {
        for JavaScriptStack { thrown, frames, left_out, source } in &self.javascript {
            let thrown =
                thrown.as_ref().map(|thrown| format!(": {}", thrown.replace('\n', " "))).unwrap_or_default();
            let _ = writeln!(text, "  JavaScript stack{thrown}");
            for (number, frame) in frames.iter().take(max).enumerate() {
                let _ = writeln!(text, "    {number:>2} {}", call_in_javascript(frame));
            }
            let left_out = *left_out + frames.len().saturating_sub(max) as u64;
            if left_out > 0 {
                let _ = writeln!(text, "       … {left_out} more");
            }
            write_source(text, source);
        }
    }

    /// Whether a call that has returned made the decision.
    fn is_elsewhere(&self) -> bool {
        let first = self.place.first();
        first.is_some_and(|place| !self.stack.iter().any(|frame| frame.address == place.address))
    }

    fn calls(&self, frames: &[Frame], max: usize, is_whole: bool) -> String {
        let mut text = String::new();
        let (mut number, mut rows) = (0, 0);
        while number < frames.len() && rows < max {
            let frame = &frames[number];
            // Print recursion as one line.
            let times = frames[number..].iter().take_while(|other| *other == frame).count();
            let place = line(frame).unwrap_or_else(|| format!("{:#x}", frame.address));
            let inlined = if frame.is_inlined { ", inlined" } else { "" };
            let repeated = if times > 1 { format!(", {times} times") } else { String::new() };
            let _ = writeln!(text, "    {number:>2} {} ({place}{inlined}{repeated})", frame.function);
            number += times;
            rows += 1;
        }
        let left_out = (frames.len() - number) as u64 + if is_whole { 0 } else { self.stack_left_out };
        if left_out > 0 {
            let _ = writeln!(text, "       … {left_out} more");
        }
        text
    }

    fn write_system_calls(&self, text: &mut String, max: usize) {
        // The short text omits the exit, which the rest already describes.
        let is_exit =
            |call: &&DecodedCall| call.number == 93 && call.vm == self.ending.vm && max == SHORT_SYSTEM_CALLS;
        let calls: Vec<_> = self.system_calls.iter().filter(|call| !is_exit(call)).collect();
        let skipped = calls.len().saturating_sub(max);
        let before = self.system_calls_left_out + skipped as u64;
        if calls.is_empty() {
            return;
        }
        let _ = writeln!(
            text,
            "  last system calls{}",
            if before > 0 { format!(" ({before} before)") } else { String::new() }
        );
        for call in calls.into_iter().skip(skipped) {
            let _ = writeln!(text, "    {}", describe_call(call));
        }
    }

    fn write_registers(&self, text: &mut String) {
        text.push_str("  registers\n");
        for four in self.registers.chunks(4) {
            let registers = four.iter().map(|it| format!("{:>4} {:#018x}", it.name, it.value));
            let _ = writeln!(text, "    {}", registers.collect::<Vec<_>>().join("  "));
        }
    }

    fn write_steps(&self, text: &mut String) {
        if self.steps.is_empty() {
            return;
        }
        text.push_str("  last instructions\n");
        for step in &self.steps {
            let changed = step
                .register
                .as_ref()
                .zip(step.value)
                .map(|(register, value)| format!("{register} = {value:#x}"));
            let instruction = step.text.as_deref().unwrap_or("?");
            let _ = writeln!(
                text,
                "    {:#8x}  {instruction:<32} {:<24} {}",
                step.address,
                changed.unwrap_or_default(),
                step.function
            );
        }
    }
}

fn write_source(text: &mut String, lines: &[SourceLine]) {
    for source in lines {
        let mark = if source.is_place { '>' } else { ' ' };
        let _ = writeln!(text, "  {mark} {:>5} | {}", source.line, source.text);
    }
}

/// `check (src/lock.ts:41:3)`; without a source map, the location in the bundle.
fn call_in_javascript(frame: &JavaScriptFrame) -> String {
    let place = |file: &str, numbers: [Option<u32>; 2]| {
        let numbers = numbers.into_iter().flatten().map(|number| format!(":{number}"));
        format!(" ({file}{})", numbers.collect::<String>())
    };
    let at = match (&frame.original, &frame.file) {
        (Some(original), _) => place(&original.file, [Some(original.line), original.column]),
        (None, _) if frame.is_native => " (native)".to_owned(),
        (None, None) if frame.line.is_none() => String::new(),
        (None, file) => place(file.as_deref().unwrap_or("bundle"), [frame.line, frame.column]),
    };
    format!("{}{at}", frame.function)
}

fn has_failed(ending: &Ending) -> bool {
    ending.exit_code != Some(0)
}

/// How another VM ended.
fn describe_child(child: &Child) -> String {
    let Ending { vm, exit_code, error, meaning, .. } = &child.ending;
    let how = match (exit_code, error) {
        (Some(code), _) => format!("exited with {code}"),
        (None, Some(error)) => format!("ended in {error}"),
        (None, None) => "ended".to_owned(),
    };
    let meaning = meaning.as_ref().map(|meaning| format!(" ({meaning})")).unwrap_or_default();
    let place = decided_at(&child.place);
    format!("VM {vm} {how}{meaning}, decided{place}")
}

/// A value and its origin.
fn describe_value(value: &Value) -> String {
    let number = number(value.value);
    let call = value.system_call.map(|index| format!("system call #{index}"));
    match (&*value.made, call, value.address) {
        ("system_call", Some(call), _) => format!("{number}, the result of {call}"),
        ("memory", Some(call), Some(address)) => {
            format!("{number}, read from {address:#x}, where {call} wrote")
        }
        ("memory", None, Some(address)) => format!("{number}, read from {address:#x}"),
        ("code", call, _) => {
            let place = decided_at(own(&value.place).unwrap_or(&value.place));
            let of = call.map(|call| format!(" from {call}")).unwrap_or_default();
            format!("{number}, made{place}{of}")
        }
        _ => number,
    }
}

/// A branch, with its place where that is not the one that is `told` already.
fn describe_branch(branch: &Branch, reported: Option<&Frame>) -> String {
    let place = own(&branch.place).unwrap_or(&branch.place).first();
    let place = place.filter(|place| reported != Some(place)).map(where_it_is).unwrap_or_default();
    let taken = if branch.is_taken { "taken" } else { "not taken" };
    let side = |name: &str, value: &Value| match name {
        "zero" => String::new(),
        _ => format!("; {name} = {}", describe_value(value)),
    };
    let (left, right) =
        (side(&branch.left_register, &branch.left), side(&branch.right_register, &branch.right));
    format!("branch {} was {taken}{place}{left}{right}", branch.text)
}

fn describe_call(call: &DecodedCall) -> String {
    let name = call.name.as_deref().map_or_else(|| format!("system call {}", call.number), ToOwned::to_owned);
    let arguments: Vec<_> = call.arguments.iter().map(|(name, value)| format!("{name} {value}")).collect();
    let result = match (call.result, &call.result_name) {
        (Some(result), Some(name)) => format!(" = {result} {name}"),
        (Some(_), None) if call.number == 2177 => String::new(),
        (Some(result), None) => format!(" = {}", number(result)),
        (None, _) => String::new(),
    };
    let length = call.length.filter(|_| call.result == Some(0) || call.result == Some(3));
    let length = length.map(|length| format!(", length {length}")).unwrap_or_default();
    let data = match call.data.as_str() {
        "" => String::new(),
        data if data.len() > DATA_DIGITS => format!(": 0x{}…", data.get(..DATA_DIGITS).unwrap_or_default()),
        data => format!(": 0x{data}"),
    };
    let vm = if call.vm == 0 { String::new() } else { format!("VM {} ", call.vm) };
    // Exclude the callers of the program.
    let end = call.place.iter().position(|frame| frame.function.starts_with('[')).unwrap_or(call.place.len());
    let place = decided_at(own(&call.place[..end]).unwrap_or(&call.place));
    format!("#{} {vm}{name}({}){result}{length}{data}{place}", call.index, arguments.join(", "))
}

/// Small and negative numbers in decimal, others in hexadecimal.
fn number(value: u64) -> String {
    let signed = value.cast_signed();
    if (-65_536..65_536).contains(&signed) { signed.to_string() } else { format!("{value:#x}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!([number(5), number(u64::MAX - 2), number(0x40_0000)], ["5", "-3", "0x400000"]);
    }
}

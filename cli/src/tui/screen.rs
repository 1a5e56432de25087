//! The screen: what a script's process told last, in panes.

use std::collections::{HashMap, VecDeque};

use antares_hosted::look::LookView;
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Block, Paragraph},
};

use crate::{output::printable, sources::Folders};

/// Lines of debug output that are remembered.
const LINES_MAX: usize = 200;
/// Bytes of memory in a row.
const ROW_BYTES: usize = 8;
/// Columns of a register.
const REGISTER_COLUMNS: u16 = 21;
/// Names of registers; the first one is always 0, and the place has its name.
const REGISTERS: [&str; 32] = [
    "pc", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4", "a5", "a6",
    "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6",
];
const KEYS: &str = "s line  n over  f out  i instruction  c on   capital letter: back   b breakpoint  \
    : command  Esc stop  q leave";

/// What is on the screen.
pub(super) struct Screen {
    view: LookView,
    /// Registers before the last view.
    before: [u64; 32],
    lines: VecDeque<String>,
    folders: Folders,
    sources: HashMap<String, Option<Vec<String>>>,
    /// A command that somebody types.
    pub(super) typed: Option<String>,
    /// Whether something is under way.
    pub(super) is_busy: bool,
}

impl Screen {
    pub(super) fn new() -> Self {
        Self {
            view: LookView::default(),
            before: [0; 32],
            lines: VecDeque::new(),
            folders: Folders::of_command(),
            sources: HashMap::new(),
            typed: None,
            is_busy: true,
        }
    }

    /// Shows this from now on.
    pub(super) fn show(&mut self, view: LookView) {
        self.before = values(&self.view);
        self.view = view;
        if let Some(file) = self.view.frames.first().and_then(|frame| frame.file.clone()) {
            let folders = &self.folders;
            self.sources.entry(file).or_insert_with_key(|file| {
                folders.read(file).map(|text| text.lines().map(|line| line.replace('\t', "    ")).collect())
            });
        }
    }

    /// A line of debug output.
    pub(super) fn tell(&mut self, vm: u64, text: &str) {
        if self.lines.len() >= LINES_MAX {
            self.lines.pop_front();
        }
        self.lines.push_back(format!("VM {vm}: {}", printable(text)));
    }

    /// The command that sets a breakpoint at this line, or takes it away.
    pub(super) fn toggle(&self) -> Option<String> {
        let line = self.view.frames.first()?.line;
        match self.view.broken_lines.contains(&line) {
            true => Some(format!("delete {line}")),
            false if line == 0 => Some(format!("break {:#x}", self.view.pc)),
            false => Some(format!("break {line}")),
        }
    }

    pub(super) fn draw(&self, frame: &mut Frame<'_>) {
        let [top, middle, bottom] =
            Layout::vertical([Constraint::Length(1), Constraint::Min(0), Constraint::Length(2)])
                .areas(frame.area());
        let [left, right] =
            Layout::horizontal([Constraint::Percentage(50), Constraint::Percentage(50)]).areas(middle);
        let [source, assembly, output] =
            Layout::vertical([Constraint::Fill(3), Constraint::Fill(2), Constraint::Length(6)]).areas(left);
        let across = ((right.width.saturating_sub(2)) / REGISTER_COLUMNS).clamp(1, 4);
        let registers_rows = 32_u16.div_ceil(across) + 2;
        let [registers, stack, memory, calls] = Layout::vertical([
            Constraint::Length(registers_rows),
            Constraint::Fill(1),
            Constraint::Length(8),
            Constraint::Fill(1),
        ])
        .areas(right);
        frame.render_widget(Line::from(self.status()).style(Modifier::REVERSED), top);
        self.pane(frame, source, &self.file(), self.source(source));
        self.pane(frame, assembly, "assembly", self.assembly(assembly));
        let lines = self.lines.iter().map(|line| Line::from(line.as_str())).collect();
        self.pane(frame, output, "debug output", tail(lines, output));
        self.pane(frame, registers, "registers", self.registers(across));
        self.pane(frame, stack, "stack", self.stack());
        let title = format!("memory at {:#x}", self.view.memory_at);
        self.pane(frame, memory, &title, self.memory());
        let shown = self.view.calls.iter().map(|call| Line::from(call.as_str())).collect();
        self.pane(frame, calls, "system calls", tail(shown, calls));
        frame.render_widget(Paragraph::new(self.prompt()), bottom);
    }

    fn pane(&self, frame: &mut Frame<'_>, area: Rect, title: &str, lines: Vec<Line<'_>>) {
        let block = Block::bordered().title(format!(" {} ", printable(title)));
        frame.render_widget(Paragraph::new(lines).block(block), area);
    }

    /// Where it is, and why.
    fn status(&self) -> String {
        let view = &self.view;
        let place = match view.frames.first() {
            Some(frame) => format!("{} at {:#x}", frame.function, view.pc),
            None => format!("{:#x}", view.pc),
        };
        let stop = if self.is_busy { "runs ..." } else { view.stop.as_str() };
        let vms: Vec<_> = view.vms.iter().map(ToString::to_string).collect();
        printable(&format!(
            " VM {} of {} | {} cycles | {place} | {stop}",
            view.vm,
            vms.join(" "),
            grouped(view.cycles)
        ))
    }

    fn file(&self) -> String {
        match self.view.frames.first() {
            Some(frame) => match &frame.file {
                Some(file) => format!("{file}:{}", frame.line),
                None => "no lines: build with -g".to_owned(),
            },
            None => "source".to_owned(),
        }
    }

    fn source(&self, area: Rect) -> Vec<Line<'_>> {
        let Some(frame) = self.view.frames.first() else { return Vec::new() };
        let Some(file) = &frame.file else { return Vec::new() };
        let Some(Some(text)) = self.sources.get(file) else {
            return vec![Line::from("the file is not in this folder, nor below")];
        };
        let rows = usize::from(area.height.saturating_sub(2));
        let current = usize::try_from(frame.line).unwrap_or(0);
        let first = current.saturating_sub(rows / 2 + 1);
        let lines = text.iter().enumerate().skip(first).take(rows);
        lines
            .map(|(index, line)| {
                let number = index + 1;
                let is_broken = u32::try_from(number).is_ok_and(|it| self.view.broken_lines.contains(&it));
                let mark = marks(number == current, is_broken);
                let text = format!("{mark}{number:>4} {}", printable(line));
                current_or_plain(text, number == current)
            })
            .collect()
    }

    fn assembly(&self, area: Rect) -> Vec<Line<'_>> {
        let rows = usize::from(area.height.saturating_sub(2));
        let at = self.view.assembly.iter().position(|it| it.address == self.view.pc).unwrap_or(0);
        let shown = self.view.assembly.iter().skip(at.saturating_sub(rows / 2)).take(rows);
        shown
            .map(|it| {
                let is_current = it.address == self.view.pc;
                let mark = marks(is_current, it.is_broken);
                current_or_plain(format!("{mark}{:>8x}  {}", it.address, printable(&it.text)), is_current)
            })
            .collect()
    }

    fn registers(&self, across: u16) -> Vec<Line<'_>> {
        let values = values(&self.view);
        let rows = 32_usize.div_ceil(usize::from(across));
        let cell = |index: usize| {
            let text = format!("{:>4} {:>16x}", REGISTERS[index], values[index]);
            let is_changed = values[index] != self.before[index];
            let style = if is_changed { Style::new().fg(Color::Yellow).bold() } else { Style::new() };
            Span::styled(text, style)
        };
        (0..rows).map(|row| (row..32).step_by(rows).map(cell).collect::<Vec<_>>()).map(Line::from).collect()
    }

    fn stack(&self) -> Vec<Line<'_>> {
        let frames = self.view.frames.iter().enumerate();
        frames
            .map(|(index, frame)| {
                let place = match &frame.file {
                    Some(file) => {
                        let name = file.rsplit('/').next().unwrap_or(file);
                        format!("{name}:{}", frame.line)
                    }
                    None => format!("{:#x}", frame.address),
                };
                Line::from(printable(&format!("#{index} {} {place}", frame.function)))
            })
            .collect()
    }

    fn memory(&self) -> Vec<Line<'_>> {
        let rows = self.view.memory.chunks(ROW_BYTES).zip((self.view.memory_at..).step_by(ROW_BYTES));
        rows.map(|(row, address)| {
            let digits: Vec<_> = row.iter().map(|byte| format!("{byte:02x}")).collect();
            let text: String = row.iter().map(|byte| letter(*byte)).collect();
            Line::from(format!("{address:>8x}  {:<23}  {text}", digits.join(" ")))
        })
        .collect()
    }

    fn prompt(&self) -> Vec<Line<'_>> {
        let first = match &self.typed {
            Some(typed) => format!(":{typed}_"),
            None => printable(&self.view.answer),
        };
        vec![Line::from(first), Line::styled(KEYS, Modifier::DIM)]
    }
}

/// Registers, with the place instead of the one that is always 0.
fn values(view: &LookView) -> [u64; 32] {
    let mut values = view.registers;
    values[0] = view.pc;
    values
}

fn letter(byte: u8) -> char {
    if byte.is_ascii_graphic() { char::from(byte) } else { '.' }
}

fn marks(is_current: bool, is_broken: bool) -> &'static str {
    match (is_current, is_broken) {
        (true, true) => "*>",
        (true, false) => " >",
        (false, true) => "* ",
        (false, false) => "  ",
    }
}

fn current_or_plain(text: String, is_current: bool) -> Line<'static> {
    Line::styled(text, if is_current { Modifier::BOLD } else { Modifier::empty() })
}

/// The last lines, as many as there is room for.
fn tail(mut lines: Vec<Line<'_>>, area: Rect) -> Vec<Line<'_>> {
    let rows = usize::from(area.height.saturating_sub(2));
    let first = lines.len().saturating_sub(rows);
    lines.split_off(first)
}

/// A number with a comma between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

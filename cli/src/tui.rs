//! `antares debug --tui`: a debugger on this terminal. The script, its symbols and all steps are in a process
//! of their own, behind the fence; here are keys, and a screen that shows what that process tells.

mod screen;

use std::{
    collections::VecDeque,
    io,
    process::ExitCode,
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

use antares_hosted::{
    job::HostedNews,
    look::{Far, LookAsk},
};
use antares_pool::{Hosted, LookKeys};
use anyhow::Context as _;
use ratatui::{
    DefaultTerminal,
    crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
};

use crate::{failure::Failure, workers::ours};
use screen::Screen;

/// How often it is looked whether there is something new.
const LOOK: Duration = Duration::from_millis(20);
/// Keys that wait until it is their turn, at most.
const KEYS_MAX: usize = 64;

/// Shows what `hosted` has, until somebody leaves.
pub(crate) fn show(hosted: Hosted) -> Result<ExitCode, Failure> {
    let keys = hosted.keys().context("the process that runs the script").map_err(Failure::Service)?;
    let (told, news) = mpsc::channel();
    // It ends with the process that it hears, or with this one.
    thread::spawn(move || {
        let mut hosted = hosted;
        loop {
            let news = hosted.news();
            let is_last = news.is_err();
            if told.send(news).is_err() || is_last {
                return;
            }
        }
    });
    let mut terminal = ratatui::try_init().context("the terminal").map_err(Failure::Service)?;
    let mut session = Session { screen: Screen::new(), keys, waiting: VecDeque::new(), asked: 1 };
    let ended = session.run(&mut terminal, &news);
    ratatui::restore();
    ended.map(|()| ExitCode::SUCCESS)
}

/// Somebody at a terminal.
struct Session {
    screen: Screen,
    keys: LookKeys,
    /// What is asked for as soon as all before is answered.
    waiting: VecDeque<LookAsk>,
    /// How much is asked for and not answered. The first view comes by itself.
    asked: usize,
}

impl Session {
    fn run(
        &mut self,
        terminal: &mut DefaultTerminal,
        news: &Receiver<io::Result<HostedNews>>,
    ) -> Result<(), Failure> {
        let mut is_new = true;
        loop {
            while let Ok(news) = news.try_recv() {
                self.hear(news)?;
                is_new = true;
            }
            self.screen.is_busy = self.asked > 0;
            if is_new {
                terminal
                    .draw(|frame| self.screen.draw(frame))
                    .context("the terminal")
                    .map_err(Failure::Service)?;
            }
            is_new = event::poll(LOOK).context("the terminal").map_err(Failure::Service)?;
            if is_new
                && let Event::Key(key) = event::read().context("the terminal").map_err(Failure::Service)?
                && key.kind != KeyEventKind::Release
                && self.is_left(key)?
            {
                return Ok(());
            }
        }
    }

    fn hear(&mut self, news: io::Result<HostedNews>) -> Result<(), Failure> {
        match news {
            Ok(HostedNews::View(view)) => {
                self.asked = self.asked.saturating_sub(1);
                self.screen.show(*view);
                match self.waiting.pop_front() {
                    Some(ask) if self.asked == 0 => self.ask(&ask),
                    _ => Ok(()),
                }
            }
            Ok(HostedNews::Line { vm, text }) => {
                self.screen.tell(vm, &text);
                Ok(())
            }
            Ok(HostedNews::Refused(why)) => Err(ours(why)),
            _ => Err(ours("the process that runs the script was lost")),
        }
    }

    fn ask(&mut self, ask: &LookAsk) -> Result<(), Failure> {
        self.asked += 1;
        self.keys.ask(ask).map_err(|_| ours("the process that runs the script was lost"))
    }

    /// Asks as soon as all before is answered.
    fn ask_later(&mut self, ask: LookAsk) -> Result<(), Failure> {
        if self.asked == 0 {
            return self.ask(&ask);
        }
        if self.waiting.len() < KEYS_MAX {
            self.waiting.push_back(ask);
        }
        Ok(())
    }

    /// Does what a key says; whether somebody leaves.
    fn is_left(&mut self, key: KeyEvent) -> Result<bool, Failure> {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if let Some(typed) = &mut self.screen.typed {
            match key.code {
                KeyCode::Esc => self.screen.typed = None,
                KeyCode::Char('c') if is_control => self.screen.typed = None,
                KeyCode::Backspace => drop(typed.pop()),
                KeyCode::Char(letter) if !is_control => typed.push(letter),
                KeyCode::Enter => {
                    let text = std::mem::take(typed);
                    self.screen.typed = None;
                    self.ask_later(LookAsk::Command(text))?;
                }
                _ => {}
            }
            return Ok(false);
        }
        match key.code {
            KeyCode::Char('q') => return Ok(true),
            KeyCode::Esc => self.stop()?,
            KeyCode::Char('c') if is_control => self.stop()?,
            KeyCode::Char(':') => self.screen.typed = Some(String::new()),
            KeyCode::Char('?') => self.ask_later(LookAsk::Command("help".to_owned()))?,
            KeyCode::Char('b') => {
                if let Some(command) = self.screen.toggle() {
                    self.ask_later(LookAsk::Command(command))?;
                }
            }
            KeyCode::Char(letter) => {
                if let Some(far) = far(letter.to_ascii_lowercase()) {
                    self.ask_later(LookAsk::Go { far, back: letter.is_ascii_uppercase() })?;
                }
            }
            _ => {}
        }
        Ok(false)
    }

    /// Stops what is under way.
    fn stop(&mut self) -> Result<(), Failure> {
        self.waiting.clear();
        if self.asked > 0 { self.ask(&LookAsk::Stop) } else { Ok(()) }
    }
}

/// How far a key goes.
fn far(letter: char) -> Option<Far> {
    Some(match letter {
        'i' => Far::Instruction,
        's' => Far::Line,
        'n' => Far::Over,
        'f' => Far::Out,
        'c' => Far::On,
        _ => return None,
    })
}

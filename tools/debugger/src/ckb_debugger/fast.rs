//! Mode fast: the interpreter starts at once, in a separate process that can request files from the host. If
//! the script takes long and has requested nothing, native code runs concurrently, and the first result wins.

use std::{
    process::{self, ExitCode},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

use antares_abi::DEBUG_BYTES_MAX;
use antares_hosted::job::{HostedEnd, HostedJob, HostedNews};

use super::{
    Begin, Hears, Raced, Rival,
    host::Host,
    lines::{self, say},
    runner::Request,
    stopped::Ending,
    words::Words,
};

/// Time after which native code starts, if it exists.
const HEAD_START: Duration = Duration::from_millis(10);
/// Further time after which a compile starts.
const COMPILE_AFTER: Duration = Duration::from_millis(100);
/// Exit status for a script with a nonzero exit code.
const REFUSED: u8 = 254;

/// The lines of the interpreted script, while the source of the answer is undecided. `None` if it is the
/// interpreter, whose lines are printed.
type Held = Mutex<Option<Vec<String>>>;

/// Runs the script, and its `rival` if it takes long.
pub(crate) fn run(request: Request<'_>, rival: Option<Rival>) -> Result<ExitCode, Ending> {
    let Request { words, target, cycles_max, begin, host } = request;
    let job = target.job(words, cycles_max, None);
    let may_race = !target.is_replaced && words.args.is_empty() && !job.has_input && !job.may_dump;
    let rival = rival.filter(|_| may_race);
    let held = Arc::new(Mutex::new(rival.is_some().then(Vec::new)));
    let mut running = begin(HostedJob::Run(Box::new(job)))?;
    let (ended, end) = channel();
    let mut hears = listener(host, &held, ended);
    let Some(rival) = rival else {
        running.hear(&mut hears, None)?;
        return Ok(ExitCode::from(print_end(&end)?));
    };
    let waits: [(Duration, &dyn Fn() -> bool); 2] =
        [(HEAD_START, &|| true), (COMPILE_AFTER, &|| !(rival.is_ready)(target))];
    for (wait, is_wanted) in waits {
        if is_wanted() && running.hear(&mut hears, Some(Instant::now() + wait))? {
            return Ok(ExitCode::from(print_end(&end)?));
        }
    }
    thread::scope(|scope| {
        scope.spawn(|| {
            // If this fails, the interpreter continues. Apart from it, only this thread ends the process.
            if let Some(raced) = (rival.race)(target, cycles_max) {
                win(&raced, &held);
            }
        });
        let status = running.hear(&mut hears, None).and_then(|_| print_end(&end));
        let status = status.unwrap_or_else(|stop| stop.exit());
        drop(running);
        // The rival, whose work is useless now, ends with this process.
        process::exit(status.into())
    })
}

/// Serves the script's requests, and passes on its end.
fn listener(mut host: Host, held: &Arc<Held>, ended: Sender<HostedEnd>) -> Hears {
    let held = held.clone();
    Box::new(move |news| {
        match news {
            HostedNews::Line { text, .. } => print_or_hold(&held, text),
            HostedNews::Call(call) => {
                // From here on, the script has external effects, so it must not run again.
                settle(&held);
                return Ok(Some(host.answer(call)));
            }
            HostedNews::Ended(end) => {
                settle(&held);
                let _ = ended.send(end);
            }
            HostedNews::Refused(why) => {
                settle(&held);
                return Err(Ending::Error(why));
            }
            _ => {}
        }
        Ok(None)
    })
}

/// Prints a line, or stores it while the source of the answer is undecided.
fn print_or_hold(held: &Held, text: String) {
    let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(lines) = &mut *held else { return lines::log(&text) };
    lines.push(text);
    if lines.iter().map(String::len).sum::<usize>() as u64 > DEBUG_BYTES_MAX {
        print_held(&mut held);
    }
}

/// Decides for the interpreter. Does not return if native code has won.
fn settle(held: &Held) {
    print_held(&mut held.lock().unwrap_or_else(PoisonError::into_inner));
}

fn print_held(held: &mut Option<Vec<String>>) {
    held.take().into_iter().flatten().for_each(|line| lines::log(&line));
}

/// Prints the end of the script, and returns the exit status.
fn print_end(end: &Receiver<HostedEnd>) -> Result<u8, Ending> {
    let end = end.try_recv().map_err(|_| Ending::lost())?;
    lines::end(&end.result);
    Ok(end.result.map_or(REFUSED, |(code, _)| status(code)))
}

/// The exit status for a script's exit code.
pub(crate) fn status(code: i8) -> u8 {
    if code == 0 { 0 } else { REFUSED }
}

/// Ends this process with the answer, unless the interpreter has won.
fn win(raced: &Raced, held: &Held) {
    let held = held.lock().unwrap_or_else(PoisonError::into_inner);
    if held.is_some() {
        raced.lines.iter().for_each(|line| lines::log(line));
        lines::result(raced.exit_code, raced.cycles);
        // The lock is still held, so that nothing else is printed.
        process::exit(status(raced.exit_code).into());
    }
}

/// Prints a decoded instruction.
pub(crate) fn decode(words: &Words, begin: Begin) -> Result<ExitCode, Ending> {
    let text =
        words.args.first().ok_or_else(|| Ending::senseless("which instruction? a number is missing"))?;
    let text = text.to_string_lossy();
    let word = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    let word = word.map_err(Ending::number)?;
    let (reported, meanings) = channel();
    let mut hears: Hears = Box::new(move |news| {
        if let HostedNews::Decoded(decoded) = news {
            let _ = reported.send(decoded);
        }
        Ok(None)
    });
    begin(HostedJob::Decode(word))?.hear(&mut hears, None)?;
    let meanings = meanings.try_recv().map_err(|_| Ending::lost())?;
    if meanings.len() > 1 {
        return Err(Ending::senseless("more than one instruction set has this instruction"));
    }
    let (assembly, set) = meanings.first().map_or(("?", '?'), |meaning| (meaning.text.as_str(), meaning.set));
    say(format_args!("       Assembly = {assembly}"));
    let (bits, digits) = if set == 'C' { (16, 4) } else { (32, 8) };
    say(format_args!("         Binary = {word:0bits$b}"));
    say(format_args!("    Hexadecimal = {word:0digits$x}"));
    say(format_args!("Instruction set = {set}"));
    Ok(ExitCode::SUCCESS)
}

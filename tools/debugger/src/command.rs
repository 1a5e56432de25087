//! `antares debug`: a script, or a script group of a transaction, for gdb. A sandboxed process runs it; this
//! process waits for gdb and relays between the two.

mod target;

use std::{
    env,
    ffi::OsString,
    fs,
    io::{self, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, ExitCode, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use antares_cli::{
    args::DebugArgs,
    failure::Failure,
    input::is_stdio,
    local::workers::{accepted, degraded, failed, ours},
    output,
};
use antares_hosted::job::{DebugEnd, HostedJob, HostedNews};
use antares_pool::{Hosted, worker_path};
use anyhow::{Context as _, anyhow};
use rustix::process::{Pid, Signal, kill_process};

/// The program to start for --gdb.
const GDB: &str = "gdb-multiarch";
/// Maximum bytes from gdb that are forwarded at once.
const PIECE: usize = 16 << 10;
/// Maximum time for final messages after gdb has disconnected.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Interval of checks whether the other process listens.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Runs the command.
/// # Errors
/// The arguments are wrong, or no process can be started.
pub fn debug(args: &DebugArgs) -> Result<ExitCode, Failure> {
    if args.gdb {
        return with_gdb(args);
    }
    let hosted = start(HostedJob::Debug(Box::new(target::job(args)?)))?;
    let listener = TcpListener::bind(args.listen)
        .with_context(|| format!("cannot listen on {}", args.listen))
        .map_err(Failure::Usage)?;
    let address = listener.local_addr().context("no address").map_err(Failure::Service)?;
    announce(args, address)?;
    let (stream, _) = listener.accept().context("nobody comes").map_err(Failure::Service)?;
    // Do not serve other clients.
    drop(listener);
    let line = |vm, text: &str| {
        // A closed standard output does not end the session.
        let _ = output::print(format!("VM {vm}: {}\n", output::printable(text)).as_bytes());
    };
    if let DebugEnd::Exited(code) = relay(hosted, stream, line)? {
        eprintln!("antares: the script exited with {code}");
    }
    // The status only says that gdb was served.
    Ok(ExitCode::SUCCESS)
}

/// Starts the process that runs the script, and waits until it is ready.
pub(crate) fn start(job: HostedJob) -> Result<Hosted, Failure> {
    let worker = worker_path("antares-debug").map_err(failed)?;
    let mut hosted = Hosted::start(&worker, &accepted()?).map_err(failed)?;
    hosted.give(&job).map_err(lost)?;
    loop {
        match hosted.news().map_err(lost)? {
            HostedNews::Ready => return Ok(hosted),
            // Lines of VMs before the debugged one.
            HostedNews::Line { .. } => {}
            HostedNews::Refused(why) => return Err(Failure::Usage(anyhow!(why))),
            HostedNews::LayersMissing { text, names } => return Err(degraded(&text, &names)),
            _ => return Err(ours("the process that runs the script makes no sense")),
        }
    }
}

/// Reports the address for gdb.
fn announce(args: &DebugArgs, address: SocketAddr) -> Result<(), Failure> {
    let file = args.elf.as_deref().filter(|path| !is_stdio(path));
    let file = file.map(|path| format!(" {}", quoted(&path.to_string_lossy()))).unwrap_or_default();
    if let Some(path) = &args.address_file {
        return output::write(path, address.to_string().as_bytes());
    }
    let text = format!("waiting for gdb on {address}\n  {GDB} -ex 'target remote {address}'{file}\n");
    output::print(text.as_bytes())
}

/// `text`, quoted for a shell.
fn quoted(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+=:@%,".contains(letter);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// Forwards data between gdb and the script's process until one of them is gone; returns how that ended. Passes
/// debug output to `line`, with its VM.
pub(crate) fn relay(
    mut hosted: Hosted,
    stream: TcpStream,
    line: impl Fn(u64, &str),
) -> Result<DebugEnd, Failure> {
    stream.set_nodelay(true).context("the connection").map_err(Failure::Service)?;
    let mut to_script = hosted.input().context("the connection").map_err(Failure::Service)?;
    let mut from_gdb = stream.try_clone().context("the connection").map_err(Failure::Service)?;
    let mut to_gdb = stream;
    let (pid, is_left) = (hosted.id(), Arc::new(AtomicBool::new(false)));
    let leaves = is_left.clone();
    let (ending, has_ended) = mpsc::channel::<()>();
    let reader = thread::spawn(move || {
        let mut piece = vec![0; PIECE];
        while let Ok(count @ 1..) = from_gdb.read(&mut piece) {
            if to_script.write_all(&piece[..count]).is_err() {
                return;
            }
        }
        // Pending messages may still arrive; afterwards, the script's process is killed. The child is not
        // reaped before this thread has ended, so its id is not reused.
        let is_over = has_ended.recv_timeout(LAST_WORDS) == Err(mpsc::RecvTimeoutError::Disconnected);
        if is_over {
            return;
        }
        leaves.store(true, Ordering::Release);
        if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
    });
    let ended = loop {
        match hosted.news() {
            Ok(HostedNews::Words(words)) if to_gdb.write_all(&words).is_err() => break Ok(DebugEnd::Left),
            Ok(HostedNews::Words(_)) => {}
            Ok(HostedNews::Line { vm, text }) => line(vm, &text),
            Ok(HostedNews::Debugged(end)) => break Ok(end),
            Ok(HostedNews::Refused(why)) => break Err(ours(why)),
            Ok(_) => break Err(ours("the process that runs the script makes no sense")),
            Err(_) if is_left.load(Ordering::Acquire) => break Ok(DebugEnd::Left),
            Err(error) => break Err(lost(error)),
        }
    };
    drop(ending);
    // Both sides may be gone.
    let _ = to_gdb.shutdown(Shutdown::Both);
    let _ = reader.join();
    ended
}

/// Becomes gdb, connected to another process of this program.
fn with_gdb(args: &DebugArgs) -> Result<ExitCode, Failure> {
    let found = Command::new(GDB).arg("--version").output();
    if found.is_err() {
        return Err(Failure::Usage(anyhow!(
            "there is no {GDB} on the PATH (Debian has it in a package of that name)"
        )));
    }
    let folder = tempfile::tempdir().context("no folder for the address").map_err(Failure::Service)?;
    let file = folder.path().join("address");
    let program = env::current_exe().context("where is this program?").map_err(Failure::Service)?;
    // In its own process group, because ^C on a terminal is for gdb.
    let mut server = Command::new(program)
        .args(words_of_server(env::args_os().skip(1), &file))
        .process_group(0)
        .stdin(Stdio::null())
        .spawn()
        .context("cannot start the other process")
        .map_err(Failure::Service)?;
    let address = loop {
        if let Ok(address) = fs::read_to_string(&file) {
            break address;
        }
        match server.try_wait() {
            Ok(Some(status)) => {
                // The server has reported the reason.
                let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(3);
                return Ok(ExitCode::from(code));
            }
            _ => thread::sleep(POLL_INTERVAL),
        }
    };
    drop(folder);
    let mut gdb = Command::new(GDB);
    gdb.args(["-q", "-ex", &format!("target remote {address}")]);
    if let Some(commands) = &args.batch {
        gdb.args(["-batch", "-x"]).arg(commands);
    }
    gdb.args(args.elf.as_deref());
    Err(Failure::Service(anyhow::Error::from(gdb.exec()).context(format!("cannot become {GDB}"))))
}

/// The arguments of this process without those for gdb, plus the address file.
fn words_of_server(words: impl Iterator<Item = OsString>, file: &Path) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut words = words.peekable();
    while let Some(word) = words.next_if(|word| word != "--") {
        match word.to_str() {
            Some("--gdb") => {}
            Some("--batch") => drop(words.next()),
            Some(text) if text.starts_with("--batch=") => {}
            _ => kept.push(word),
        }
    }
    kept.extend(["--address-file".into(), file.into()]);
    kept.extend(words);
    kept
}

fn lost(_: io::Error) -> Failure {
    ours("the process that runs the script was lost")
}

//! Mode gdb: serves gdb clients sequentially, each with a run of its own.

use std::{net::TcpListener, process::ExitCode};

use antares_hosted::job::{DebugEnd, HostedDebug, Watch};

use super::{
    ServeGdb, full,
    lines::{self, say},
    runner::Request,
    stopped::Ending,
};

/// Serves gdb clients until the program is ended.
pub(crate) fn serve(request: Request<'_>, serve: ServeGdb) -> Result<ExitCode, Ending> {
    let Request { words, target, cycles_max, .. } = request;
    let vm = words.vm().unwrap_or_default();
    let watch = Watch { vm, cycles_max: u64::MAX, ..Watch::default() };
    let seen = full::gather(request, cycles_max, watch)?;
    // The script's end is already known.
    let tell_end = || match (&seen.end.result, seen.end.vms.iter().find(|seen| seen.vm == vm)) {
        (Ok((code, _)), Some(of_vm)) => lines::result(of_vm.exit_code.unwrap_or(*code), of_vm.cycles),
        (Ok((code, cycles)), None) => lines::result(*code, *cycles),
        (Err(why), _) => say(format_args!("Error: {why}")),
    };
    say("Actual run: start");
    let failed = |error| Ending::Error(format!("{error:?}"));
    let listener = TcpListener::bind(&words.gdb_listen).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let address = if words.gdb_listen.ends_with(":0") { &address.to_string() } else { &words.gdb_listen };
    say(format_args!("Listening for gdb remote connection on {address}"));
    loop {
        let (stream, peer) = listener.accept().map_err(failed)?;
        say(format_args!("Accepted connection from: {peer}, booting VM"));
        let run = target.job(words, cycles_max, None);
        // A user with only a script passes it to gdb, as guides recommend.
        let has_file = words.bin.is_some();
        let (only_prints, breaks_on_error, break_at_cycles) = <_>::default();
        let job = HostedDebug { run, only_prints, breaks_on_error, break_at_cycles, vm, has_file };
        let line = |of, text: &str| {
            if of == vm {
                lines::log(text);
            }
        };
        match serve(job, stream, &line)? {
            DebugEnd::Exited(_) | DebugEnd::Failed => tell_end(),
            DebugEnd::Left => {
                say("GDB client has disconnected. Running to completion...");
                tell_end();
            }
            DebugEnd::Killed => say("Error: external error: GDB sent a kill command!"),
        }
    }
}

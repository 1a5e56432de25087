//! The commands that query a server: upload, ls, stat, health, capabilities, top.

use std::{fmt::Write as _, process::ExitCode};

use antares_abi::Sha256Digest;
use antares_proto::v1;
use anyhow::anyhow;

use crate::{
    args::{
        code::server_of,
        servers::{HealthArgs, ListArgs, ServerArgs, StatArgs, StoredArgs, TopArgs, UploadArgs},
    },
    failure::Failure,
    input,
    limits::SCRIPT_BYTES_MAX,
    output,
    output::json,
    output::report::{functions_table, grouped},
    output::server_json::{RanScript, RanShape, ServiceShape, StoredShape, TopShape},
    remote::calls::Server,
    remote::server_profile::digest,
};

impl ServerArgs {
    /// The server named by an argument or the environment.
    pub(crate) fn server(&self) -> Result<Server, Failure> {
        let named = server_of(self.server.as_deref());
        let named =
            named.ok_or_else(|| Failure::Usage(anyhow!("say which server: --server, or ANTARES_SERVER")))?;
        Server::parse(&named, &self.credentials)
    }
}

/// `antares upload`: stores scripts.
pub(crate) fn upload(args: &UploadArgs) -> Result<(), Failure> {
    let server = args.server.server()?;
    args.elf.iter().try_for_each(|path| {
        let elf = input::read(path, SCRIPT_BYTES_MAX)?;
        let was = if server.upload(&elf)? { "was stored before" } else { "stored" };
        output::print(format!("{}  {}  {was}\n", Sha256Digest::of(&elf), path.display()).as_bytes())
    })
}

/// `antares rm`: status 1 if a script was not stored.
pub(crate) fn remove(args: &StoredArgs) -> Result<ExitCode, Failure> {
    each_stored(args, |server, key| match server.remove_stored(args.artifacts, key)? {
        0 => Ok(None),
        removed => Ok(Some(format!("removed, {removed} entries"))),
    })
}

/// `antares pin` and `antares unpin`: status 1 if a script is not stored.
pub(crate) fn pin(args: &StoredArgs, pinned: bool) -> Result<ExitCode, Failure> {
    let done = if pinned { "pinned" } else { "unpinned" };
    each_stored(args, |server, key| {
        Ok(server.pin_stored(args.artifacts, key, pinned)?.then(|| done.to_owned()))
    })
}

/// Changes each entry and prints the result; `None` is an entry that is not stored.
fn each_stored(
    args: &StoredArgs,
    change: impl Fn(&Server, Sha256Digest) -> Result<Option<String>, Failure>,
) -> Result<ExitCode, Failure> {
    let server = args.server.server()?;
    let mut is_all = true;
    for script in &args.scripts {
        let key = digest(script)?;
        let changed = change(&server, key)?;
        is_all &= changed.is_some();
        let what = changed.as_deref().unwrap_or("not stored");
        output::print(format!("{key}  {what}\n").as_bytes())?;
    }
    Ok(if is_all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// `antares ls --stored`.
fn list_stored(args: &ListArgs) -> Result<(), Failure> {
    let stored = args.server.server()?.list_stored(args.artifacts)?;
    if args.json {
        return json::print(&StoredShape { stored });
    }
    let what = if args.artifacts { "artifact" } else { "sha256 of the script" };
    let mut text = format!("{what:<64} {:>16}  notes\n", "bytes");
    for entry in stored {
        let notes = match (entry.pinned, entry.used) {
            (true, true) => "pinned, used",
            (true, false) => "pinned",
            (false, true) => "used",
            (false, false) => "",
        };
        let line = format!("{:<64} {:>16}  {notes}", entry.key, grouped(entry.size_bytes));
        let _ = writeln!(text, "{}", line.trim_end());
    }
    output::print(output::printable(&text).as_bytes())
}

/// `antares ls`: scripts that ran recently, or stored scripts.
pub(crate) fn list(args: &ListArgs) -> Result<(), Failure> {
    if args.stored {
        return list_stored(args);
    }
    let all = args.server.server()?.list(args.window_ms)?;
    if args.json {
        return json::print(&RanShape { scripts: all.iter().map(RanScript::of).collect() });
    }
    let mut text = format!("{:<64} {:>20} {:>12}\n", "sha256 of the script", "cycles", "runs");
    for ran in all {
        let name = if ran.script.is_empty() { "transactions" } else { &ran.script };
        let _ = writeln!(text, "{name:<64} {:>20} {:>12}", grouped(ran.cycles), grouped(ran.runs));
    }
    output::print(output::printable(&text).as_bytes())
}

/// `antares stat`: information on a script; status 1 if the server does not have it.
pub(crate) fn stat(args: &StatArgs) -> Result<ExitCode, Failure> {
    let script = digest(&args.script)?;
    let stat = args.server.server()?.stat(script)?;
    match args.json {
        true => json::print(&stat)?,
        false => {
            let stored =
                stat.size_bytes.map_or_else(|| "no".to_owned(), |bytes| format!("{} bytes", grouped(bytes)));
            let (cycles, runs) = (grouped(stat.cycles), grouped(stat.runs));
            let text = format!("sha256  {script}\nstored  {stored}\nruns    {runs}\ncycles  {cycles}\n");
            output::print(text.as_bytes())?;
        }
    }
    Ok(if stat.size_bytes.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// `antares health`: status 1 if a service is not serving.
pub(crate) fn health(args: &HealthArgs) -> Result<ExitCode, Failure> {
    let health = args.server.server()?.health()?;
    let line = |service: &ServiceShape<'_>| {
        format!("{:<28} {}\n", service.name, if service.serving { "serving" } else { "not serving" })
    };
    match args.json {
        true => json::print(&health)?,
        false => output::print(health.services.iter().map(line).collect::<String>().as_bytes())?,
    }
    Ok(if health.serving { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// `antares capabilities`.
pub(crate) fn capabilities(args: &ServerArgs) -> Result<(), Failure> {
    output::print(args.server()?.capabilities()?.as_bytes())
}

/// `antares top`.
pub(crate) fn top(args: &TopArgs) -> Result<(), Failure> {
    let script = args.script.as_deref().map(digest).transpose()?.map(|digest| digest.to_string());
    let selection = Some(v1::ProfileSelection { script, window_ms: args.window_ms });
    let request = v1::TopFunctionsRequest { selection, limit: Some(args.top) };
    let answer = args.server.server()?.top(request)?;
    if args.json {
        return json::print(&TopShape::of(&answer));
    }
    let rows = answer.functions.iter().map(|row| (&*row.name, row.self_cycles, row.total_cycles));
    let text = format!("{} cycles\n\n{}", grouped(answer.cycles), functions_table(rows, answer.cycles));
    output::print(output::printable(&text).as_bytes())
}

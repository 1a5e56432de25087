//! `antares dump`: a transaction of a CKB node's chain, or one that uses its cells, with all data that its
//! scripts may read.

use antares_transaction::Mock;
use anyhow::anyhow;

use crate::{
    args::of_chain::DumpArgs,
    commands::of_chain::{self, Taken},
    failure::Failure,
    input::is_stdio,
    output,
};

/// Writes the transaction that `args` name.
pub(crate) fn dump(args: &DumpArgs) -> Result<(), Failure> {
    let node = of_chain::node(&args.node)?;
    let taken = match (&args.tx_hash, &args.tx) {
        (Some(hash), _) => of_chain::by_hash(&node, hash)?,
        (None, Some(path)) => of_chain::of_file(&node, of_chain::read_bare(path, args.format)?)?,
        (None, None) => return Err(Failure::Usage(anyhow!("--tx-hash or --tx is needed"))),
    };
    let mut text = taken.resolved.to_json_pretty();
    text.push(b'\n');
    // Do not write a file that cannot be read again.
    Mock::from_json(&text).map_err(|error| Failure::Service(anyhow!("what the node gave: {error}")))?;
    let file = args.output.as_deref().filter(|path| !is_stdio(path));
    match file {
        Some(path) => output::write(path, &text)?,
        None => output::print(&text)?,
    }
    print_summary(&taken, &file.map_or_else(|| "FILE".to_owned(), |path| path.display().to_string()));
    Ok(())
}

/// Prints a summary and the next step.
fn print_summary(taken: &Taken, file: &str) {
    report_not_live(taken);
    let environment = &taken.environment;
    let rules = match environment.vm_version_latest() {
        _ if taken.is_mainnet => format!(" --mainnet-epoch {}", environment.epoch),
        2 => String::new(),
        version => format!(" --script-version {version}"),
    };
    let info = &taken.resolved.mock.mock_info;
    let (inputs, deps, headers) = (info.inputs.len(), info.cell_deps.len(), info.header_deps.len());
    eprintln!(
        "antares: {inputs} inputs, {deps} cells of deps, {headers} headers; verify it with: antares verify --tx {}{rules}",
        output::printable(file)
    );
}

/// Reports inputs that are not live.
pub(crate) fn report_not_live(taken: &Taken) {
    for index in &taken.not_live {
        eprintln!("antares: tx.inputs[{index}] spends a cell that is spent already, or in no block yet");
    }
}

//! `antares tx build`: a mock transaction from a small file.

use crate::{
    args::tx::{TxArgs, TxCommand},
    commands::verify::read_draft,
    failure::Failure,
    output,
};

pub(crate) fn tx(args: &TxArgs) -> Result<(), Failure> {
    let TxCommand::Build { file } = &args.command;
    let mut json = read_draft(file)?.json;
    json.push(b'\n');
    output::print(&json)
}

//! `antares tx build`: a mock transaction from a small file.

use crate::{args::tx::TxCommand, commands::verify::read_draft, failure::Failure, output};

pub(crate) fn tx(TxCommand::Build { file }: &TxCommand) -> Result<(), Failure> {
    let mut json = read_draft(file)?.json;
    json.push(b'\n');
    output::print(&json)
}

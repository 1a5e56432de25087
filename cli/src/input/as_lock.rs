//! `antares run --as-lock`: a script as the lock of the only input of a generated transaction.

use std::process::ExitCode;

use antares_transaction::{Environment, limits::TRANSACTION_BYTES_MAX};
use bytes::Bytes;

use crate::{args::RunArgs, commands::verify, failure::Failure, input, input::verify_request};

pub(crate) use crate::args::lock::Content;

impl Content {
    pub fn read(&self) -> Result<Bytes, Failure> {
        match self {
            Self::Bytes(bytes) => Ok(bytes.clone().into()),
            Self::File(path) => input::read(path, TRANSACTION_BYTES_MAX as u64).map(Bytes::from),
        }
    }
}

/// Runs the script that `args` name.
pub(crate) fn run(args: RunArgs) -> Result<ExitCode, Failure> {
    let mock = args.lock.to_mock(&args.script.elf)?;
    let environment = Environment::of_version(args.script.machine.vm_version);
    let request = verify_request::Request::new(mock.to_json(), environment, &args.how);
    let report = verify::anywhere(&request, &args.how)?;
    verify::print_verdict(&request, &report, &args.how.diagnosis, args.how.json)?;
    match args.expect_cycles {
        Some(cycles) if report.exit_status() == ExitCode::SUCCESS && report.cycles != cycles => {
            eprintln!("antares: {} cycles, {cycles} were expected", report.cycles);
            Ok(ExitCode::FAILURE)
        }
        _ => Ok(report.exit_status()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_digits_or_a_file() {
        assert_eq!("0x".parse(), Ok(Content::Bytes(Vec::new())));
        assert_eq!("0x00aFf0".parse(), Ok(Content::Bytes(vec![0, 0xaf, 0xf0])));
        assert_eq!("@folder/file".parse(), Ok(Content::File("folder/file".into())));
        for text in ["", "@", "00", "0x0", "0xgg", "0x+1", "0x 1"] {
            assert!(text.parse::<Content>().is_err(), "{text}");
        }
    }
}

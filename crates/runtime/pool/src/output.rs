//! The output of an ended compile child: seals and hashes it, and checks it against the report.

use std::fs::File;

use crate::{
    PoolError, Sealed, Verdict,
    artifact::{verify_counted_library, verify_library},
    job::{CompileReport, CompileTask, Stage},
};

/// Maximum bytes of a compile's output.
pub const OUTPUT_BYTES_MAX: u64 = 256 << 20;

/// Seals `output` if `report` claims one. A report that does not match its output is false.
///
/// The child must have ended: sealing fails while there is a writable mapping.
pub(crate) fn take_output(
    task: CompileTask,
    report: &CompileReport,
    output: File,
) -> Result<Verdict<Option<Sealed>>, PoolError> {
    let CompileReport::Done(summary) = report else { return Ok(Verdict::Done(None)) };
    let falsely = |detail: String| Ok(Verdict::FalseReport { detail });
    let length = output.metadata().map_err(PoolError::io("measure an output"))?.len();
    if length != summary.output_bytes || length > OUTPUT_BYTES_MAX {
        return falsely(format!(
            "the output has {length} bytes, the report says {}, the limit is {OUTPUT_BYTES_MAX}",
            summary.output_bytes
        ));
    }
    let sealed = Sealed::seal(output).map_err(PoolError::io("seal an output"))?;
    if sealed.digest() != summary.sha256 {
        return falsely(format!(
            "the output's digest is {}, the report says {}",
            sealed.digest(),
            summary.sha256
        ));
    }
    let verified = match task {
        CompileTask::Compile(Stage::Counted { .. }) => verify_counted_library(&sealed, summary.sha256),
        task if task.is_library() => verify_library(&sealed, summary.sha256),
        _ => Ok(()),
    };
    if let Err(error) = verified {
        return falsely(format!("the output is no library of ours: {error}"));
    }
    Ok(Verdict::Done(Some(sealed)))
}

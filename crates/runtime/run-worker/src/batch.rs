//! Runs one script with many inputs in a sandboxed child. The script is loaded once, and each run starts with
//! cleared memory. Each report is sent before the next run starts, so that it survives later failures, and
//! only one report is in memory at a time.

use antares_pool::{
    Files, batch_output_bytes,
    job::{BatchJob, BatchReport, RunWorkerReport, SAMPLES_BYTES_MAX},
};
use bytes::Bytes;

use crate::{RunWorker, limits};

impl RunWorker {
    pub(crate) fn batch(&mut self, job: BatchJob, files: &Files) -> Result<BatchReport, String> {
        let bytes = |args: Vec<Vec<u8>>| args.into_iter().map(Bytes::from).collect();
        let inputs: Vec<Vec<Bytes>> = job.inputs.into_iter().map(bytes).collect();
        self.load(job.debug_bytes_max, files)?;
        let (mut runs, mut output_bytes, mut samples_bytes) = (0, 0_u64, 0);
        for (args, at) in inputs.iter().zip(0..) {
            let debug_bytes_max = if output_bytes < job.output_bytes_max { job.debug_bytes_max } else { 0 };
            let limits = limits(job.cycles_max, debug_bytes_max);
            let sampling = (job.sample_cycles, job.sample_salt.wrapping_add(at));
            let mut report = self.run_loaded(job.options, args, limits, (job.tier, sampling))?;
            report.samples = report.samples.filter(|_| samples_bytes <= SAMPLES_BYTES_MAX);
            samples_bytes += report.samples.as_ref().map_or(0, |samples| samples.profile.len());
            output_bytes = output_bytes.saturating_add(batch_output_bytes(&report));
            files
                .send_part(&RunWorkerReport::Run(report))
                .map_err(|error| format!("cannot send a report: {error}"))?;
            runs += 1;
        }
        Ok(BatchReport { runs })
    }
}

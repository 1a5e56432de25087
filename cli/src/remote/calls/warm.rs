//! Compiles on a server in advance: warm.

use std::{num::NonZeroUsize, time::Duration};

use antares_abi::{CompileOptions, Sha256Digest};
use antares_client::{credentials::Connection, retry::Retry};
use antares_proto::v1::{self, CacheUse, compiler_service_client::CompilerServiceClient};
use tonic::{Request as Call, Status};

use super::{Server, call_time, upload};
use crate::{
    failure::Failure,
    remote::status::{self, Problem, is_passing},
};

/// Waits for a busy server: advance compiles are not urgent.
const PATIENT: Retry = Retry {
    attempts_max: 20,
    pause_min: Duration::from_millis(200),
    pause_max: Duration::from_secs(5),
    is_spread: false,
};

/// A script to compile.
#[derive(Clone, Debug)]
pub(crate) struct Cold {
    /// Displayed name.
    pub(crate) name: String,
    pub(crate) script: Sha256Digest,
    /// Its bytes, if available.
    pub(crate) elf: Option<Vec<u8>>,
    /// Whether it was found rather than named: stores also contain cell data.
    pub(crate) is_found: bool,
}

/// Result of a compile.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Warmed {
    /// It was already compiled.
    Hit,
    /// It was compiled now, in this many milliseconds.
    Compiled(u64),
}

async fn compile(channel: &Connection, cold: &Cold, options: CompileOptions) -> Result<Warmed, Status> {
    let compile = || {
        let mut call = Call::new(v1::CompileRequest {
            script_sha256: cold.script.to_string(),
            options: Some(v1::ScriptOptions {
                vm_version: Some(options.vm_version),
                isa: Some(options.isa.to_string()),
            }),
            least: v1::CodeTier::Full.into(),
            stored_only: false,
        });
        call.set_timeout(call_time(None));
        let mut client = CompilerServiceClient::new(channel.clone());
        async move { client.compile(call).await }
    };
    let answer = match (PATIENT.insist(compile, is_passing).await, &cold.elf) {
        (Err(status), Some(elf)) if Problem::of(&status) == Problem::ScriptNotFound => {
            PATIENT.insist(|| upload(channel.clone(), elf), is_passing).await?;
            PATIENT.insist(compile, is_passing).await
        }
        (answer, _) => answer,
    };
    let answer = answer?.into_inner();
    Ok(match answer.cache() {
        CacheUse::Hit => Warmed::Hit,
        _ => Warmed::Compiled(answer.compile_ms),
    })
}

impl Server {
    /// Compiles all of `cold`, `at_once` at a time, and passes each result to `each`. A failed script is not
    /// a failure of the call.
    pub(crate) fn warm(
        &self,
        cold: Vec<Cold>,
        options: CompileOptions,
        at_once: NonZeroUsize,
        mut each: impl FnMut(&Cold, Result<Warmed, Failure>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        super::runtime()?.block_on(async {
            let channel = self.connect().await?;
            let mut cold = cold.into_iter();
            let mut running = tokio::task::JoinSet::new();
            loop {
                while running.len() < at_once.get()
                    && let Some(next) = cold.next()
                {
                    let channel = channel.clone();
                    running.spawn(async move {
                        let warmed = compile(&channel, &next, options).await;
                        (next, warmed)
                    });
                }
                let Some(done) = running.join_next().await else { return Ok(()) };
                let (one, warmed) = done.map_err(|error| Failure::Service(error.into()))?;
                let warmed = match warmed {
                    Err(status) if Problem::of(&status) == Problem::ScriptNotFound => {
                        let detail = "it is not stored there".to_owned();
                        Err(Failure::Refused { reason: "not_found".to_owned(), detail })
                    }
                    warmed => warmed.map_err(|status| status::failure(&self.url, &status)),
                };
                each(&one, warmed)?;
            }
        })
    }
}

//! Compiles on a server that nobody waits for: warm.

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

/// A server that is busy is waited for: that is what nobody waits for is for.
const PATIENT: Retry = Retry {
    attempts_max: 20,
    pause_min: Duration::from_millis(200),
    pause_max: Duration::from_secs(5),
    is_spread: false,
};

/// A script to be compiled.
#[derive(Clone, Debug)]
pub(crate) struct Cold {
    /// What it is called.
    pub(crate) name: String,
    /// Its digest.
    pub(crate) script: Sha256Digest,
    /// Its bytes, if they are at hand.
    pub(crate) elf: Option<Vec<u8>>,
    /// Whether nobody named it: it was found in a store, where data of cells lies beside scripts.
    pub(crate) is_found: bool,
}

/// What became of it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Warmed {
    /// It was compiled before.
    Hit,
    /// It was compiled now, in so many milliseconds.
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
    /// Compiles all of `cold`, `at_once` at a time, and tells `each` what became of it. An answer about one
    /// script is no failure.
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

//! Compiles on a server that nobody waits for: warm.

use std::{num::NonZeroUsize, time::Duration};

use antares_abi::{CompileOptions, Sha256Digest};
use antares_proto::v1::{self, CacheUse, compiler_service_client::CompilerServiceClient};
use tonic::{Request as Call, Status};

use super::{Link, Server, call_time, upload::upload};
use crate::{
    failure::Failure,
    status::{self, Problem, is_passing},
};

/// Times that a call is made which a busy server refuses.
const TRIES: u32 = 20;

/// Time before the second one; each one more doubles it.
const PAUSE_MIN: Duration = Duration::from_millis(200);

/// Time between two at most.
const PAUSE_MAX: Duration = Duration::from_secs(5);

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

async fn insist<T, F: Future<Output = Result<T, Status>>>(call: impl Fn() -> F) -> Result<T, Status> {
    let mut pause = PAUSE_MIN;
    for _ in 1..TRIES {
        match call().await {
            Err(status) if is_passing(&status) => tokio::time::sleep(pause).await,
            answer => return answer,
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
    call().await
}

async fn compile(channel: &Link, cold: &Cold, options: CompileOptions) -> Result<Warmed, Status> {
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
    let answer = match (insist(compile).await, &cold.elf) {
        (Err(status), Some(elf)) if Problem::of(&status) == Problem::ScriptNotFound => {
            insist(|| upload(channel.clone(), elf)).await?;
            insist(compile).await
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

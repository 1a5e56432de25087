//! Hints: feedback of a script's runs for its next compile.
//!
//! They are stored with the artifacts, each round under a unique key: so they are verified on read, count
//! toward the budget, and can be evicted. Without them a script is compiled as at first. Tenants that share
//! native code share feedback from our runners; a caller's own feedback counts for that caller alone. A
//! tenant with its own native code gets no feedback from others.

use antares_abi::{CodeTier, CompileOptions, Hints, Seen, Sha256Digest};
use antares_cache::{Cache, Put, Space};
use antares_serve::Salt;

use crate::{
    artifact::CompileError,
    blocking::blocking,
    compiler::Compiler,
    metrics::HintsResult,
    order::{Order, Target},
};

/// Maximum changes of a script's hints, for all or for one tenant; later ones are ignored.
const ROUNDS_MAX: u8 = 8;

/// Replaces the round's number in the key of the last round in the shared tier.
const LAST: u8 = 0;

/// Source of a run's feedback, which determines whose compiles it affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Teacher {
    /// A runner of ours, whose worker saw it: for all who share native code.
    Runner,
    /// Any caller, which is untrusted: for its own compiles.
    Caller,
}

impl Compiler {
    /// The hints of a script, shared and the caller's own. Nothing if code with them could not be made.
    pub(crate) async fn hints(&self, target: Target) -> Result<Hints, CompileError> {
        let (_, shared) = self.last_round(Teacher::Runner, target).await?;
        let (_, own) = self.last_round(Teacher::Caller, target).await?;
        let hints = shared.learn(&Seen { left: None, hints: own });
        if hints.is_empty() {
            return Ok(hints);
        }
        // The full compile may be known to fail with them, and may succeed without.
        let full = Order::new(&self.account, target, CodeTier::Full, None).hinted(&hints);
        let has_failed = self.shared.followers.has_failed(full.storage_key());
        let is_useless = has_failed || self.shared.remembered(&full).await?.is_some();
        Ok(if is_useless { Hints::default() } else { hints })
    }

    /// Adds the feedback of a script's run. Returns the digest of the current hints, which the caller's next
    /// compile uses.
    ///
    /// # Errors
    /// The script is not stored, or an internal error.
    pub async fn learn(
        &self,
        teacher: Teacher,
        (script, options): (Sha256Digest, CompileOptions),
        seen: &Seen,
    ) -> Result<Option<Sha256Digest>, CompileError> {
        if !self.has_script(script) {
            self.script(script).await?;
        }
        // A tenant with separate native code needs only one location.
        let target = Target { script, options };
        let teacher = if self.account.is_salted() { Teacher::Runner } else { teacher };
        let _learning = self.shared.learning.lock().await;
        let (round, known) = self.last_round(teacher, target).await?;
        let learnt = known.learn(seen);
        if learnt == known || round >= ROUNDS_MAX {
            let result = if learnt == known { HintsResult::Known } else { HintsResult::LeftAlone };
            self.shared.metrics.record_hints(result);
            return Ok(self.hints(target).await?.digest());
        }
        let key = self.hints_key(teacher, target, round + 1);
        let (cache, bytes) = (self.shared.cache.clone(), learnt.to_bytes());
        let put = blocking(move || cache.put(Space::Artifact, key.0, &bytes)).await;
        if !matches!(put, Ok(Ok(Put::Stored | Put::AlreadyThere))) {
            self.shared.metrics.record_hints(HintsResult::NotStored);
            return Ok(self.hints(target).await?.digest());
        }
        self.shared.metrics.record_hints(HintsResult::Learnt);
        tracing::info!(%script, ?teacher, round = round + 1, hints = learnt.len(), "learnt where a script goes");
        let hints = self.hints(target).await?;
        // A caller's own hints take effect when it requests native code.
        if teacher == Teacher::Runner {
            self.publish(target, round + 1, &learnt);
            self.follow(Order::new(&self.account, target, CodeTier::Full, None).hinted(&hints));
        }
        Ok(hints.digest())
    }

    async fn last_round(&self, teacher: Teacher, target: Target) -> Result<(u8, Hints), CompileError> {
        let kept = |round: u8| self.hints_key(teacher, target, round);
        let is_there = |round: &u8| self.shared.cache.contains(Space::Artifact, kept(*round).0);
        let Some(round) = (1..=ROUNDS_MAX).rev().find(is_there) else {
            return Ok(match teacher {
                Teacher::Runner => self.learnt_elsewhere(target).await.unwrap_or_default(),
                Teacher::Caller => Default::default(),
            });
        };
        let bytes = self.shared.here(Space::Artifact, kept(round)).await?.unwrap_or_default();
        Ok((round, Hints::from_bytes(&bytes)))
    }

    /// Key of a round: shared, for the caller's own compiles, or among a tenant's separate data.
    fn hints_key(&self, teacher: Teacher, target: Target, round: u8) -> Sha256Digest {
        let key = Sha256Digest(self.account.salt().apply(key(target, round).0));
        match teacher {
            Teacher::Runner => key,
            Teacher::Caller => {
                Sha256Digest::of(&[&b"antares-own-hints-v1\0"[..], &self.account.owner(), &key.0].concat())
            }
        }
    }
}

/// Exchange between servers with the same shared tier: the last round of each, under one key. It only
/// determines the entry points of the next compile, so it needs no proof.
impl Compiler {
    fn publish(&self, target: Target, round: u8, hints: &Hints) {
        let Some(shared) = self.shared.tiers.shared() else { return };
        let bytes = [&[round][..], &hints.to_bytes()].concat();
        let key = self.hints_key(Teacher::Runner, target, LAST);
        shared.offer(Space::Artifact, key.0, bytes.into(), true);
    }

    /// The last round reported by another server, also stored here.
    async fn learnt_elsewhere(&self, target: Target) -> Option<(u8, Hints)> {
        let last = self.hints_key(Teacher::Runner, target, LAST);
        let reported = self.shared.hints_of_others(last).await?;
        let (round, bytes) = reported.split_first()?;
        let hints = Hints::from_bytes(bytes);
        if !(1..=ROUNDS_MAX).contains(round) || hints.is_empty() {
            return None;
        }
        let key = self.hints_key(Teacher::Runner, target, *round);
        self.shared.fill(Space::Artifact, key, hints.to_bytes().into());
        Some((*round, hints))
    }
}

/// Keys of a script's stored hints and of the artifacts compiled with them.
pub(crate) fn stored_keys(cache: &Cache, target: Target, salt: Salt) -> Vec<Sha256Digest> {
    let Target { script, options } = target;
    let salted = |key: Sha256Digest| Sha256Digest(salt.apply(key.0));
    let rounds = (1..=ROUNDS_MAX).map(|round| salted(key(target, round)));
    let mut kept = Vec::new();
    for round in rounds.filter(|round| cache.contains(Space::Artifact, round.0)) {
        let bytes = cache.get(Space::Artifact, round.0).unwrap_or_default();
        let hints = Hints::from_bytes(&bytes).digest();
        let artifact = |tier| salted(Sha256Digest::for_artifact(script, options, tier).with_hints(hints));
        kept.extend(CodeTier::ALL.map(artifact));
        kept.push(round);
    }
    kept
}

/// Hints outlive the engine version of their runs.
fn key(target: Target, round: u8) -> Sha256Digest {
    let Target { script, options: CompileOptions { vm_version, isa } } = target;
    let parts = [b"antares-hints-v1\0".as_slice(), &script.0, &vm_version.to_le_bytes(), &[isa.0, round]];
    Sha256Digest::of(&parts.concat())
}

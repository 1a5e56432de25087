//! Verdicts of transactions that carry a signature.

use std::{
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};

use antares_abi::ENGINE_VERSION;
use antares_pool::job::{GroupKind, GroupReport, VerifyOutcome};
use antares_serve::{Fault, chain};
use antares_transaction::{Environment, TransactionFacts};
use antares_trust::{KeyError, StatedGroup, Trust, VerdictStatement};

use crate::ended::{Ended, ExecuteError, Verified};

/// The keys that sign verdicts, if there are some.
pub(crate) struct VerdictKeys(Option<Trust>);

/// What a signed verdict is about, beside how it ended.
#[derive(Clone, Debug)]
pub(crate) struct Signable {
    pub(crate) facts: TransactionFacts,
    pub(crate) environment: Environment,
    pub(crate) cycles_max: u64,
    pub(crate) is_one_group: bool,
}

/// A statement and its signature.
#[derive(Clone, Debug)]
pub(crate) struct SignedStatement {
    pub(crate) key_id: String,
    pub(crate) statement: Vec<u8>,
    pub(crate) signature: [u8; 64],
}

impl VerdictKeys {
    /// Those in `folder`, of which a first one is made if there is none.
    pub(crate) fn open(folder: Option<PathBuf>) -> Result<Self, KeyError> {
        Ok(Self(folder.map(Trust::of_folder).transpose()?))
    }

    /// Takes keys that have changed. Reads a file.
    pub(crate) fn look(&self) {
        if let Some(Err(error)) = self.0.as_ref().map(Trust::look) {
            tracing::error!(
                error = chain(&error),
                "changed keys of verdicts are of no use; the old ones stay in force"
            );
        }
    }

    /// Whether verdicts can be signed, if that `is_wanted`.
    pub(crate) fn check(&self, is_wanted: bool) -> Result<(), Fault> {
        match &self.0 {
            None if is_wanted => {
                let problem = "this server has no keys for verdicts (verdict.keys): ask without sign";
                Err(Fault::precondition("VERDICTS_UNSIGNED", problem))
            }
            _ => Ok(()),
        }
    }

    /// The signed form of how `about` ended; none where the scripts came to no verdict.
    pub(crate) fn sign(
        &self,
        about: &Signable,
        ended: &Ended<Verified>,
    ) -> Result<Option<SignedStatement>, ExecuteError> {
        let (Ended::Reported(verified), Some(trust)) = (ended, &self.0) else { return Ok(None) };
        let keyring = trust.keyring();
        let signed = keyring.sign_statement(statement(about, verified)).ok_or(ExecuteError::Internal);
        let (statement, signature) = signed.inspect_err(|_| tracing::error!("a verdict cannot be signed"))?;
        Ok(Some(SignedStatement { key_id: keyring.signer_id().to_owned(), statement, signature }))
    }
}

fn statement(about: &Signable, verified: &Verified) -> VerdictStatement {
    let Signable { facts, environment, cycles_max, is_one_group } = about;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    VerdictStatement {
        key_id: String::new(),
        time_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
        engine: ENGINE_VERSION,
        tx_hash: facts.tx_hash,
        witness_hash: facts.witness_hash,
        cells_hash: facts.cells_hash,
        vm_1_epoch: environment.vm_1_epoch,
        vm_2_epoch: environment.vm_2_epoch,
        epoch: environment.epoch,
        cycles_max: *cycles_max,
        is_one_group: *is_one_group,
        outcome: outcome(verified.outcome),
        cycles: verified.cycles,
        groups: verified.groups.iter().map(|group| stated(group, facts)).collect(),
    }
}

fn stated(group: &GroupReport, facts: &TransactionFacts) -> StatedGroup {
    let vm_version = facts.vm_versions.get(&group.script_hash).copied().flatten();
    let error = group.error.as_ref();
    StatedGroup {
        script_hash: group.script_hash,
        kind: match group.kind {
            GroupKind::Lock => 1,
            GroupKind::Type => 2,
        },
        vm_version: vm_version.and_then(|version| u8::try_from(version).ok()),
        outcome: outcome(group.outcome),
        exit_code: group.exit_code,
        cycles: group.cycles,
        error: error.map(|error| StatedGroup::text(&error.kind)).unwrap_or_default(),
        vm_error: error
            .and_then(|error| error.vm_error.as_deref())
            .map(StatedGroup::text)
            .unwrap_or_default(),
    }
}

/// The numbers of the protocol's `VerifyOutcome`.
fn outcome(outcome: VerifyOutcome) -> u8 {
    match outcome {
        VerifyOutcome::Ok => 1,
        VerifyOutcome::Failed => 2,
        VerifyOutcome::NotRun => 6,
    }
}

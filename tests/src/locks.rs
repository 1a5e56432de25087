//! Published lock and type scripts in use: transactions that they accept, signed here.
//!
//! Every script is in a cell dep and referenced by its hash, for the latest VM version.

mod draft;
mod signing;

use antares_transaction::Mock;
use anyhow::Result;
use bytes::Bytes;
use ckb_types::{
    core::{EpochNumberWithFraction, HeaderBuilder, HeaderView, ScriptHashType},
    packed::{CellOutput, Script, ScriptOpt},
    prelude::*,
};

use crate::guests::published_file;
use draft::{Draft, Spent};
use signing::{Key, KeyForm, Unlock, blake_160, two_of};

/// A build of a published script.
#[derive(Clone, Copy, Debug)]
pub struct Build {
    /// Name in tables.
    pub name: &'static str,
    /// The package, as the lock file names it.
    package: &'static str,
    path: &'static str,
}

const OLD: &str = "ckb-system-scripts-0-4";
const MAIN: &str = "ckb-system-scripts";
const NEW: &str = "ckb-system-scripts-0-6";
const SIGHASH_PATH: &str = "specs/cells/secp256k1_blake160_sighash_all";
const MULTISIG_PATH: &str = "specs/cells/secp256k1_blake160_multisig_all";
const DAO_PATH: &str = "specs/cells/dao";

/// Single-key locks.
const SIGHASHES: [Build; 2] = [
    Build { name: "sighash 0.4.0", package: OLD, path: SIGHASH_PATH },
    Build { name: "sighash 0.5.4", package: MAIN, path: SIGHASH_PATH },
];
const MULTISIGS: [Build; 3] = [
    Build { name: "multisig 0.4.0", package: OLD, path: MULTISIG_PATH },
    Build { name: "multisig 0.5.4", package: MAIN, path: MULTISIG_PATH },
    Build { name: "multisig 0.6.0", package: NEW, path: MULTISIG_PATH },
];
const DAOS: [Build; 3] = [
    Build { name: "dao 0.4.0", package: OLD, path: DAO_PATH },
    Build { name: "dao 0.5.4", package: MAIN, path: DAO_PATH },
    Build { name: "dao 0.6.0", package: NEW, path: DAO_PATH },
];
const ANYONE_CAN_PAY: Build =
    Build { name: "anyone_can_pay", package: "ckb-sdk", path: "src/test-data/anyone_can_pay" };
const CHEQUE: Build = Build { name: "cheque", package: "ckb-sdk", path: "src/test-data/ckb-cheque-script" };
const OMNILOCK: Build = Build { name: "omni_lock", package: "ckb-sdk", path: "src/test-data/omni_lock" };
const SIMPLE_UDT: Build = Build { name: "simple_udt", package: "ckb-sdk", path: "src/test-data/simple_udt" };

impl Build {
    /// Reads the ELF.
    ///
    /// # Errors
    /// The package is not available.
    pub fn elf(&self) -> Result<Bytes> {
        Ok(published_file(self.package, self.path)?.into())
    }

    fn script(&self, args: &[u8]) -> Result<Script> {
        Ok(Script::new_builder()
            .code_hash(CellOutput::calc_data_hash(&self.elf()?))
            .hash_type(ScriptHashType::Data2)
            .args(args.to_vec().pack())
            .build())
    }
}

/// Precomputed points of the curve, which all of these locks read from a cell.
fn points() -> Result<Bytes> {
    Ok(published_file(MAIN, "specs/cells/secp256k1_data")?.into())
}

/// A transaction that a script accepts.
#[derive(Clone)]
pub struct Passing {
    /// The script under test.
    pub build: Build,
    /// Description of the transaction.
    pub what: &'static str,
    /// The transaction.
    pub mock: Mock,
    /// The transaction with its last signature invalid.
    pub forged: Mock,
}

/// All transactions.
///
/// # Errors
/// A package is not available.
pub fn passing() -> Result<Vec<Passing>> {
    let mut all = Vec::new();
    for build in SIGHASHES {
        all.push(finish(build, "two inputs", sighash(build)?)?);
    }
    for build in MULTISIGS {
        all.push(finish(build, "two of three keys", multisig(build)?)?);
    }
    for build in DAOS {
        all.push(finish(build, "deposit", dao_deposit(build)?)?);
        all.push(finish(build, "prepare", dao_prepare(build)?)?);
        all.push(finish(build, "withdraw", dao_withdraw(build)?)?);
    }
    all.push(finish(ANYONE_CAN_PAY, "the owner's key", owners(ANYONE_CAN_PAY, Vec::new())?)?);
    all.push(finish(ANYONE_CAN_PAY, "a payment", payment(ANYONE_CAN_PAY, Vec::new())?)?);
    all.push(finish(CHEQUE, "claimed", cheque(Claim::Receiver)?)?);
    all.push(finish(CHEQUE, "withdrawn", cheque(Claim::Sender)?)?);
    all.push(finish(SIMPLE_UDT, "transfer", udt()?)?);
    for (what, draft) in omnilocks()? {
        all.push(finish(OMNILOCK, what, draft)?);
    }
    Ok(all)
}

/// Transactions of one owner that pay different amounts, so their signatures differ; they share their cell
/// deps.
///
/// # Errors
/// A package is not available.
pub fn distinct(count: u64) -> Result<Vec<Mock>> {
    (0..count).map(pays).collect()
}

fn pays(number: u64) -> Result<Mock> {
    let build = SIGHASHES[1];
    let lock = build.script(&Key::new(1).blake_160())?;
    let mut draft = draft(&[build])?;
    draft.spend([cell(&lock, 200)]);
    let output = cell(&lock, 200).as_builder().capacity(200 * BYTE - 1_000 - number).build();
    draft.outputs.push((output, Bytes::new()));
    draft.unlock(Unlock::one(Key::new(1)), [0]);
    draft.signed(false)
}

fn finish(build: Build, what: &'static str, draft: Draft) -> Result<Passing> {
    Ok(Passing { build, what, mock: draft.signed(false)?, forged: draft.signed(true)? })
}

/// A transaction with cell deps of the points and `builds`.
fn draft(builds: &[Build]) -> Result<Draft> {
    let mut draft = Draft::default();
    draft.deps.push(points()?);
    for build in builds {
        draft.deps.push(build.elf()?);
    }
    Ok(draft)
}

const BYTE: u64 = 100_000_000;

fn cell(lock: &Script, bytes: u64) -> CellOutput {
    CellOutput::new_builder().lock(lock.clone()).capacity(bytes * BYTE).build()
}

fn typed(cell: CellOutput, script: &Script) -> CellOutput {
    cell.as_builder().type_(ScriptOpt::from(Some(script.clone()))).build()
}

/// The lock of `key` that other scripts' transactions additionally use.
fn plain_lock(key: Key) -> Result<Script> {
    SIGHASHES[1].script(&key.blake_160())
}

fn sighash(build: Build) -> Result<Draft> {
    let mut draft = joined(build, &Key::new(1).blake_160(), Unlock::one(Key::new(1)))?;
    // Signed too, although no input corresponds to it.
    draft.extra_witnesses.push(b"behind the inputs".to_vec());
    Ok(draft)
}

fn multisig(build: Build) -> Result<Draft> {
    let keys = [1, 2, 3].map(Key::new);
    // Version 0.4.0 has whole keys in its witnesses; later versions have their hashes.
    let of = if build.package == OLD { KeyForm::Whole } else { KeyForm::Hashed };
    joined(build, &blake_160(&two_of(&keys, of)), Unlock::two_of(&keys, of))
}

/// Two cells of the lock with `args` become one.
fn joined(build: Build, args: &[u8], unlock: Unlock) -> Result<Draft> {
    let mut draft = draft(&[build])?;
    let lock = build.script(args)?;
    draft.spend([cell(&lock, 100), cell(&lock, 200)]);
    draft.outputs.push((cell(&lock, 299), Bytes::new()));
    draft.unlock(unlock, [0, 1]);
    Ok(draft)
}

/// A header of the chain, with the accumulated rate of deposits.
fn header(epoch: (u64, u64, u64), rate: u64) -> HeaderView {
    let mut dao = [0; 32];
    dao[8..16].copy_from_slice(&rate.to_le_bytes());
    let number = epoch.0 * epoch.2 + epoch.1;
    let epoch = EpochNumberWithFraction::new(epoch.0, epoch.1, epoch.2);
    HeaderBuilder::default().epoch(epoch.full_value()).number(number).dao(dao.pack()).build()
}

fn deposited() -> HeaderView {
    header((5, 5, 1000), 10_000_000_000_123_456)
}

fn dao_deposit(build: Build) -> Result<Draft> {
    let mut draft = draft(&[build, SIGHASHES[1]])?;
    let lock = plain_lock(Key::new(1))?;
    draft.spend([cell(&lock, 300)]);
    draft.outputs.push((typed(cell(&lock, 299), &build.script(&[])?), vec![0; 8].into()));
    draft.unlock(Unlock::one(Key::new(1)), [0]);
    Ok(draft)
}

fn dao_prepare(build: Build) -> Result<Draft> {
    let mut draft = draft(&[build, SIGHASHES[1]])?;
    let (lock, header) = (plain_lock(Key::new(1))?, deposited());
    let deposit = typed(cell(&lock, 220), &build.script(&[])?);
    draft.inputs.push(Spent {
        data: vec![0; 8].into(),
        block: Some(header.hash()),
        ..Spent::of(deposit.clone())
    });
    draft.outputs.push((deposit, header.number().to_le_bytes().to_vec().into()));
    draft.headers.push(header);
    draft.unlock(Unlock::one(Key::new(1)), [0]);
    Ok(draft)
}

fn dao_withdraw(build: Build) -> Result<Draft> {
    let mut draft = draft(&[build, SIGHASHES[1]])?;
    let (lock, deposited) = (plain_lock(Key::new(1))?, deposited());
    let prepared = header((184, 4, 1000), 10_000_000_001_123_456);
    // 180 epochs after the deposit.
    let since = 0x2000_0000_0000_0000 | EpochNumberWithFraction::new(185, 5, 1000).full_value();
    draft.inputs.push(Spent {
        data: deposited.number().to_le_bytes().to_vec().into(),
        block: Some(prepared.hash()),
        since,
        output: typed(cell(&lock, 220), &build.script(&[])?),
    });
    draft.outputs.push((cell(&lock, 220), Bytes::new()));
    draft.headers.extend([deposited, prepared]);
    draft.unlock(Unlock::one(Key::new(1)), [0]);
    // Index of the header dep with the deposit.
    draft.input_type = Some(0_u64.to_le_bytes().to_vec());
    Ok(draft)
}

/// What the owner of a lock may do; the lock has `mode` after the key's hash.
fn owners(build: Build, mode: Vec<u8>) -> Result<Draft> {
    joined(build, &[identity(build, Key::new(1)), mode].concat(), unlock(build, Key::new(1)))
}

/// What anyone may do: increase the owner's cell, from cells with their own key.
fn payment(build: Build, mode: Vec<u8>) -> Result<Draft> {
    let mut draft = draft(&[build, SIGHASHES[1]])?;
    let lock = build.script(&[identity(build, Key::new(1)), mode].concat())?;
    let payer = plain_lock(Key::new(2))?;
    draft.spend([cell(&lock, 100), cell(&payer, 200)]);
    draft.outputs.extend([(cell(&lock, 250), Bytes::new()), (cell(&payer, 49), Bytes::new())]);
    draft.unlock(Unlock::nobody(), [0]);
    draft.unlock(Unlock::one(Key::new(2)), [1]);
    Ok(draft)
}

/// How a lock identifies a key.
fn identity(build: Build, key: Key) -> Vec<u8> {
    let kind: &[u8] = if build.name == OMNILOCK.name { &[0] } else { &[] };
    [kind, &key.blake_160()].concat()
}

fn unlock(build: Build, key: Key) -> Unlock {
    let one = Unlock::one(key);
    if build.name == OMNILOCK.name { one.omnilock() } else { one }
}

/// Who claims a cheque.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Claim {
    Receiver,
    Sender,
}

fn cheque(claim: Claim) -> Result<Draft> {
    let mut draft = draft(&[CHEQUE, SIGHASHES[1], SIMPLE_UDT])?;
    let [sender, receiver] = [Key::new(1), Key::new(2)].map(plain_lock);
    let (sender, receiver) = (sender?, receiver?);
    let [from, to] = [&sender, &receiver].map(|lock| lock.calc_script_hash().as_slice()[..20].to_vec());
    let lock = CHEQUE.script(&[to, from].concat())?;
    let token = SIMPLE_UDT.script(&[9; 32])?;
    let amount = |amount: u128| Bytes::from(amount.to_le_bytes().to_vec());
    let held = Spent { data: amount(500), ..Spent::of(typed(cell(&lock, 220), &token)) };
    if claim == Claim::Receiver {
        draft.inputs.push(held);
        draft.inputs.push(Spent { data: amount(1000), ..Spent::of(typed(cell(&receiver, 200), &token)) });
        draft.outputs.push((typed(cell(&receiver, 200), &token), amount(1500)));
        draft.outputs.push((cell(&sender, 220), Bytes::new()));
        draft.unlock(Unlock::nobody(), [0]);
        draft.unlock(Unlock::one(Key::new(2)), [1]);
    } else {
        // Six epochs after its creation.
        draft.inputs.push(Spent { since: 0xa000_0000_0000_0006, ..held });
        draft.spend([cell(&sender, 100)]);
        draft.outputs.push((typed(cell(&sender, 220), &token), amount(500)));
        draft.outputs.push((cell(&sender, 99), Bytes::new()));
        draft.unlock(Unlock::nobody(), [0]);
        draft.unlock(Unlock::one(Key::new(1)), [1]);
    }
    Ok(draft)
}

fn udt() -> Result<Draft> {
    let mut draft = draft(&[SIMPLE_UDT, SIGHASHES[1]])?;
    let (lock, token) = (plain_lock(Key::new(1))?, SIMPLE_UDT.script(&[9; 32])?);
    let amount = |amount: u128| Bytes::from(amount.to_le_bytes().to_vec());
    draft.inputs.push(Spent { data: amount(500), ..Spent::of(typed(cell(&lock, 300), &token)) });
    for part in [200, 300] {
        draft.outputs.push((typed(cell(&lock, 149), &token), amount(part)));
    }
    draft.unlock(Unlock::one(Key::new(1)), [0]);
    Ok(draft)
}

/// Each way to unlock an omnilock without another script or cell.
fn omnilocks() -> Result<Vec<(&'static str, Draft)>> {
    const NO_MODE: u8 = 0;
    const ANYONE_CAN_PAY_MODE: u8 = 2;
    const TIME_LOCK_MODE: u8 = 4;
    let keys = [1, 2, 3].map(Key::new);
    let by = |identity: Vec<u8>, unlock: Unlock| {
        joined(OMNILOCK, &[identity, vec![NO_MODE]].concat(), unlock.omnilock())
    };
    let ethereum = [vec![1], keys[0].keccak_160().to_vec()].concat();
    let multisig = [vec![6], blake_160(&two_of(&keys, KeyForm::Hashed)).to_vec()].concat();
    let since = 0x2000_0000_0000_0000_u64 | 7;
    let mut late = owners(OMNILOCK, [vec![TIME_LOCK_MODE], since.to_le_bytes().to_vec()].concat())?;
    late.inputs.iter_mut().for_each(|input| input.since = since);
    let anyone = vec![ANYONE_CAN_PAY_MODE, 0, 0];
    Ok(vec![
        ("one key", by(identity(OMNILOCK, keys[0]), Unlock::one(keys[0]))?),
        ("a key of Ethereum", by(ethereum, Unlock::one(keys[0]).ethereum())?),
        ("two of three keys", by(multisig, Unlock::two_of(&keys, KeyForm::Hashed))?),
        ("a time lock", late),
        ("anyone can pay, the owner's key", owners(OMNILOCK, anyone.clone())?),
        ("anyone can pay, a payment", payment(OMNILOCK, anyone)?),
        ("another lock of the owner", owner_lock()?),
    ])
}

/// An omnilock that opens if another lock's cell is spent.
fn owner_lock() -> Result<Draft> {
    let mut draft = draft(&[OMNILOCK, SIGHASHES[1]])?;
    let owner = plain_lock(Key::new(1))?;
    let lock = OMNILOCK.script(&[&[0xfc][..], &owner.calc_script_hash().as_slice()[..20], &[0]].concat())?;
    draft.spend([cell(&lock, 100), cell(&owner, 200)]);
    draft.outputs.push((cell(&owner, 299), Bytes::new()));
    draft.unlock(Unlock::nobody(), [0]);
    draft.unlock(Unlock::one(Key::new(1)), [1]);
    Ok(draft)
}

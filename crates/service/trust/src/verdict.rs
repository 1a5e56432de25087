//! What is signed about the verification of a transaction: a fixed byte form, which `docs/calling.md` has.
//!
//! All numbers are little-endian. A text has its length before it, one byte.

use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};

use crate::keyring::{Keyring, is_key_id};

/// What every signed statement begins with: no other use of a key can be taken for one.
const CONTEXT: &[u8] = b"antares-verdict-1\0";

/// Longest text of a statement, bytes.
const TEXT_BYTES_MAX: usize = 255;

/// Most groups of a statement; a transaction of the largest size has fewer.
const GROUPS_MAX: usize = 1 << 20;

/// Stands for the VM version of a script that none runs.
const NO_VERSION: u8 = 255;

/// What the server says about a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerdictStatement {
    /// Id of the key that signs, 16 hex digits.
    pub key_id: String,
    /// When the verification ended, milliseconds since 1970.
    pub time_ms: u64,
    /// Version of the engine.
    pub engine: u32,
    /// ckb's hash of the transaction, which has no witnesses.
    pub tx_hash: [u8; 32],
    /// ckb's hash of the transaction with its witnesses.
    pub witness_hash: [u8; 32],
    /// Hash of the cells, headers and extensions that came along.
    pub cells_hash: [u8; 32],
    /// First epoch in which VM version 1 runs.
    pub vm_1_epoch: u64,
    /// First epoch in which VM version 2 runs.
    pub vm_2_epoch: u64,
    /// Epoch of the block that would commit the transaction.
    pub epoch: u64,
    /// Limit of the cycles of all groups.
    pub cycles_max: u64,
    /// Whether one group alone was asked for.
    pub is_one_group: bool,
    /// How the transaction ended, as the number of `VerifyOutcome`.
    pub outcome: u8,
    /// Cycles of all groups that ran.
    pub cycles: u64,
    /// All groups in their order.
    pub groups: Vec<StatedGroup>,
}

/// What the server says about a script group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatedGroup {
    /// ckb's hash of the script.
    pub script_hash: [u8; 32],
    /// The number of `ScriptKind`.
    pub kind: u8,
    /// VM version of the script; none where none runs it.
    pub vm_version: Option<u8>,
    /// The number of `VerifyOutcome`.
    pub outcome: u8,
    /// What the script exited with, if it did.
    pub exit_code: Option<i8>,
    /// Cycles, up to the failure if there was one.
    pub cycles: u64,
    /// Name of the variant of ckb-script's error; empty without one.
    pub error: String,
    /// Name of the variant of ckb-vm's error; empty without one.
    pub vm_error: String,
}

/// Why a statement is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StatementRefusal {
    /// It is cut, too long, or has values that there are not.
    #[error("the statement is not of the form of one, at byte {at}")]
    Malformed {
        /// Where.
        at: usize,
    },
    /// Its key is not in the list.
    #[error("the key of the statement is not in the list")]
    KeyUnknown,
    /// Its key was revoked.
    #[error("the key of the statement was revoked")]
    KeyRevoked,
    /// Nobody signed it who may.
    #[error("the signature is not that of the statement by its key")]
    Signature,
}

impl VerdictStatement {
    /// The bytes that are signed, behind a context of their own; none if a text is too long for the form.
    #[must_use]
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        let mut bytes = Vec::with_capacity(162 + 48 * self.groups.len());
        bytes.extend(key_bytes(&self.key_id)?);
        bytes.extend(self.time_ms.to_le_bytes());
        bytes.extend(self.engine.to_le_bytes());
        for hash in [&self.tx_hash, &self.witness_hash, &self.cells_hash] {
            bytes.extend(hash);
        }
        for number in [self.vm_1_epoch, self.vm_2_epoch, self.epoch, self.cycles_max] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend([u8::from(self.is_one_group), self.outcome]);
        bytes.extend(self.cycles.to_le_bytes());
        bytes.extend(u32::try_from(self.groups.len()).ok()?.to_le_bytes());
        for group in &self.groups {
            group.write(&mut bytes)?;
        }
        Some(bytes)
    }

    /// What `bytes` say, whoever has signed them. To be believed only from [`Keyring::verify_statement`].
    ///
    /// # Errors
    /// They are not of the form.
    pub fn read(bytes: &[u8]) -> Result<Self, StatementRefusal> {
        let mut rest = Reader { bytes, at: 0 };
        let mut statement = Self {
            key_id: hex::encode(rest.array::<8>()?),
            time_ms: rest.number()?,
            engine: u32::from_le_bytes(rest.array()?),
            tx_hash: rest.array()?,
            witness_hash: rest.array()?,
            cells_hash: rest.array()?,
            vm_1_epoch: rest.number()?,
            vm_2_epoch: rest.number()?,
            epoch: rest.number()?,
            cycles_max: rest.number()?,
            is_one_group: rest.flag()?,
            outcome: rest.byte()?,
            cycles: rest.number()?,
            groups: Vec::new(),
        };
        let count = usize::try_from(u32::from_le_bytes(rest.array()?)).unwrap_or(usize::MAX);
        if count > GROUPS_MAX {
            return Err(rest.malformed());
        }
        for _ in 0..count {
            statement.groups.push(StatedGroup::read(&mut rest)?);
        }
        if rest.at == bytes.len() { Ok(statement) } else { Err(rest.malformed()) }
    }
}

impl StatedGroup {
    fn write(&self, bytes: &mut Vec<u8>) -> Option<()> {
        bytes.extend(self.script_hash);
        bytes.extend([self.kind, self.vm_version.unwrap_or(NO_VERSION), self.outcome]);
        bytes.push(u8::from(self.exit_code.is_some()));
        bytes.extend(self.exit_code.unwrap_or(0).to_le_bytes());
        bytes.extend(self.cycles.to_le_bytes());
        for text in [&self.error, &self.vm_error] {
            bytes.push(u8::try_from(text.len()).ok()?);
            bytes.extend(text.as_bytes());
        }
        Some(())
    }

    fn read(rest: &mut Reader<'_>) -> Result<Self, StatementRefusal> {
        let (script_hash, kind, vm_version, outcome) =
            (rest.array()?, rest.byte()?, rest.byte()?, rest.byte()?);
        let (has_exit_code, exit_code) = (rest.flag()?, i8::from_le_bytes(rest.array()?));
        if !has_exit_code && exit_code != 0 {
            return Err(rest.malformed());
        }
        Ok(Self {
            script_hash,
            kind,
            vm_version: (vm_version != NO_VERSION).then_some(vm_version),
            outcome,
            exit_code: has_exit_code.then_some(exit_code),
            cycles: rest.number()?,
            error: rest.text()?,
            vm_error: rest.text()?,
        })
    }

    /// `text` as it fits into a statement.
    #[must_use]
    pub fn text(text: &str) -> String {
        let end = (0..=text.len().min(TEXT_BYTES_MAX)).rev().find(|end| text.is_char_boundary(*end));
        text[..end.unwrap_or(0)].to_owned()
    }
}

impl Keyring {
    /// The bytes of `statement`, with this keyring's own key in it, and their signature; none where it has no
    /// private key.
    #[must_use]
    pub fn sign_statement(&self, statement: VerdictStatement) -> Option<(Vec<u8>, [u8; 64])> {
        let (key_id, pair) = self.signer()?;
        let bytes = VerdictStatement { key_id: key_id.to_owned(), ..statement }.to_bytes()?;
        let signature = pair.sign(&[CONTEXT, &bytes].concat());
        Some((bytes, signature.as_ref().try_into().ok()?))
    }

    /// What `statement` says, if a key of the list signed it that was not revoked.
    ///
    /// # Errors
    /// The first reason against it.
    pub fn verify_statement(
        &self,
        statement: &[u8],
        signature: &[u8],
    ) -> Result<VerdictStatement, StatementRefusal> {
        let said = VerdictStatement::read(statement)?;
        if self.is_key_revoked(&said.key_id) {
            return Err(StatementRefusal::KeyRevoked);
        }
        let public = self.public(&said.key_id).ok_or(StatementRefusal::KeyUnknown)?;
        let signed = [CONTEXT, statement].concat();
        UnparsedPublicKey::new(&ED25519, public)
            .verify(&signed, signature)
            .map_err(|_| StatementRefusal::Signature)?;
        Ok(said)
    }
}

fn key_bytes(id: &str) -> Option<[u8; 8]> {
    let bytes = is_key_id(id).then(|| hex::decode(id).ok()).flatten()?;
    bytes.try_into().ok()
}

/// Bytes from the front.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn malformed(&self) -> StatementRefusal {
        StatementRefusal::Malformed { at: self.at }
    }

    fn take(&mut self, count: usize) -> Result<&[u8], StatementRefusal> {
        let malformed = self.malformed();
        let end = self.at.checked_add(count).ok_or(malformed)?;
        let taken = self.bytes.get(self.at..end).ok_or(malformed)?;
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], StatementRefusal> {
        let malformed = self.malformed();
        self.take(N)?.try_into().map_err(|_| malformed)
    }

    fn byte(&mut self) -> Result<u8, StatementRefusal> {
        Ok(self.array::<1>()?[0])
    }

    fn flag(&mut self) -> Result<bool, StatementRefusal> {
        let malformed = self.malformed();
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(malformed),
        }
    }

    fn number(&mut self) -> Result<u64, StatementRefusal> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn text(&mut self) -> Result<String, StatementRefusal> {
        let count = usize::from(self.byte()?);
        let malformed = self.malformed();
        String::from_utf8(self.take(count)?.to_vec()).map_err(|_| malformed)
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};

    use super::*;

    fn statement() -> VerdictStatement {
        let group = |number: u8| StatedGroup {
            script_hash: [number; 32],
            kind: number,
            vm_version: Some(number),
            outcome: 1,
            exit_code: Some(0),
            cycles: 100,
            error: String::new(),
            vm_error: String::new(),
        };
        let failed = StatedGroup {
            vm_version: None,
            outcome: 2,
            exit_code: Some(-1),
            error: "ValidationFailure".to_owned(),
            ..group(2)
        };
        VerdictStatement {
            key_id: "0102030405060708".to_owned(),
            time_ms: 1_800_000_000_000,
            engine: 7,
            tx_hash: [0x11; 32],
            witness_hash: [0x22; 32],
            cells_hash: [0x33; 32],
            vm_1_epoch: 1,
            vm_2_epoch: 2,
            epoch: 3,
            cycles_max: 70_000_000,
            is_one_group: false,
            outcome: 2,
            cycles: 200,
            groups: vec![group(1), failed],
        }
    }

    /// Each of the fields, changed.
    fn changed() -> Vec<VerdictStatement> {
        let one = |change: &dyn Fn(&mut VerdictStatement)| {
            let mut other = statement();
            change(&mut other);
            other
        };
        vec![
            one(&|it| it.time_ms += 1),
            one(&|it| it.engine += 1),
            one(&|it| it.tx_hash[31] ^= 1),
            one(&|it| it.witness_hash[31] ^= 1),
            one(&|it| it.cells_hash[31] ^= 1),
            one(&|it| it.vm_1_epoch += 1),
            one(&|it| it.vm_2_epoch += 1),
            one(&|it| it.epoch += 1),
            one(&|it| it.cycles_max += 1),
            one(&|it| it.is_one_group = true),
            one(&|it| it.outcome = 1),
            one(&|it| it.cycles += 1),
            one(&|it| drop(it.groups.pop())),
            one(&|it| it.groups.swap(0, 1)),
            one(&|it| it.groups[0].script_hash[0] ^= 1),
            one(&|it| it.groups[0].kind = 2),
            one(&|it| it.groups[0].vm_version = None),
            one(&|it| it.groups[0].outcome = 2),
            one(&|it| it.groups[0].exit_code = Some(1)),
            one(&|it| it.groups[0].exit_code = None),
            one(&|it| it.groups[0].cycles += 1),
            one(&|it| it.groups[1].error.clear()),
            one(&|it| it.groups[1].vm_error.push('x')),
        ]
    }

    fn with_key_of(keys: &Keyring, statement: VerdictStatement) -> Vec<u8> {
        VerdictStatement { key_id: keys.signer_id().to_owned(), ..statement }.to_bytes().unwrap()
    }

    #[test]
    fn what_was_signed_is_read_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let keys = Keyring::open_or_make(folder.path()).unwrap();
        let (bytes, signature) = keys.sign_statement(statement()).unwrap();
        let read = keys.verify_statement(&bytes, &signature).unwrap();
        assert_eq!(read, VerdictStatement { key_id: keys.signer_id().to_owned(), ..statement() });
        assert_eq!(with_key_of(&keys, statement()), bytes);
        for other in changed() {
            let bytes = with_key_of(&keys, other.clone());
            let refused = keys.verify_statement(&bytes, &signature);
            assert_eq!(refused, Err(StatementRefusal::Signature), "{other:?}");
        }
        for at in 0..bytes.len() {
            let mut forged = bytes.clone();
            forged[at] ^= 1;
            assert!(keys.verify_statement(&forged, &signature).is_err(), "{at}");
            assert!(keys.verify_statement(&bytes[..at], &signature).is_err(), "{at}");
        }
        for at in 0..signature.len() {
            let mut forged = signature;
            forged[at] ^= 1;
            assert_eq!(keys.verify_statement(&bytes, &forged), Err(StatementRefusal::Signature), "{at}");
        }
        assert!(keys.verify_statement(&[&bytes[..], &[0]].concat(), &signature).is_err());
        assert_eq!(keys.verify_statement(&bytes, &signature[1..]), Err(StatementRefusal::Signature));
    }

    #[test]
    fn one_statement_has_one_form() {
        for statement in changed().into_iter().chain([statement()]) {
            let bytes = statement.to_bytes().unwrap();
            assert_eq!(VerdictStatement::read(&bytes).unwrap(), statement);
        }
        // A flag of 2, an exit code where there is none, and more groups than there are bytes for.
        for (at, value) in [(148, 2), (197, 2), (161, 255)] {
            let mut bytes = statement().to_bytes().unwrap();
            bytes[at] = value;
            assert!(VerdictStatement::read(&bytes).is_err(), "{at}");
        }
        let mut none = statement();
        (none.groups[0].exit_code, none.groups[0].cycles) = (None, 0);
        let mut bytes = none.to_bytes().unwrap();
        bytes[198] = 1;
        assert!(VerdictStatement::read(&bytes).is_err());
        let long = StatedGroup { error: "x".repeat(256), ..statement().groups[0].clone() };
        assert!(VerdictStatement { groups: vec![long], ..statement() }.to_bytes().is_none());
        assert_eq!(StatedGroup::text(&"ä".repeat(200)).len(), 254);
        assert_eq!(StatedGroup::text("short"), "short");
    }

    #[test]
    fn keys_of_verdicts_change_and_are_revoked() {
        let folder = tempfile::tempdir().unwrap();
        let old = Keyring::open_or_make(folder.path()).unwrap();
        let (before, signature) = old.sign_statement(statement()).unwrap();
        let old_id = old.signer_id().to_owned();
        Keyring::generate(folder.path(), true).unwrap();
        let new = Keyring::open(folder.path()).unwrap();
        // What the old one has signed is still taken; who has the old list knows no new key.
        assert!(new.verify_statement(&before, &signature).is_ok());
        let (after, newer) = new.sign_statement(statement()).unwrap();
        assert_eq!(old.verify_statement(&after, &newer), Err(StatementRefusal::KeyUnknown));
        assert_eq!(new.verify_statement(&after, &signature), Err(StatementRefusal::Signature));
        Keyring::revoke(folder.path(), &old_id).unwrap();
        let list = Keyring::read(&folder.path().join(crate::LIST)).unwrap();
        assert_eq!(list.verify_statement(&before, &signature), Err(StatementRefusal::KeyRevoked));
        assert!(list.verify_statement(&after, &newer).is_ok());
        assert!(list.sign_statement(statement()).is_none());
    }

    /// The bytes behind `name` in the example of the page.
    fn documented(name: &str) -> Vec<u8> {
        let page = include_str!("../../../../docs/calling.md");
        let block = page.split("```text\nkey ").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        let mut lines = block.lines().skip_while(|line| !line.starts_with(name));
        let first = lines.next().unwrap().strip_prefix(name).unwrap().trim().to_owned();
        let rest = lines.take_while(|line| line.starts_with(' ')).map(str::trim);
        hex::decode(rest.fold(first, |all, line| all + line)).unwrap()
    }

    #[test]
    fn the_documented_example_is_one() {
        let pair =
            Ed25519KeyPair::from_seed_unchecked(&std::array::from_fn::<u8, 32, _>(|at| at.to_le_bytes()[0]));
        let (pair, id) = (pair.unwrap(), documented("key_id"));
        let public = pair.public_key().as_ref();
        assert_eq!(antares_abi::Sha256Digest::of(public).0[..8], id);
        let (statement, signature) = (documented("statement"), documented("signature"));
        assert_eq!(pair.sign(&[CONTEXT, &statement].concat()).as_ref(), signature);
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join(crate::LIST);
        let (id, public) = (hex::encode(id), hex::encode(public));
        let text = format!("{{\"signer\":\"{id}\",\"keys\":[{{\"id\":\"{id}\",\"public\":\"{public}\"}}]}}");
        std::fs::write(&list, text).unwrap();
        let said = Keyring::read(&list).unwrap().verify_statement(&statement, &signature).unwrap();
        assert_eq!((said.key_id, said.time_ms, said.engine), (id, 1_800_000_000_000, 7));
        assert_eq!((said.outcome, said.cycles, said.cycles_max), (2, 539, 70_000_000));
        let failed = &said.groups[0];
        assert_eq!((failed.kind, failed.vm_version, failed.exit_code), (1, Some(2), Some(-1)));
        assert_eq!((failed.error.as_str(), failed.vm_error.as_str()), ("ValidationFailure", ""));
    }

    #[test]
    fn no_statement_is_taken_for_a_manifest() {
        let folder = tempfile::tempdir().unwrap();
        let keys = Keyring::open_or_make(folder.path()).unwrap();
        let (bytes, signature) = keys.sign_statement(statement()).unwrap();
        let signed = [&bytes[..], &signature].concat();
        let digest = antares_abi::Sha256Digest([1; 32]);
        assert!(keys.verify_of_any_script(&signed, digest, digest, 1).is_err());
    }
}

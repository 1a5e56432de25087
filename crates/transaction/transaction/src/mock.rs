//! A transaction with the cells and headers that it uses, from ckb-debugger's JSON or from molecule.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use ckb_hash::CKB_HASH_PERSONALIZATION;
use ckb_mock_tx_types::{MockCellDep, MockInfo, MockInput, MockTransaction, ReprMockTransaction};
use ckb_types::{
    bytes::Bytes,
    core::DepType,
    packed::{Byte32, CellDep, CellOutput, Header, OutPoint, Transaction},
    prelude::*,
};
use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::error::Category;

use crate::{
    check::{check, check_lengths, repeated_dep},
    error::{MockError, Problem},
    keys,
    limits::{TRANSACTION_BYTES_MAX, VALUES_MAX},
    malformed,
};

/// A transaction and everything that its scripts can read. Checked: each cell and header that the transaction
/// names is present exactly once, and there are no others. Cheap to clone.
#[derive(Clone)]
pub struct Mock {
    mock: Arc<MockTransaction>,
    hashes: Arc<DataHashes>,
}

/// Known hashes of the data of each cell of the mock information.
#[derive(Clone, Debug, Default)]
pub(crate) struct DataHashes {
    pub(crate) inputs: Vec<Option<[u8; 32]>>,
    pub(crate) cell_deps: Vec<Option<[u8; 32]>>,
}

/// Cell data that is already in memory, and needs neither a copy nor a hash.
#[derive(Clone, Debug)]
pub struct SharedData {
    /// The data.
    pub data: Bytes,
    /// ckb's hash of it.
    pub data_hash: [u8; 32],
}

/// Data of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CellData<'a> {
    /// In the transaction.
    Inline(#[serde(serialize_with = "as_bytes")] &'a [u8]),
    /// Outside of the transaction: the number of a [`SharedData`].
    Shared(u32),
}

/// Serializes a byte slice at once: postcard encodes it like a sequence.
fn as_bytes<S: serde::Serializer>(data: &[u8], to: S) -> Result<S::Ok, S::Error> {
    to.serialize_bytes(data)
}

/// A cell in molecule encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellFields<'a> {
    /// `CellOutput`.
    #[serde(serialize_with = "as_bytes")]
    pub output: &'a [u8],
    /// The raw data.
    #[serde(borrow)]
    pub data: CellData<'a>,
    /// Hash of the block that contains the cell, for scripts that load its header.
    pub block_hash: Option<[u8; 32]>,
}

/// A cell dep, or a member of a dep group, in molecule encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DepFields<'a> {
    /// `OutPoint`.
    pub out_point: &'a [u8],
    /// Its `CellDep`. Required only if the transaction lists the cell both as code and as a group.
    pub cell_dep: Option<&'a [u8]>,
    /// The cell.
    #[serde(borrow)]
    pub cell: CellFields<'a>,
}

/// A transaction and the cells and headers that it uses, in molecule encoding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fields<'a> {
    /// `Transaction`.
    #[serde(serialize_with = "as_bytes")]
    pub tx: &'a [u8],
    /// The cells of the transaction's inputs, in their order.
    #[serde(borrow)]
    pub inputs: Vec<CellFields<'a>>,
    /// The cells of its cell deps and of the members of its dep groups, each once, in any order.
    #[serde(borrow)]
    pub cell_deps: Vec<DepFields<'a>>,
    /// The `Header` of each of its header deps.
    #[serde(borrow)]
    pub headers: Vec<&'a [u8]>,
    /// Block extensions by block hash.
    #[serde(borrow)]
    pub extensions: Vec<([u8; 32], &'a [u8])>,
}

impl Mock {
    /// Reads ckb-debugger's JSON form: `{"mock_info": ..., "tx": ...}`.
    ///
    /// # Errors
    /// The first error, with its location: line and column, path in the document, or both.
    pub fn from_json(text: &[u8]) -> Result<Self, MockError> {
        check_length(text.len())?;
        // Many values need much more memory in their parsed form than in the text.
        let values = memchr::memchr_iter(b',', text).count();
        if values > VALUES_MAX {
            return Err(MockError::TooManyValues(values));
        }
        let mut reader = serde_json::Deserializer::from_slice(text);
        let (mut track, mut misspelt) = (serde_path_to_error::Track::new(), None);
        let located = serde_path_to_error::Deserializer::new(&mut reader, &mut track);
        let parsed = serde_ignored::deserialize(located, |path| {
            misspelt = misspelt.take().or_else(|| keys::misspelt(&path));
        });
        let repr: ReprMockTransaction =
            parsed.map_err(|error| explain(text, track.path().to_string(), &error))?;
        reader.end().map_err(|error| explain(text, String::new(), &error))?;
        check_lengths_of(&repr)?;
        misspelt.map_or(Ok(()), Err)?;
        Self::checked(repr.into(), DataHashes::default())
    }

    /// Reads the molecule-encoded parts; takes data that they reference from `shared`. Paths in errors are
    /// those of [`Fields`] or of the JSON form.
    ///
    /// # Errors
    /// The first malformed or inconsistent part.
    pub fn from_molecule(fields: &Fields<'_>, shared: &[SharedData]) -> Result<Self, MockError> {
        Self::from_parts(fields, shared, &[])
    }

    /// Like [`Mock::from_molecule`], with the header hashes from the JSON form, which may be arbitrary.
    pub(crate) fn from_parts(
        fields: &Fields<'_>,
        shared: &[SharedData],
        header_hashes: &[[u8; 32]],
    ) -> Result<Self, MockError> {
        check_length(fields.bytes(shared))?;
        let tx: Transaction = decode(|| "tx".to_owned(), fields.tx)?;
        let raw = tx.raw();
        check_lengths(&[
            ("cell_deps", fields.cell_deps.len()),
            ("headers", fields.headers.len()),
            ("extensions", fields.extensions.len()),
            ("tx.cell_deps", raw.cell_deps().len()),
            ("tx.header_deps", raw.header_deps().len()),
            ("tx.inputs", raw.inputs().len()),
            ("tx.outputs", raw.outputs().len()),
            ("tx.outputs_data", raw.outputs_data().len()),
            ("tx.witnesses", tx.witnesses().len()),
        ])?;
        let inputs = raw.inputs();
        if inputs.len() != fields.inputs.len() {
            let problem = Problem::InputCount { cells: fields.inputs.len(), inputs: inputs.len() };
            return Err(MockError::at("inputs", problem));
        }
        let (mut info, mut hashes) = (MockInfo::default(), DataHashes::default());
        for (index, (input, cell)) in inputs.into_iter().zip(&fields.inputs).enumerate() {
            let output: CellOutput = decode(|| format!("inputs[{index}].output"), cell.output)?;
            let (data, hash) = data(|| format!("inputs[{index}].data"), cell.data, shared)?;
            info.inputs.push(MockInput { input, output, data, header: block_hash(cell) });
            hashes.inputs.push(hash);
        }
        let listed: HashMap<Vec<u8>, CellDep> =
            raw.cell_deps().into_iter().map(|dep| (dep.out_point().as_slice().to_vec(), dep)).collect();
        for (index, dep) in fields.cell_deps.iter().enumerate() {
            let out_point: OutPoint = decode(|| format!("cell_deps[{index}].out_point"), dep.out_point)?;
            let output: CellOutput = decode(|| format!("cell_deps[{index}].cell.output"), dep.cell.output)?;
            let cell_dep = match (dep.cell_dep, listed.get(dep.out_point)) {
                (Some(cell_dep), _) => decode(|| format!("cell_deps[{index}].cell_dep"), cell_dep)?,
                (None, Some(listed)) => listed.clone(),
                // A cell that the transaction does not list is a member of a dep group, and members are code.
                (None, None) => CellDep::new_builder().out_point(out_point).dep_type(DepType::Code).build(),
            };
            let (data, hash) = data(|| format!("cell_deps[{index}].cell.data"), dep.cell.data, shared)?;
            info.cell_deps.push(MockCellDep { cell_dep, output, data, header: block_hash(&dep.cell) });
            hashes.cell_deps.push(hash);
        }
        for (index, header) in fields.headers.iter().enumerate() {
            let header: Header = decode(|| format!("headers[{index}]"), header)?;
            let view = header.into_view();
            info.header_deps.push(match header_hashes.get(index) {
                Some(hash) => view.fake_hash(Byte32::new(*hash)),
                None => view,
            });
        }
        let extension =
            |(hash, bytes): &([u8; 32], &[u8])| (Byte32::new(*hash), Bytes::copy_from_slice(bytes));
        info.extensions = fields.extensions.iter().map(extension).collect();
        Self::checked(MockTransaction { mock_info: info, tx }, hashes)
    }

    pub(crate) fn checked(mock: MockTransaction, mut hashes: DataHashes) -> Result<Self, MockError> {
        check(&mock)?;
        hashes.inputs.resize(mock.mock_info.inputs.len(), None);
        hashes.cell_deps.resize(mock.mock_info.cell_deps.len(), None);
        Ok(Self { mock: Arc::new(mock), hashes: Arc::new(hashes) })
    }

    /// The transaction and its cells in ckb's own types.
    #[must_use]
    pub fn as_ckb(&self) -> &MockTransaction {
        &self.mock
    }

    /// The first dep that the transaction lists twice. Scripts run all the same, but nodes refuse it.
    #[must_use]
    pub fn repeated_dep(&self) -> Option<MockError> {
        repeated_dep(&self.mock.tx.raw())
    }

    pub(crate) fn known_hashes(&self) -> &DataHashes {
        &self.hashes
    }

    /// The data of each input's cell and of each cell dep, with its hash if known.
    pub(crate) fn cells_mut(&mut self) -> impl Iterator<Item = (&mut Bytes, &mut Option<[u8; 32]>)> {
        let (mock, hashes) = self.parts_mut();
        let inputs = mock.mock_info.inputs.iter_mut().map(|input| &mut input.data);
        let deps = mock.mock_info.cell_deps.iter_mut().map(|dep| &mut dep.data);
        inputs.zip(&mut hashes.inputs).chain(deps.zip(&mut hashes.cell_deps))
    }

    pub(crate) fn parts_mut(&mut self) -> (&mut MockTransaction, &mut DataHashes) {
        (Arc::make_mut(&mut self.mock), Arc::make_mut(&mut self.hashes))
    }

    /// ckb's hash of the data of an entry of `mock_info.inputs`, computed if unknown.
    #[must_use]
    pub fn input_data_hash(&self, index: usize) -> [u8; 32] {
        self.hashes.inputs[index].unwrap_or_else(|| data_hash(&self.mock.mock_info.inputs[index].data))
    }

    /// ckb's hash of the data of an entry of `mock_info.cell_deps`, computed if unknown.
    #[must_use]
    pub fn dep_data_hash(&self, index: usize) -> [u8; 32] {
        self.hashes.cell_deps[index].unwrap_or_else(|| data_hash(&self.mock.mock_info.cell_deps[index].data))
    }
}

/// ckb's hash of cell data: zeros if there is none. The data may be long: ckb's crates take twice the time.
#[must_use]
pub fn data_hash(data: &[u8]) -> [u8; 32] {
    HASHED_BYTES.fetch_add(data.len() as u64, Ordering::Relaxed);
    let mut hash = [0; 32];
    if !data.is_empty() {
        let mut params = blake2b_simd::Params::new();
        hash.copy_from_slice(params.hash_length(32).personal(CKB_HASH_PERSONALIZATION).hash(data).as_bytes());
    }
    hash
}

/// Bytes that [`data_hash`] has hashed in this process so far.
#[must_use]
pub fn hashed_bytes() -> u64 {
    HASHED_BYTES.load(Ordering::Relaxed)
}

static HASHED_BYTES: AtomicU64 = AtomicU64::new(0);

pub(crate) fn record_copied(bytes: usize) {
    COPIED_BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
}

/// Bytes of cell data and of documents that this process has copied so far.
#[must_use]
pub fn copied_bytes() -> u64 {
    COPIED_BYTES.load(Ordering::Relaxed)
}

static COPIED_BYTES: AtomicU64 = AtomicU64::new(0);

impl Fields<'_> {
    /// Total bytes of all parts, including referenced data, once for each reference.
    fn bytes(&self, shared: &[SharedData]) -> usize {
        let data = |data: CellData<'_>| match data {
            CellData::Inline(data) => data.len(),
            CellData::Shared(number) => at(shared, number).map_or(0, |shared| shared.data.len()),
        };
        let cell = |cell: &CellFields<'_>| cell.output.len() + data(cell.data);
        self.tx.len()
            + self.inputs.iter().map(cell).sum::<usize>()
            + self.cell_deps.iter().map(|dep| dep.out_point.len() + cell(&dep.cell)).sum::<usize>()
            + self.headers.iter().map(|header| header.len()).sum::<usize>()
            + self.extensions.iter().map(|(_, bytes)| bytes.len()).sum::<usize>()
    }
}

fn check_length(bytes: usize) -> Result<(), MockError> {
    if bytes > TRANSACTION_BYTES_MAX {
        return Err(MockError::TooLarge(bytes));
    }
    Ok(())
}

/// Rejects long lists before each entry is converted to a ckb object.
fn check_lengths_of(repr: &ReprMockTransaction) -> Result<(), MockError> {
    let (info, tx) = (&repr.mock_info, &repr.tx);
    check_lengths(&[
        ("mock_info.inputs", info.inputs.len()),
        ("mock_info.cell_deps", info.cell_deps.len()),
        ("mock_info.header_deps", info.header_deps.len()),
        ("mock_info.extensions", info.extensions.len()),
        ("tx.cell_deps", tx.cell_deps.len()),
        ("tx.header_deps", tx.header_deps.len()),
        ("tx.inputs", tx.inputs.len()),
        ("tx.outputs", tx.outputs.len()),
        ("tx.outputs_data", tx.outputs_data.len()),
        ("tx.witnesses", tx.witnesses.len()),
    ])
}

fn decode<T: Entity>(path: impl FnOnce() -> String, bytes: &[u8]) -> Result<T, MockError> {
    T::from_slice(bytes).map_err(|error| MockError::Molecule { path: path(), detail: error.to_string() })
}

fn at(shared: &[SharedData], number: u32) -> Option<&SharedData> {
    shared.get(usize::try_from(number).ok()?)
}

/// The data and, if known, its hash.
fn data(
    path: impl FnOnce() -> String,
    data: CellData<'_>,
    shared: &[SharedData],
) -> Result<(Bytes, Option<[u8; 32]>), MockError> {
    match data {
        CellData::Inline(data) => {
            record_copied(data.len());
            Ok((Bytes::copy_from_slice(data), None))
        }
        CellData::Shared(number) => match at(shared, number) {
            Some(shared) => Ok((shared.data.clone(), Some(shared.data_hash))),
            None => Err(MockError::Molecule { path: path(), detail: format!("there is no data {number}") }),
        },
    }
}

fn block_hash(cell: &CellFields<'_>) -> Option<Byte32> {
    cell.block_hash.map(Byte32::new)
}

/// Converts a JSON parser error to an error with a location.
fn explain(text: &[u8], path: String, error: &serde_json::Error) -> MockError {
    let (line, column) = (error.line(), error.column());
    let reported = error.to_string();
    let place = format!(" at line {line} column {column}");
    let detail = reported.strip_suffix(&place).unwrap_or(&reported).to_owned();
    if error.classify() != Category::Data {
        let detail = advised(detail, malformed::of_syntax(text, line));
        return MockError::Syntax { line, column, detail };
    }
    if is_bare(text) {
        return MockError::BareTransaction;
    }
    let advice = malformed::of_shape(text, &path, &detail);
    MockError::Shape { path, line, column, detail: advised(detail, advice) }
}

/// Appends advice to the parser's message.
fn advised(detail: String, advice: Option<&str>) -> String {
    match advice {
        Some(advice) => format!("{}: {advice}", malformed::worded(&detail)),
        None => malformed::worded(&detail),
    }
}

/// Whether `text` is a transaction without mock information.
fn is_bare(text: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Keys {
        mock_info: Option<IgnoredAny>,
        inputs: Option<IgnoredAny>,
        outputs: Option<IgnoredAny>,
    }
    serde_json::from_slice::<Keys>(text)
        .is_ok_and(|keys| keys.mock_info.is_none() && keys.inputs.is_some() && keys.outputs.is_some())
}

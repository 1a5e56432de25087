//! Builds the transaction: cells and scripts first, signatures last.

use std::path::Path;

use anyhow::anyhow;
use ckb_mock_tx_types::{MockCellDep, MockInfo, MockInput, MockTransaction};
use ckb_types::{
    bytes::Bytes,
    core::{Capacity, DepType, HeaderView},
    packed::{
        Byte32, BytesOpt, CellDep, CellInput, CellOutput, OutPoint, Script, ScriptOpt, Transaction,
        WitnessArgs,
    },
    prelude::*,
};

use super::{
    bytes::{Part, bytes, code_of, exact, parts},
    error::{At, FieldError},
    file::{self, Draft, Output, Text, Witness},
    names::{Code, Names, hash_type},
    signing::{message, sign},
    since::since,
};

/// Hashes of the transactions that created the inputs' cells and the cell deps; on no chain.
const SPENT: [u8; 32] = [1; 32];
const DEPS: [u8; 32] = [2; 32];

fn place(transaction: [u8; 32], index: u32) -> OutPoint {
    OutPoint::new(Byte32::new(transaction), index)
}

pub(crate) fn build(draft: &Draft, folder: &Path) -> Result<MockTransaction, FieldError> {
    let mut inputs = Vec::new();
    for (input, index) in draft.inputs.iter().zip(0..) {
        let value = match &input.since {
            Some(text) => since(text.get_ref()).at(text, || format!("inputs[{index}].since"))?,
            None => 0,
        };
        inputs.push(CellInput::new(place(SPENT, index), value));
    }
    let names = Names::of(draft, folder, inputs.first().cloned().unwrap_or_default())?;
    let mut info = MockInfo::default();
    for (index, (described, input)) in draft.inputs.iter().zip(&inputs).enumerate() {
        let field = format!("inputs[{index}]");
        let header = names.header(described.header.as_ref(), &field)?;
        let (output, data) = described.spent().build(&names, &field)?;
        info.inputs.push(MockInput { input: input.clone(), output, data, header });
    }
    let (mut outputs, mut outputs_data) = (Vec::new(), Vec::new());
    for (index, described) in draft.outputs.iter().enumerate() {
        let (output, data) = described.build(&names, &format!("outputs[{index}]"))?;
        outputs.push(output);
        outputs_data.push(data.pack());
    }
    let witnesses = witnesses(draft, &names)?;
    info.header_deps = names.headers.iter().map(|(_, header)| header.clone()).collect();
    for (cell, index) in names.deps().into_iter().zip(0..) {
        let cell_dep = CellDep::new_builder().out_point(place(DEPS, index)).dep_type(DepType::Code).build();
        let Code { output, data, header, .. } = cell;
        info.cell_deps.push(MockCellDep { cell_dep, output, data, header });
    }
    let raw = Transaction::default().raw().as_builder();
    let raw = raw
        .cell_deps(info.cell_deps.iter().map(|dep| dep.cell_dep.clone()).collect::<Vec<_>>())
        .header_deps(info.header_deps.iter().map(HeaderView::hash).collect::<Vec<_>>())
        .inputs(inputs)
        .outputs(outputs)
        .outputs_data(outputs_data)
        .build();
    let signed = signed(draft, &info, &raw.calc_tx_hash(), witnesses)?;
    let tx = Transaction::new_builder().raw(raw).witnesses(signed.pack()).build();
    Ok(MockTransaction { mock_info: info, tx })
}

impl Output {
    fn build(&self, names: &Names<'_>, field: &str) -> Result<(CellOutput, Bytes), FieldError> {
        let script_of = |described: &Option<file::Script>, name: &str| {
            described.as_ref().map(|it| script(it, names, &format!("{field}.{name}"))).transpose()
        };
        let data = optional(self.data.as_ref(), names, || format!("{field}.data"))?;
        let lock = script_of(&self.lock, "lock")?.unwrap_or_default();
        let type_script = ScriptOpt::from(script_of(&self.type_script, "type")?);
        let cell = CellOutput::new_builder().lock(lock).type_(type_script);
        let cell = match self.capacity_shannons {
            Some(shannons) => cell.capacity(Capacity::shannons(shannons)).build(),
            // No overflow: data is shorter than a transaction.
            None => {
                cell.build_exact_capacity(Capacity::bytes(data.len()).unwrap_or_default()).unwrap_or_default()
            }
        };
        Ok((cell, data))
    }
}

fn optional(
    text: Option<&Text>,
    names: &Names<'_>,
    field: impl FnOnce() -> String,
) -> Result<Bytes, FieldError> {
    let Some(text) = text else { return Ok(Bytes::new()) };
    bytes(text.get_ref(), names).map(Bytes::from).at(text, field)
}

/// A script. By default, its hash type is that of the cell that it names.
fn script(script: &file::Script, names: &Names<'_>, field: &str) -> Result<Script, FieldError> {
    let code = &script.code_hash;
    let code_hash: [u8; 32] = exact(code.get_ref(), names).at(code, || format!("{field}.code_hash"))?;
    let hash_type = match (&script.hash_type, code_of(code.get_ref())) {
        (Some(text), _) => hash_type(text.get_ref()).at(text, || format!("{field}.hash_type"))?,
        (None, Some(name)) => names.cell(name).at(code, || format!("{field}.code_hash"))?.hash_type,
        (None, None) => {
            let problem = anyhow!("is missing; only a code_hash of {{{{ code-hash CELL }}}} implies it");
            return Err(problem).at(code, || format!("{field}.hash_type"));
        }
    };
    let args = optional(script.args.as_ref(), names, || format!("{field}.args"))?;
    Ok(Script::new_builder().code_hash(Byte32::new(code_hash)).hash_type(hash_type).args(args).build())
}

/// A witness, and the positions of its lock's signatures.
#[derive(Default)]
struct Unsigned<'a> {
    lock: Option<&'a Text>,
    parts: Vec<Part>,
    input_type: Option<Bytes>,
    output_type: Option<Bytes>,
    /// Replaces all other fields.
    raw: Option<Bytes>,
}

impl Unsigned<'_> {
    fn has_signatures(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Signature(_)))
    }

    /// The witness with `lock`.
    fn with(&self, lock: impl Fn(&Part) -> Vec<u8>) -> Bytes {
        if let Some(raw) = &self.raw {
            return raw.clone();
        }
        let lock = self.lock.map(|_| Bytes::from(self.parts.iter().flat_map(lock).collect::<Vec<u8>>()));
        let field = |bytes: Option<Bytes>| BytesOpt::from(bytes.map(|bytes| bytes.pack()));
        let args = WitnessArgs::new_builder()
            .lock(field(lock))
            .input_type(field(self.input_type.clone()))
            .output_type(field(self.output_type.clone()));
        args.build().as_bytes()
    }
}

/// Witnesses of the inputs, then the others.
fn witnesses<'a>(draft: &'a Draft, names: &Names<'_>) -> Result<Vec<Unsigned<'a>>, FieldError> {
    let raw = |raw| Unsigned { raw: Some(raw), ..Unsigned::default() };
    let mut all = Vec::new();
    for (index, input) in draft.inputs.iter().enumerate() {
        let field = format!("inputs[{index}].witness");
        all.push(match (&input.witness, &input.raw_witness) {
            (Some(witness), None) => args(witness, names, &field)?,
            (None, text) => raw(optional(text.as_ref(), names, || format!("inputs[{index}].raw_witness"))?),
            (Some(_), Some(text)) => {
                let problem = anyhow!("an input has one of witness and raw_witness");
                return Err(problem).at(text, || format!("inputs[{index}].raw_witness"));
            }
        });
    }
    for (index, text) in draft.witnesses.iter().enumerate() {
        all.push(raw(optional(Some(text), names, || format!("witnesses[{index}]"))?));
    }
    Ok(all)
}

fn args<'a>(witness: &'a Witness, names: &Names<'_>, field: &str) -> Result<Unsigned<'a>, FieldError> {
    let lock = witness.lock.as_ref();
    let found =
        lock.map(|text| parts(text.get_ref(), names).at(text, || format!("{field}.lock"))).transpose()?;
    let field_of = |text: &Option<Text>, name: &str| {
        text.as_ref().map(|text| optional(Some(text), names, || format!("{field}.{name}"))).transpose()
    };
    let input_type = field_of(&witness.input_type, "input_type")?;
    let output_type = field_of(&witness.output_type, "output_type")?;
    Ok(Unsigned { lock, parts: found.unwrap_or_default(), input_type, output_type, raw: None })
}

/// The signed witnesses: each signature covers the witnesses of its lock's group.
fn signed(
    draft: &Draft,
    info: &MockInfo,
    transaction: &Byte32,
    witnesses: Vec<Unsigned<'_>>,
) -> Result<Vec<ckb_types::packed::Bytes>, FieldError> {
    let locks: Vec<Script> = info.inputs.iter().map(|input| input.output.lock()).collect();
    let unsigned: Vec<Bytes> = witnesses.iter().map(|witness| witness.with(Part::unsigned)).collect();
    let mut signed = Vec::new();
    for (index, witness) in witnesses.iter().enumerate() {
        if !witness.has_signatures() {
            signed.push(unsigned[index].pack());
            continue;
        }
        let first = locks.iter().position(|lock| *lock == locks[index]).unwrap_or(index);
        if let Some(text) = witness.lock.filter(|_| first != index) {
            let problem =
                anyhow!("a signature belongs to the witness of its lock's first input, inputs[{first}]");
            return Err(problem).at(text, || format!("inputs[{index}].witness.lock"));
        }
        let group = (0..locks.len()).filter(|other| locks[*other] == locks[index]);
        let hashed = group.chain(draft.inputs.len()..unsigned.len()).map(|other| &unsigned[other]);
        let message = message(transaction, hashed);
        let bytes = witness.with(|part| match part {
            Part::Known(bytes) => bytes.clone(),
            Part::Signature(key) => sign(key, message),
        });
        signed.push(bytes.pack());
    }
    Ok(signed)
}

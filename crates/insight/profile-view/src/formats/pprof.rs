//! pprof's protobuf (`profile.proto` of google/pprof) in gzip: addresses, build ids, inlined lines, cycles
//! and instructions.

use std::{collections::BTreeMap, io::Write};

use antares_profile::{Frame, NodeId, ProfiledProgram};
use flate2::{Compression, GzBuilder};
use prost::Message;

use crate::{Function, View, formats::interned::Interned};

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<FunctionEntry>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
    #[prost(int64, tag = "14")]
    default_sample_type: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<Label>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Label {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "2")]
    text: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Mapping {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    memory_start: u64,
    #[prost(uint64, tag = "3")]
    memory_limit: u64,
    #[prost(int64, tag = "5")]
    filename: i64,
    #[prost(int64, tag = "6")]
    build_id: i64,
    #[prost(bool, tag = "7")]
    has_functions: bool,
    #[prost(bool, tag = "8")]
    has_filenames: bool,
    #[prost(bool, tag = "9")]
    has_line_numbers: bool,
    #[prost(bool, tag = "10")]
    has_inline_frames: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping_id: u64,
    #[prost(uint64, tag = "3")]
    address: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<LineEntry>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct LineEntry {
    #[prost(uint64, tag = "1")]
    function_id: u64,
    #[prost(int64, tag = "2")]
    line: i64,
    #[prost(int64, tag = "3")]
    column: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct FunctionEntry {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
}

pub(crate) fn write(view: &View<'_>, labels: &BTreeMap<String, String>) -> Vec<u8> {
    let bytes = message(view, labels).encode_to_vec();
    // No time and no name in the header: equal profiles are equal files. Writing to memory does not fail.
    let mut gzip = GzBuilder::new().write(Vec::new(), Compression::default());
    let _ = gzip.write_all(&bytes);
    gzip.finish().unwrap_or_default()
}

pub(crate) fn message(view: &View<'_>, labels: &BTreeMap<String, String>) -> Profile {
    let mut texts = Interned::default();
    // The first string is the empty one.
    texts.number("");
    let mut number = |text: &str| signed(texts.number(text) as u64);
    let cycles = ValueType { kind: number("cycles"), unit: number("cycles") };
    let instructions = ValueType { kind: number("instructions"), unit: number("count") };
    let label: Vec<Label> =
        labels.iter().map(|(key, text)| Label { key: number(key), text: number(text) }).collect();
    let function =
        view.functions().iter().zip(1..).map(|(function, id)| entry(function, id, &mut number)).collect();
    let programs = view.profile().programs().iter().zip(0..);
    let mapping = programs.map(|(program, index)| mapping_of(view, program, index, &mut number)).collect();
    let mut ids: BTreeMap<Frame, u64> = BTreeMap::new();
    let mut location = Vec::new();
    for (node, id) in view.profile().nodes().iter().zip(0..) {
        ids.entry(node.frame).or_insert_with(|| {
            location.push(location_of(view, node.frame, NodeId(id), location.len() as u64 + 1));
            location.len() as u64
        });
    }
    let sample = view.stacks().map(|(node, spent)| {
        let frames = view.profile().stack(node);
        let location_id = frames.iter().rev().map(|frame| ids[frame]).collect();
        let value = vec![signed(spent.cycles), signed(spent.instructions)];
        Sample { location_id, value, label: label.clone() }
    });
    let sample = sample.collect();
    Profile {
        sample_type: vec![cycles, instructions],
        sample,
        mapping,
        location,
        function,
        period_type: Some(cycles),
        period: 1,
        default_sample_type: cycles.kind,
        string_table: texts.texts,
    }
}

fn entry(function: &Function, id: u64, number: &mut impl FnMut(&str) -> i64) -> FunctionEntry {
    let name = number(&function.name);
    FunctionEntry { id, name, system_name: name, filename: number(&function.file) }
}

fn mapping_of(
    view: &View<'_>,
    program: &ProfiledProgram,
    index: u32,
    number: &mut impl FnMut(&str) -> i64,
) -> Mapping {
    let symbols = view.symbols(index);
    let extents = || symbols.into_iter().flat_map(|symbols| symbols.functions());
    let digest = program.elf.map(|digest| digest.to_string()).unwrap_or_default();
    let build_id = symbols.map(|symbols| symbols.build_id()).filter(|id| !id.is_empty());
    let build_id = build_id.map_or(digest.clone(), hex::encode);
    let has_lines = symbols.is_some_and(|symbols| symbols.has_lines());
    Mapping {
        id: u64::from(index) + 1,
        memory_start: extents().next().map_or(0, |extent| extent.0),
        memory_limit: extents().map(|extent| extent.1).max().unwrap_or(antares_abi::GUEST_MEMORY_BYTES),
        filename: number(if digest.is_empty() { "unknown" } else { &digest }),
        build_id: number(&build_id),
        has_functions: true,
        has_filenames: has_lines,
        has_line_numbers: has_lines,
        has_inline_frames: has_lines,
    }
}

fn location_of(view: &View<'_>, frame: Frame, node: NodeId, id: u64) -> Location {
    let code = frame.code().map(|(program, pc)| (u64::from(program.0) + 1, pc));
    let (mapping_id, address) = code.unwrap_or_default();
    // The innermost one first.
    let line = view.named(node).iter().rev().map(|(function, line)| LineEntry {
        function_id: u64::from(function.0) + 1,
        line: line.as_ref().map_or(0, |line| i64::from(line.line)),
        column: line.as_ref().map_or(0, |line| i64::from(line.column)),
    });
    Location { id, mapping_id, address, line: line.collect() }
}

/// No profile comes near the limit.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

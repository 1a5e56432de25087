//! System calls with their arguments named.

use antares_profile::evidence::records::SystemCall;
use antares_profile::syscall_name;

use crate::{
    names::Namer,
    report::{DecodedCall, Word},
};

/// The kind of an argument.
#[derive(Clone, Copy)]
enum Kind {
    Address,
    Number,
    Source,
    CellField,
    HeaderField,
    InputField,
    Place,
    Code,
    Bounds,
}

type Argument = (&'static str, usize, Kind);

/// Arguments of calls that load something into a buffer.
const WHOLE: &[Argument] = &[("offset", 2, Kind::Number)];
const LISTED: &[Argument] =
    &[("index", 3, Kind::Number), ("source", 4, Kind::Source), ("offset", 2, Kind::Number)];
const fn field(kind: Kind) -> [Argument; 4] {
    [("index", 3, Kind::Number), ("source", 4, Kind::Source), ("field", 5, kind), ("offset", 2, Kind::Number)]
}
const AS_CODE: &[Argument] = &[
    ("index", 4, Kind::Number),
    ("source", 5, Kind::Source),
    ("address", 0, Kind::Address),
    ("memory_size", 1, Kind::Number),
    ("content_offset", 2, Kind::Number),
    ("content_size", 3, Kind::Number),
];
const STARTS: &[Argument] = &[
    ("index", 0, Kind::Number),
    ("source", 1, Kind::Source),
    ("place", 2, Kind::Place),
    ("bounds", 3, Kind::Bounds),
];

fn arguments(number: u64) -> &'static [Argument] {
    match number {
        93 => &[("code", 0, Kind::Code)],
        2043 | 2601 => STARTS,
        2051 | 2052 | 2061 | 2062 => WHOLE,
        2071..=2074 | 2092 | 2104 => LISTED,
        2081 => const { &field(Kind::CellField) },
        2082 => const { &field(Kind::HeaderField) },
        2083 => const { &field(Kind::InputField) },
        2091 => AS_CODE,
        2602 => &[("pid", 0, Kind::Number)],
        2605 | 2606 | 2608 => &[("fd", 0, Kind::Number)],
        2041 | 2042 | 2177 | 2603 | 2604 | 2607 => &[],
        _ => &[("a0", 0, Kind::Number), ("a1", 1, Kind::Number), ("a2", 2, Kind::Number)],
    }
}

/// The name of a source's list.
fn source(value: u64) -> Option<&'static str> {
    Some(match value {
        1 => "Input",
        2 => "Output",
        3 => "CellDep",
        4 => "HeaderDep",
        0x0100_0000_0000_0001 => "GroupInput",
        0x0100_0000_0000_0002 => "GroupOutput",
        0x0100_0000_0000_0003 => "GroupCellDep",
        0x0100_0000_0000_0004 => "GroupHeaderDep",
        _ => return None,
    })
}

fn name(kind: Kind, value: u64) -> Option<&'static str> {
    let of = |names: &[&'static str]| usize::try_from(value).ok().and_then(|index| names.get(index)).copied();
    match kind {
        Kind::Source => source(value),
        Kind::CellField => {
            of(&["Capacity", "DataHash", "Lock", "LockHash", "Type", "TypeHash", "OccupiedCapacity"])
        }
        Kind::HeaderField => of(&["EpochNumber", "EpochStartBlockNumber", "EpochLength"]),
        Kind::InputField => of(&["OutPoint", "Since"]),
        Kind::Place => of(&["CellData", "Witness"]),
        Kind::Address | Kind::Number | Kind::Code | Kind::Bounds => None,
    }
}

fn text(kind: Kind, value: u64) -> String {
    match (name(kind, value), kind) {
        (Some(name), _) => name.to_owned(),
        (None, Kind::Address) => format!("{value:#x}"),
        (None, Kind::Code) => value.to_le_bytes()[0].cast_signed().to_string(),
        // Offset and length in one register.
        (None, Kind::Bounds) => format!("{}+{}", value >> 32, value & 0xffff_ffff),
        (None, _) if value > 0xffff_ffff => format!("{value:#x}"),
        (None, _) => value.to_string(),
    }
}

/// Name of a result: one that all system calls share, or one of the loading calls.
pub(crate) fn result_name(number: u64, result: u64) -> Option<&'static str> {
    let is_ipc = (2601..=2608).contains(&number);
    Some(match (number, result) {
        (2041 | 2042 | 2603, _) => return None,
        (_, 0) => "SUCCESS",
        (_, 1) => "INDEX_OUT_OF_BOUND",
        (_, 2) => "ITEM_MISSING",
        (_, 3) => "SLICE_OUT_OF_BOUND",
        (_, 4) => "WRONG_FORMAT",
        (_, 5) if is_ipc => "WAIT_FAILURE",
        (_, 6) if is_ipc => "INVALID_FD",
        (_, 7) if is_ipc => "OTHER_END_CLOSED",
        (_, 8) if is_ipc => "MAX_VMS_SPAWNED",
        (_, 9) if is_ipc => "MAX_FDS_CREATED",
        _ => return None,
    })
}

/// Whether a system call failed. Results of some system calls do not indicate failure.
pub(crate) fn has_failed(call: &SystemCall) -> bool {
    let is_verdict = !matches!(call.number, 93 | 2041 | 2042 | 2177 | 2603);
    is_verdict && call.result.is_some_and(|result| result != 0)
}

/// Decodes a system call.
pub(crate) fn decode_call(call: &SystemCall, namer: &Namer) -> DecodedCall {
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut decoded: Vec<(Word, String)> = arguments(call.number)
        .iter()
        .map(|(name, index, kind)| ((*name).into(), text(*kind, call.arguments[*index])))
        .collect();
    decoded.extend(call.room.map(|room| ("room".into(), room.to_string())));
    decoded.extend(call.words.iter().map(|word| ("arg".into(), lossy(word))));
    decoded.extend((call.number == 2177).then(|| ("text".into(), lossy(&call.data))));
    DecodedCall {
        index: call.index,
        vm: call.vm,
        number: call.number,
        name: syscall_name(call.number).map(Into::into),
        arguments: decoded,
        result: call.result,
        result_name: call.result.and_then(|result| result_name(call.number, result)).map(Into::into),
        length: call.length,
        data: if call.number == 2177 { String::new() } else { hex::encode(&call.data) },
        cycles: call.cycles,
        cost: call.cost,
        place: namer.stack(&call.stack, call.vm),
    }
}

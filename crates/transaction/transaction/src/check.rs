//! Checks that the parts of a transaction are consistent, before they are used.
//!
//! Conditions that ckb itself checks (missing code of a script, an inactive hash type) are not checked here:
//! they are results of a script, not errors in the document.

use std::collections::{HashMap, HashSet};

use ckb_mock_tx_types::{MockInfo, MockTransaction};
use ckb_types::{
    core::DepType,
    packed::{CellDep, OutPointVec, RawTransaction},
    prelude::*,
};

use crate::{
    error::{MockError, Problem},
    limits::{ENTRIES_MAX, GROUP_MEMBERS_MAX},
};

/// Returns the first inconsistency.
pub(crate) fn check(mock: &MockTransaction) -> Result<(), MockError> {
    let (info, tx) = (&mock.mock_info, mock.tx.raw());
    check_inputs(info, &tx)?;
    check_cell_deps(info, &tx)?;
    check_headers(info, &tx)?;
    if tx.outputs().len() != tx.outputs_data().len() {
        let problem = Problem::DataCount { data: tx.outputs_data().len(), outputs: tx.outputs().len() };
        return Err(MockError::at("tx.outputs_data", problem));
    }
    Ok(())
}

/// Rejects lists that are too long; each has a path and a number of entries.
pub(crate) fn check_lengths(lists: &[(&str, usize)]) -> Result<(), MockError> {
    match lists.iter().find(|(_, entries)| *entries > ENTRIES_MAX) {
        Some((path, entries)) => {
            let problem = Problem::TooMany { entries: *entries, entries_max: ENTRIES_MAX };
            Err(MockError::at(*path, problem))
        }
        None => Ok(()),
    }
}

fn check_inputs(info: &MockInfo, tx: &RawTransaction) -> Result<(), MockError> {
    let given = |index: usize| format!("mock_info.inputs[{index}]");
    let cells = by_key(info.inputs.iter().map(|entry| bytes(&entry.input.previous_output())), given)?;
    let mut spent = HashMap::new();
    for (index, input) in tx.inputs().into_iter().enumerate() {
        let path = format!("tx.inputs[{index}]");
        let key = bytes(&input.previous_output());
        let place = || input.previous_output();
        let Some(entry) = cells.get(&key) else {
            let problem = Problem::InputMissing(place());
            return Err(MockError::at(format!("{path}.previous_output"), problem));
        };
        if info.inputs[*entry].input != input {
            let at = format!("{}.input.since", given(*entry));
            return Err(MockError::at(at, Problem::SinceDiffers(path)));
        }
        if let Some(first) = spent.insert(key, index) {
            let problem = Problem::SpentTwice { place: place(), first: format!("tx.inputs[{first}]") };
            return Err(MockError::at(format!("{path}.previous_output"), problem));
        }
    }
    let unused =
        info.inputs.iter().position(|entry| !spent.contains_key(&bytes(&entry.input.previous_output())));
    refuse_unused(unused.map(given))
}

/// The entries of `mock_info.cell_deps`, and which of them are used.
struct Deps<'a> {
    info: &'a MockInfo,
    /// Indexes by cell dep, and by out point alone.
    by_dep: HashMap<Vec<u8>, usize>,
    by_place: HashMap<Vec<u8>, usize>,
    used: HashSet<usize>,
    members: usize,
}

impl<'a> Deps<'a> {
    fn new(info: &'a MockInfo) -> Result<Self, MockError> {
        let by_dep = by_key(info.cell_deps.iter().map(|entry| bytes(&entry.cell_dep)), Self::path)?;
        let mut by_place = HashMap::new();
        for (index, entry) in info.cell_deps.iter().enumerate() {
            by_place.entry(bytes(&entry.cell_dep.out_point())).or_insert(index);
        }
        Ok(Self { info, by_dep, by_place, used: HashSet::new(), members: 0 })
    }

    fn path(index: usize) -> String {
        format!("mock_info.cell_deps[{index}]")
    }

    /// Finds the cell that the transaction names at `path`, and its members if it is a group.
    fn require_cell(&mut self, path: &str, dep: &CellDep) -> Result<(), MockError> {
        let Some(&index) = self.by_dep.get(&bytes(dep)) else {
            return Err(match self.by_place.get(&bytes(&dep.out_point())) {
                Some(index) => MockError::at(
                    format!("{}.cell_dep.dep_type", Self::path(*index)),
                    Problem::DepTypeDiffers(path.to_owned()),
                ),
                None => {
                    let problem = Problem::DepMissing(dep.out_point());
                    MockError::at(format!("{path}.out_point"), problem)
                }
            });
        };
        let is_new = self.used.insert(index);
        if dep.dep_type() != DepType::DepGroup.into() || !is_new {
            return Ok(());
        }
        self.require_members(index)
    }

    fn require_members(&mut self, index: usize) -> Result<(), MockError> {
        let at = format!("{}.data", Self::path(index));
        let members = OutPointVec::from_slice(&self.info.cell_deps[index].data)
            .map_err(|_| MockError::at(&at, Problem::GroupMalformed))?;
        if members.is_empty() {
            return Err(MockError::at(at, Problem::GroupEmpty));
        }
        self.members += members.len();
        if self.members > GROUP_MEMBERS_MAX {
            let problem = Problem::TooMany { entries: self.members, entries_max: GROUP_MEMBERS_MAX };
            return Err(MockError::at(at, problem));
        }
        for (position, member) in members.into_iter().enumerate() {
            let code = CellDep::new_builder().out_point(member.clone()).dep_type(DepType::Code).build();
            let found = self.by_dep.get(&bytes(&code)).or_else(|| self.by_place.get(&bytes(&member)));
            let Some(&found) = found else {
                let problem = Problem::MemberMissing(member);
                return Err(MockError::at(format!("{at}[{position}]"), problem));
            };
            self.used.insert(found);
        }
        Ok(())
    }
}

fn check_cell_deps(info: &MockInfo, tx: &RawTransaction) -> Result<(), MockError> {
    let mut deps = Deps::new(info)?;
    for (index, dep) in tx.cell_deps().into_iter().enumerate() {
        deps.require_cell(&format!("tx.cell_deps[{index}]"), &dep)?;
    }
    let unused = (0..info.cell_deps.len()).find(|index| !deps.used.contains(index));
    refuse_unused(unused.map(Deps::path))
}

fn check_headers(info: &MockInfo, tx: &RawTransaction) -> Result<(), MockError> {
    let header = |index: usize| format!("mock_info.header_deps[{index}]");
    let given = by_key(info.header_deps.iter().map(|entry| bytes(&entry.hash())), header)?;
    let mut used = HashSet::new();
    for (index, hash) in tx.header_deps().into_iter().enumerate() {
        match given.get(&bytes(&hash)) {
            Some(index) => used.insert(*index),
            None => return Err(MockError::at(format!("tx.header_deps[{index}]"), Problem::HeaderMissing)),
        };
    }
    let extension = |index: usize| format!("mock_info.extensions[{index}]");
    by_key(info.extensions.iter().map(|(hash, _)| bytes(hash)), extension)?;
    refuse_unused((0..info.header_deps.len()).find(|index| !used.contains(index)).map(header))
}

/// Indexes of entries by their keys. Rejects two entries with one key; `path` names an entry.
fn by_key(
    keys: impl Iterator<Item = Vec<u8>>,
    path: impl Fn(usize) -> String,
) -> Result<HashMap<Vec<u8>, usize>, MockError> {
    let mut known = HashMap::new();
    for (index, key) in keys.enumerate() {
        if let Some(first) = known.insert(key, index) {
            return Err(MockError::at(path(index), Problem::Duplicate(path(first))));
        }
    }
    Ok(known)
}

/// The first dep that is listed twice.
pub(crate) fn repeated_dep(tx: &RawTransaction) -> Option<MockError> {
    let cells = tx.cell_deps().into_iter().map(|dep| bytes(&dep)).collect();
    let headers = tx.header_deps().into_iter().map(|hash| bytes(&hash)).collect();
    [("cell_deps", cells), ("header_deps", headers)].into_iter().find_map(|(list, entries): (_, Vec<_>)| {
        let mut seen = HashMap::new();
        let path = |index| format!("tx.{list}[{index}]");
        entries.into_iter().zip(0..).find_map(|(entry, index)| {
            seen.insert(entry, index).map(|first| MockError::at(path(index), Problem::Repeated(path(first))))
        })
    })
}

/// An unused entry is most likely an error, and suggests that another entry is missing.
fn refuse_unused(path: Option<String>) -> Result<(), MockError> {
    path.map_or(Ok(()), |path| Err(MockError::at(path, Problem::Unused)))
}

/// A hash table key. Molecule's own types share their buffers, so hash tables should not hold them.
fn bytes(entity: &impl Entity) -> Vec<u8> {
    entity.as_slice().to_vec()
}

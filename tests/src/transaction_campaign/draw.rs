//! Draws a scenario from a seed: scripts, contents of cells, limits and pauses.

use ckb_types::core::ScriptHashType;

use super::{
    images::Images,
    phrases::{Role, Writer},
    scenario::{Cell, Group, Limit, Scenario},
};
use crate::generate::Random;

/// Maximum scripts of one transaction.
const GROUPS_MAX: usize = 3;
/// The cell deps after the actors, in this order.
const CODE_CELLS: [Cell; 4] = [Cell::Routines, Cell::Library, Cell::Data, Cell::Short];
/// Range of debug lines in which pauses are requested.
const PAUSED_LINES: u32 = 25;
/// Indices of the actors that run only in versions 1 and 2.
const NOT_IN_VERSION_0: [usize; 2] = [6, 10];

/// Scenario `number` of the campaign with `seed`.
#[must_use]
pub fn draw(images: &Images, seed: u64, number: u64) -> Scenario {
    let mut random = Random::new(seed.rotate_left(40) ^ number.wrapping_mul(0x5851_f42d_4c95_7f2d));
    let newest = random.pick(&[2, 2, 2, 2, 2, 2, 2, 1, 1, 0]);
    let mut scenario = Scenario {
        newest,
        groups: Vec::new(),
        deps: actors(images, &mut random, newest),
        inputs: Vec::new(),
        outputs: vec![cell(images, &mut random), cell(images, &mut random)],
        witnesses: vec![cell(images, &mut random), Cell::Data],
        lists: Vec::new(),
        limit: limit(&mut random),
        pauses: (0..random.pick(&[0, 0, 0, 0, 0, 2, 6]))
            .map(|_| random.below(PAUSED_LINES) as usize)
            .collect(),
    };
    if !scenario.pauses.is_empty() {
        scenario.limit = Limit::Wide;
    }
    let actors = scenario.deps.len();
    scenario.deps.extend(CODE_CELLS);
    let groups = if random.one_in(3) { 2 + random.below(GROUPS_MAX as u32 - 1) as usize } else { 1 };
    scenario.inputs = (0..groups).map(|_| cell(images, &mut random)).collect();
    for index in 0..groups {
        let hash_type = hash_type(&mut random, newest);
        let Some(version) = scenario.environment().vm_version(hash_type) else {
            // Its hash type fails, so it needs no orders.
            scenario.groups.push(Group { dep: 0, hash_type, is_type: index > 0, list: 0 });
            continue;
        };
        let dep = random.below(actors as u32) as usize;
        let mut writer = Writer::new(images, &mut random, &mut scenario, version, actors);
        let list = writer.list(Role::Root, dep, 0);
        let is_type = index > 0 && random.one_in(2);
        scenario.groups.push(Group { dep, hash_type, is_type, list });
    }
    scenario
}

fn actors(images: &Images, random: &mut Random, newest: u32) -> Vec<Cell> {
    let mut all: Vec<usize> = (0..images.actors.len()).collect();
    if newest == 0 {
        all.retain(|index| !NOT_IN_VERSION_0.contains(index));
    }
    (0..2 + random.below(2))
        .map(|_| Cell::Actor(all.swap_remove(random.below(all.len() as u32) as usize)))
        .collect()
}

/// Contents of an input, an output or a witness.
fn cell(images: &Images, random: &mut Random) -> Cell {
    match random.below(8) {
        0..3 => Cell::Actor(random.below(images.actors.len() as u32) as usize),
        3 => Cell::Short,
        4 => Cell::Data,
        _ => Cell::Nothing,
    }
}

fn limit(random: &mut Random) -> Limit {
    match random.below(12) {
        0 => Limit::Less(0),
        1 => Limit::Less(1),
        2 => Limit::Part(u64::from(random.below(1000))),
        _ => Limit::Wide,
    }
}

fn hash_type(random: &mut Random, newest: u32) -> ScriptHashType {
    let fitting =
        [ScriptHashType::Data, ScriptHashType::Data1, ScriptHashType::Data2][newest.min(2) as usize];
    match random.below(40) {
        // Possibly not active yet.
        0 => ScriptHashType::Data2,
        1..4 => ScriptHashType::Data,
        4..10 if newest > 0 => ScriptHashType::Data1,
        _ => random.pick(&[ScriptHashType::Type, fitting, fitting]),
    }
}

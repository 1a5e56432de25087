//! Minimises a differing scenario.

use anyhow::Result;

use super::{
    Difference, Images, Limit, Scenario, compare,
    orders::{Order, Verb},
};

/// Maximum passes over the whole scenario.
const PASSES_MAX: usize = 4;

/// The smallest differing scenario found, and its difference; `None` if `scenario` does not differ.
///
/// # Errors
/// The compiler failed.
pub fn minimise(images: &Images, scenario: &Scenario) -> Result<Option<(Scenario, Difference)>> {
    let Err(difference) = compare(images, scenario)? else { return Ok(None) };
    let mut best = (scenario.clone(), difference);
    for _ in 0..PASSES_MAX {
        let before = best.0.clone();
        simplify(images, &mut best)?;
        for list in 0..best.0.lists.len() {
            // Largest parts first.
            let mut part = best.0.lists[list].len().next_power_of_two();
            while part > 0 {
                let mut at = 0;
                while at < best.0.lists[list].len() {
                    if !keep(images, &mut best, |smaller| cut(&mut smaller.lists[list], at, part))? {
                        at += part;
                    }
                }
                part /= 2;
            }
        }
        if best.0 == before {
            break;
        }
    }
    Ok(Some(best))
}

/// Simplifies everything except the orders.
fn simplify(images: &Images, best: &mut (Scenario, Difference)) -> Result<()> {
    keep(images, best, |smaller| smaller.limit = Limit::Wide)?;
    keep(images, best, |smaller| smaller.pauses.clear())?;
    for index in (0..best.0.groups.len()).rev() {
        if best.0.groups.len() > 1 {
            keep(images, best, |smaller| {
                smaller.groups.remove(index);
                smaller.inputs.remove(index);
            })?;
        }
    }
    for index in 0..best.0.lists.len() {
        keep(images, best, |smaller| smaller.lists[index].clear())?;
    }
    Ok(())
}

/// Removes `part` orders at `at`, and adjusts jumps over them.
fn cut(list: &mut Vec<Order>, at: usize, part: usize) {
    let end = (at + part).min(list.len());
    list.drain(at..end);
    for order in list.iter_mut().filter(|order| order.verb() == Verb::Again) {
        if order.0[1] as usize >= end {
            order.0[1] -= (end - at) as u64;
        }
    }
}

/// Makes `change` to the scenario if it still differs then.
fn keep(
    images: &Images,
    best: &mut (Scenario, Difference),
    change: impl FnOnce(&mut Scenario),
) -> Result<bool> {
    let mut smaller = best.0.clone();
    change(&mut smaller);
    if smaller == best.0 {
        return Ok(false);
    }
    let Err(difference) = compare(images, &smaller)? else { return Ok(false) };
    *best = (smaller, difference);
    Ok(true)
}

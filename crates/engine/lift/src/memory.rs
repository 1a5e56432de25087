//! Address checks of one block: one check covers all accesses with the same base, before any of them.
//!
//! A block executes all its accesses, and a failed check restarts the script elsewhere. So one check of the
//! whole span refuses exactly what the single checks would refuse.

use antares_ir::{Access, Linear, Op, Value, Width};

/// Maximum span of a merged check: wider ones could not lie inside memory.
const SPAN_BYTES_MAX: i64 = 1 << 20;

#[derive(Clone, Copy, Debug)]
struct AccessGroup {
    access: Access,
    base: Value,
    low: i64,
    high: i64,
}

/// The accesses of a block, grouped.
#[derive(Debug, Default)]
pub(crate) struct Accesses {
    groups: Vec<AccessGroup>,
}

impl Accesses {
    pub(crate) fn add(&mut self, access: Access, address: Linear, width: Width) {
        let (low, base) = (address.offset, address.root);
        // If the end of the access overflows i64, its own group checks it modulo 2^64.
        let (high, overflows) = low.overflowing_add(width.bytes());
        let fits = |group: &&mut AccessGroup| {
            let span = group.high.max(high).checked_sub(group.low.min(low));
            let is_near = span.is_some_and(|span| span <= SPAN_BYTES_MAX);
            !overflows && group.access == access && group.base == base && is_near
        };
        match self.groups.iter_mut().find(fits) {
            Some(group) => {
                group.low = group.low.min(low);
                group.high = group.high.max(high);
            }
            None => self.groups.push(AccessGroup { access, base, low, high }),
        }
    }

    /// One check for each group.
    pub(crate) fn checks(&self) -> Vec<Op> {
        let check = |group: &AccessGroup| {
            let AccessGroup { access, base, low, high } = *group;
            Op::Check { access, base, low, high }
        };
        self.groups.iter().map(check).collect()
    }
}

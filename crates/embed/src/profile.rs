//! Profiles of runs.

use std::{collections::BTreeMap, fmt};

use antares_profile_view::{Format, Programs, View};

/// A profile of a run: by function, by stack, or in the formats of other tools.
pub struct Profile {
    profile: antares_profile::Profile,
    programs: Programs,
}

/// Cost of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FunctionCycles {
    /// Its name, from symbols or debug data; otherwise derived from the code.
    pub name: String,
    /// Cycles of its own instructions.
    pub self_cycles: u64,
    /// Cycles including its callees.
    pub total_cycles: u64,
}

impl Profile {
    pub(crate) fn new(profile: antares_profile::Profile, elf: &[u8]) -> Self {
        let mut programs = Programs::default();
        programs.add(elf);
        Self { profile, programs }
    }

    /// All cycles of the run.
    #[must_use]
    pub fn cycles(&self) -> u64 {
        self.profile.sum().cycles
    }

    /// The most expensive functions, at most `rows`, in descending order.
    #[must_use]
    pub fn functions(&self, rows: usize) -> Vec<FunctionCycles> {
        let rows = View::new(&self.profile, &self.programs).top(rows).into_iter();
        let cost = |row: antares_profile_view::Row| FunctionCycles {
            name: row.name,
            self_cycles: row.own.cycles,
            total_cycles: row.total.cycles,
        };
        rows.map(cost).collect()
    }

    /// The folded stacks for flame graphs. Each line has the functions of a stack, outermost first and
    /// separated by `;`, and its cycles.
    #[must_use]
    pub fn folded(&self) -> String {
        self.write(Format::Folded)
    }

    /// A self-contained HTML page with a flame graph.
    #[must_use]
    pub fn flame_graph(&self) -> String {
        self.write(Format::Html)
    }

    fn write(&self, format: Format) -> String {
        let view = View::new(&self.profile, &self.programs);
        let written = format.write(&view, &BTreeMap::new(), None);
        // These two formats support every profile.
        String::from_utf8(written.unwrap_or_default()).unwrap_or_default()
    }
}

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profile").field("cycles", &self.cycles()).finish_non_exhaustive()
    }
}

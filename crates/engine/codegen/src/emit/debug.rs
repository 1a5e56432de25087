//! Debug information that names guest addresses. The library's frame table is built from it (see
//! `frames.rs`), then it is stripped.
//!
//! A function's name is its guest address in hexadecimal. The line of a call is the guest address of the
//! calling block; the line of all other code is the function's address.

use antares_program::GuestAddr;
use inkwell::{
    context::Context,
    debug_info::{
        AsDIScope, DIFile, DIFlags, DIFlagsConstants, DILocation, DISubprogram, DISubroutineType,
        DWARFEmissionKind, DWARFSourceLanguage, DebugInfoBuilder,
    },
    module::{FlagBehavior, Module},
    values::FunctionValue,
};

use crate::emit::Emitter;

const METADATA_VERSION: u64 = 3;
const DWARF_VERSION: u64 = 5;

/// The shared debug information of a module.
pub(crate) struct Debug<'c> {
    builder: DebugInfoBuilder<'c>,
    file: DIFile<'c>,
    kind: DISubroutineType<'c>,
}

impl<'c> Debug<'c> {
    pub(crate) fn new(context: &'c Context, module: &Module<'c>) -> Self {
        for (name, version) in [("Debug Info Version", METADATA_VERSION), ("Dwarf Version", DWARF_VERSION)] {
            let version = context.i32_type().const_int(version, false);
            module.add_basic_value_flag(name, FlagBehavior::Warning, version);
        }
        let (builder, unit) = module.create_debug_info_builder(
            false,
            DWARFSourceLanguage::C,
            "guest",
            "",
            "",
            true,
            "",
            0,
            "",
            DWARFEmissionKind::LineTablesOnly,
            0,
            false,
            false,
            "",
            "",
        );
        let file = unit.get_file();
        let kind = builder.create_subroutine_type(file, None, &[], DIFlags::PUBLIC);
        Self { builder, file, kind }
    }

    /// Completes the debug information after all code is emitted.
    pub(crate) fn finish(&self) {
        self.builder.finalize();
    }
}

/// A guest address as a line number.
fn line(address: GuestAddr) -> u32 {
    u32::try_from(address.0).unwrap_or(0)
}

impl<'c> Emitter<'c, '_> {
    /// Starts the code of `value`, which has a `name` and a guest address.
    pub(crate) fn enter_scope(
        &self,
        value: FunctionValue<'c>,
        name: &str,
        entry: GuestAddr,
    ) -> DISubprogram<'c> {
        let scope = self.subprogram(name, entry);
        value.set_subprogram(scope);
        self.locate(scope, entry);
        scope
    }

    fn subprogram(&self, name: &str, entry: GuestAddr) -> DISubprogram<'c> {
        let Debug { builder, file, kind } = &self.debug;
        let line = line(entry);
        builder.create_function(
            file.as_debug_info_scope(),
            name,
            None,
            *file,
            line,
            *kind,
            true,
            true,
            line,
            DIFlags::PUBLIC,
            true,
        )
    }

    fn location(
        &self,
        scope: DISubprogram<'c>,
        address: GuestAddr,
        inlined_at: Option<DILocation<'c>>,
    ) -> DILocation<'c> {
        let scope = scope.as_debug_info_scope();
        self.debug.builder.create_debug_location(self.context, line(address), 0, scope, inlined_at)
    }

    /// Attributes the code that follows to a guest address.
    pub(crate) fn locate(&self, scope: DISubprogram<'c>, address: GuestAddr) {
        self.builder.set_current_debug_location(self.location(scope, address, None));
    }

    /// Attributes the code that follows to an inlined copy of `callee`, called in `scope` at `call`.
    pub(crate) fn locate_copy(&self, scope: DISubprogram<'c>, call: GuestAddr, callee: GuestAddr) {
        let copied = self.subprogram(&format!("{:x}", callee.0), callee);
        let caller = self.location(scope, call, None);
        self.builder.set_current_debug_location(self.location(copied, callee, Some(caller)));
    }

    /// Attributes the code that follows to no guest function.
    pub(crate) fn leave_scope(&self) {
        self.builder.unset_current_debug_location();
    }
}

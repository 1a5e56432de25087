//! `emit`: turns an IR module into an LLVM module: functions, entry thunks, the entry table and the header.

mod control;
mod current;
mod debug;
mod far;
mod function;
pub(crate) mod giants;
mod inlining;
mod memory;
mod memory_resident;
mod operations;
mod ordered;
pub(crate) mod part;
pub(crate) mod signature;
mod state;
mod stubs;
mod word;

use std::collections::HashSet;

use antares_abi::{ABI_VERSION, BailoutReason, EntryTable, LIBRARY_MAGIC, LIBRARY_SYMBOL};
use antares_ir as ir;
use antares_program::{FunctionId, Reg, RegSet};
use inkwell::{
    AddressSpace, GlobalVisibility,
    attributes::{Attribute, AttributeLoc},
    basic_block::BasicBlock,
    builder::Builder,
    context::Context,
    intrinsics::Intrinsic,
    module::{Linkage, Module},
    targets::TargetMachine,
    types::{BasicMetadataTypeEnum, BasicTypeEnum, FunctionType, IntType, PointerType},
    values::{CallSiteValue, FunctionValue, GlobalValue, IntValue, PointerValue},
};

use crate::{
    CodegenError, Result, Share,
    emit::{
        signature::{Convention, Signature},
        state::Field,
    },
};

/// LLVM's number of `x86_regcallcc`.
const REGCALL: u32 = 92;

/// The names of the small functions that each part contains.
pub(crate) const STUBS: [&str; 4] = ["ecall", "dispatch", "carryless", "resolve"];

/// Maximum indirect jumps of a function with a switch each; more jumps to the same targets share one.
pub const OWN_SWITCHES_MAX: usize = 8;

/// Shared state of the emitter's parts.
pub(crate) struct Emitter<'c, 'm> {
    context: &'c Context,
    module: Module<'c>,
    builder: Builder<'c>,
    ir: &'m ir::Module,
    convention: Convention,
    signatures: Vec<Signature>,
    functions: Vec<FunctionValue<'c>>,
    i64: IntType<'c>,
    ptr: PointerType<'c>,
    trap: FunctionValue<'c>,
    in_register: Attribute,
    ecall: FunctionValue<'c>,
    dispatch: FunctionValue<'c>,
    carryless: FunctionValue<'c>,
    resolve: FunctionValue<'c>,
    debug: debug::Debug<'c>,
    part: Share,
    parts: Vec<u32>,
    /// By function: whether a part other than its own calls it.
    is_shared: Vec<bool>,
    /// By function: the number of its direct calls.
    calls: Vec<usize>,
    /// By function: whether it is not inlined, because it already contains enough other functions.
    ends_chain: Vec<bool>,
    /// Registers that functions are linked through.
    links: RegSet,
}

/// The entry table as globals of the module.
pub(crate) struct Tables<'c, 'm> {
    /// With the functions that have a thunk.
    pub(crate) plan: EntryTable<&'m ir::Function>,
    pub(crate) directory: GlobalValue<'c>,
    pub(crate) entries: GlobalValue<'c>,
}

/// Emits `part` of `ir` for `target`.
pub(crate) fn module<'c>(
    context: &'c Context,
    ir: &ir::Module,
    convention: Convention,
    part: Share,
    target: &TargetMachine,
) -> Result<Module<'c>> {
    let module = context.create_module("antares");
    module.set_triple(&target.get_triple());
    module.set_data_layout(&target.get_target_data().get_data_layout());
    let mut emitter = Emitter::new(context, module, (ir, convention), part)?;
    emitter.declare_functions();
    let tables = emitter.declare_tables();
    emitter.stubs(&tables)?;
    for function in ir.functions.iter().filter(|function| emitter.is_own(function.id)) {
        emitter.bound_time(function);
        function::emit(&emitter, function)?;
    }
    emitter.leave_scope();
    let entries = emitter.entries().filter(|function| emitter.is_own(function.id));
    entries.into_iter().try_for_each(|function| emitter.thunk(function))?;
    if part.index == 0 {
        emitter.define_tables(&tables);
        emitter.define_header(&tables);
    }
    emitter.debug.finish();
    verify(&emitter.module)?;
    Ok(emitter.module)
}

/// The name of a symbol of `function`; two functions may begin at one address.
fn symbol(prefix: &str, function: &ir::Function) -> String {
    match function.link {
        Reg::RA => format!("{prefix}_{:x}", function.entry.0),
        link => format!("{prefix}_{:x}_{link}", function.entry.0),
    }
}

pub(crate) fn verify(module: &Module) -> Result {
    module.verify().map_err(|message| CodegenError::Verifier { message: message.to_string() })
}

impl<'c, 'm> Emitter<'c, 'm> {
    fn new(
        context: &'c Context,
        module: Module<'c>,
        (ir, convention): (&'m ir::Module, Convention),
        part: Share,
    ) -> Result<Self> {
        let i64 = context.i64_type();
        let ptr = context.ptr_type(AddressSpace::default());
        let trap = Intrinsic::find("llvm.ubsantrap")
            .and_then(|intrinsic| intrinsic.get_declaration(&module, &[]))
            .ok_or(CodegenError::Intrinsic { name: "llvm.ubsantrap" })?;
        let in_register = context.create_enum_attribute(Attribute::get_named_enum_kind_id("inreg"), 0);
        let base_only = context.void_type().fn_type(&[ptr.into()], false);
        let base_and_target = context.void_type().fn_type(&[ptr.into(), i64.into()], false);
        let pair = context.struct_type(&[i64.into(), i64.into()], false);
        let product = pair.fn_type(&[i64.into(), i64.into()], false);
        let kinds = [base_only, base_and_target, product, base_and_target];
        let mut names = STUBS.into_iter();
        let [ecall, dispatch, carryless, resolve] = kinds
            .map(|kind| module.add_function(names.next().unwrap_or_default(), kind, Some(Linkage::Internal)));
        let builder = context.create_builder();
        let signatures = ir.functions.iter().map(|function| Signature::of(function, convention)).collect();
        let parts = part::parts(ir, part);
        let is_shared = part::is_shared(ir, &parts);
        let debug = debug::Debug::new(context, &module);
        let calls = inlining::calls(ir);
        let emitter = Self {
            debug,
            part,
            parts,
            is_shared,
            ends_chain: inlining::ends_chain(ir, &calls),
            calls,
            links: ir.functions.iter().map(|function| function.link).fold(RegSet::EMPTY, RegSet::with),
            context,
            module,
            builder,
            ir,
            convention,
            signatures,
            functions: Vec::new(),
            i64,
            ptr,
            trap,
            in_register,
            ecall,
            dispatch,
            carryless,
            resolve,
        };
        for stub in [ecall, dispatch, carryless, resolve] {
            emitter.set_up(stub);
            stub.add_attribute(AttributeLoc::Function, emitter.attribute("noinline"));
        }
        Ok(emitter)
    }

    fn attribute(&self, name: &str) -> Attribute {
        self.context.create_enum_attribute(Attribute::get_named_enum_kind_id(name), 0)
    }

    /// Sets the common attributes of all functions. Stack probes ensure that deep recursion hits the guard
    /// page. Without a red zone, the call in [`Self::meter`] may be anywhere.
    fn set_up(&self, function: FunctionValue<'c>) {
        function.set_call_conventions(REGCALL);
        for index in 0..function.count_params() {
            function.add_attribute(AttributeLoc::Param(index), self.in_register);
        }
        function.add_attribute(AttributeLoc::Function, self.attribute("nounwind"));
        function.add_attribute(AttributeLoc::Function, self.attribute("noredzone"));
        // Stack frames with vectors are not realigned, so that the frame table knows their size.
        for (name, value) in [("probe-stack", "inline-asm"), ("no-realign-stack", "")] {
            let attribute = self.context.create_string_attribute(name, value);
            function.add_attribute(AttributeLoc::Function, attribute);
        }
    }

    /// Makes a call follow the guest convention.
    fn set_up_call(&self, call: CallSiteValue<'c>, params: u32) {
        call.set_call_convention(REGCALL);
        for index in 0..params {
            call.add_attribute(AttributeLoc::Param(index), self.in_register);
        }
    }

    fn function_type(&self, signature: &Signature) -> FunctionType<'c> {
        let mut params: Vec<BasicMetadataTypeEnum> = vec![self.ptr.into(), self.i64.into()];
        params.extend(signature.params.iter().map(|_| BasicMetadataTypeEnum::from(self.i64)));
        let results: Vec<BasicTypeEnum> = vec![self.i64.into(); 1 + signature.results.len()];
        self.context.struct_type(&results, false).fn_type(&params, false)
    }

    fn declare_functions(&mut self) {
        let mut names = HashSet::new();
        for function in &self.ir.functions {
            let signature = &self.signatures[function.id.0 as usize];
            let mut name = symbol("guest", function);
            if !names.insert((function.entry, function.link)) {
                // A copy.
                name = format!("{name}_{}", function.id.0);
            }
            let is_here_alone = self.is_own(function.id) && !self.is_shared[function.id.0 as usize];
            let value = self.add_function(&name, self.function_type(signature), is_here_alone);
            self.set_up(value);
            self.functions.push(value);
        }
    }

    fn function(&self, id: FunctionId) -> FunctionValue<'c> {
        self.functions[id.0 as usize]
    }

    fn signature(&self, id: FunctionId) -> &Signature {
        &self.signatures[id.0 as usize]
    }

    fn declare_tables(&self) -> Tables<'c, 'm> {
        let thunks = self.entries().map(|function| (function.entry.0, function));
        let plan = EntryTable::new(self.ir.code_start, self.ir.code_end, thunks);
        let (i16, i32) = (self.context.i16_type(), self.context.i32_type());
        let length = |length: usize| {
            u32::try_from(length).expect("code lies in memory, of which all tables are parts")
        };
        let declare = |kind, name| {
            let table = self.module.add_global(kind, None, name);
            match self.part.of {
                1 => table.set_linkage(Linkage::Internal),
                _ => table.set_visibility(GlobalVisibility::Hidden),
            }
            table.set_constant(true);
            table
        };
        Tables {
            directory: declare(i16.array_type(length(plan.directory.len())), "entry_directory"),
            entries: declare(i32.array_type(length(plan.entries.len())), "entry_table"),
            plan,
        }
    }

    /// The functions that have a thunk. Of two at one address, the one that returns through `ra` wins.
    fn entries(&self) -> impl Iterator<Item = &'m ir::Function> {
        let functions =
            || self.ir.functions.iter().filter(|function| function.is_exposed || function.is_resumable);
        let others = functions().filter(|function| function.link != Reg::RA);
        others.chain(functions().filter(|function| function.link == Reg::RA))
    }

    /// Sets the inlining and optimization attributes of a function, to bound LLVM's time. It grows faster
    /// than the function's size, and with repeated inlining.
    fn bound_time(&self, function: &ir::Function) {
        let names: &[&str] = if giants::is_giant(function) {
            &["optnone", "noinline"]
        } else if self.ends_chain[function.id.0 as usize] {
            &["noinline"]
        } else if inlining::is_inlined(function, self.calls[function.id.0 as usize]) {
            &["alwaysinline"]
        } else {
            &[]
        };
        let value = self.function(function.id);
        names.iter().for_each(|name| value.add_attribute(AttributeLoc::Function, self.attribute(name)));
    }

    fn is_own(&self, id: FunctionId) -> bool {
        self.parts[id.0 as usize] == self.part.index
    }

    /// Adds a function that is private to this part, or that all parts can reference by name.
    pub(crate) fn add_function(
        &self,
        name: &str,
        kind: FunctionType<'c>,
        is_here_alone: bool,
    ) -> FunctionValue<'c> {
        let linkage = if is_here_alone { Linkage::Internal } else { Linkage::External };
        let function = self.module.add_function(name, kind, Some(linkage));
        if !is_here_alone {
            function.as_global_value().set_visibility(GlobalVisibility::Hidden);
        }
        function
    }

    fn define_tables(&self, tables: &Tables<'c, 'm>) {
        let (i16, i32) = (self.context.i16_type(), self.context.i32_type());
        let start = tables.entries.as_pointer_value().const_to_int(self.i64);
        let entry = |function: &Option<&ir::Function>| match function {
            None => i32.const_zero(),
            Some(function) => {
                let thunk = self.declare_thunk(function).as_global_value();
                thunk.as_pointer_value().const_to_int(self.i64).const_sub(start).const_truncate(i32)
            }
        };
        let entries: Vec<IntValue> = tables.plan.entries.iter().map(entry).collect();
        tables.entries.set_initializer(&i32.const_array(&entries));
        let group = |group: &u16| i16.const_int(u64::from(*group), false);
        let directory: Vec<IntValue> = tables.plan.directory.iter().map(group).collect();
        tables.directory.set_initializer(&i16.const_array(&directory));
    }

    /// The header in the layout of `antares_abi::LibraryHeader`.
    fn define_header(&self, tables: &Tables<'c, 'm>) {
        let (i8, i32) = (self.context.i8_type(), self.context.i32_type());
        let magic: Vec<IntValue> =
            LIBRARY_MAGIC.iter().map(|byte| i8.const_int(u64::from(*byte), false)).collect();
        let magic = i8.const_array(&magic);
        let fields = [&[magic.get_type().into()][..], &[i32.into(); 6], &[self.i64.into(); 3]].concat();
        let kind = self.context.struct_type(&fields, false);
        let header = self.module.add_global(kind, None, LIBRARY_SYMBOL);
        header.set_constant(true);
        // Exported, but never preempted by another library, so its distances need no relocation.
        header.set_visibility(GlobalVisibility::Protected);
        let from = header.as_pointer_value().const_to_int(self.i64);
        let distance =
            |table: GlobalValue<'c>| table.as_pointer_value().const_to_int(self.i64).const_sub(from);
        let number = |number: u32| i32.const_int(u64::from(number), false);
        let length = |length: usize| i32.const_int(length as u64, false);
        let options = self.ir.options;
        header.set_initializer(&kind.const_named_struct(&[
            magic.into(),
            number(ABI_VERSION).into(),
            number(options.vm_version).into(),
            number(u32::from(options.isa.0)).into(),
            length(tables.plan.directory.len()).into(),
            number(self.ir.retained_stores()).into(),
            length(tables.plan.entries.len()).into(),
            self.i64.const_int(self.ir.code_start, false).into(),
            distance(tables.entries).into(),
            distance(tables.directory).into(),
        ]));
    }

    fn number(&self, number: i64) -> IntValue<'c> {
        self.i64.const_int(number.cast_unsigned(), true)
    }

    /// Bails out if `is_bad`; otherwise continues in a new block of `function`.
    fn bail_out_if(
        &self,
        function: FunctionValue<'c>,
        is_bad: IntValue<'c>,
        reason: BailoutReason,
    ) -> Result {
        let bail_out = self.context.append_basic_block(function, "leave");
        let on = self.context.append_basic_block(function, "on");
        self.branch_rarely(is_bad, bail_out, on)?;
        self.builder.position_at_end(bail_out);
        self.bail_out(reason)?;
        self.builder.position_at_end(on);
        Ok(())
    }

    /// Branches to `rare` if `is_odd`, which is rare, else to `on`.
    fn branch_rarely(&self, is_odd: IntValue<'c>, rare: BasicBlock<'c>, on: BasicBlock<'c>) -> Result {
        let branch = self.builder.build_conditional_branch(is_odd, rare, on)?;
        let weight = |weight| self.context.i32_type().const_int(weight, false).into();
        let weights = self.context.metadata_node(&[
            self.context.metadata_string("branch_weights").into(),
            weight(1),
            weight(1 << 20),
        ]);
        // The kind exists in every LLVM. A missing hint only affects speed.
        let _ = branch.set_metadata(weights, self.context.get_kind_id("prof"));
        Ok(())
    }

    /// Bails out and ends the block.
    fn bail_out(&self, reason: BailoutReason) -> Result {
        self.trap(reason as u64)
    }

    /// Bails out at an unknown guest address and ends the block.
    fn bail_out_for(&self, base: PointerValue<'c>, target: IntValue<'c>, flag: u8) -> Result {
        self.write_state(base, Field::PC, target)?;
        self.trap(BailoutReason::UnknownTarget as u64 | u64::from(flag))
    }

    fn trap(&self, number: u64) -> Result {
        let number = self.context.i8_type().const_int(number, false);
        let call = self.builder.build_call(self.trap, &[number.into()], "")?;
        call.add_attribute(AttributeLoc::Function, self.attribute("nomerge"));
        call.add_attribute(AttributeLoc::Function, self.attribute("cold"));
        self.builder.build_unreachable()?;
        Ok(())
    }

    /// An overloaded intrinsic on 64-bit integers.
    fn intrinsic(&self, name: &'static str) -> Result<FunctionValue<'c>> {
        Intrinsic::find(name)
            .and_then(|intrinsic| intrinsic.get_declaration(&self.module, &[self.i64.into()]))
            .ok_or(CodegenError::Intrinsic { name })
    }
}

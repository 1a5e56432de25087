//! The target machine and the passes. Nothing here depends on the compiling machine.

use std::sync::{Once, PoisonError, RwLock};

use antares_abi::{LIBRARY_SYMBOL, TARGET_CPU, TARGET_FEATURES, TARGET_TRIPLE};
use inkwell::{
    GlobalVisibility, OptimizationLevel,
    attributes::{Attribute, AttributeLoc},
    basic_block::BasicBlock,
    context::{AsContextRef, Context},
    module::{Linkage, Module},
    passes::PassBuilderOptions,
    targets::{CodeModel, FileType, InitializationConfig, RelocMode, Target, TargetMachine, TargetTriple},
    values::{CallSiteValue, FunctionValue},
};

use crate::{CodegenError, Result, Share, emit::STUBS};

/// Passes over all functions together, chosen by measurements (docs/benchmarks.md). They first propagate what
/// all callers pass, and later remove functions without callers.
const PASSES_TOGETHER: &str = "function(mem2reg,early-cse<memssa>,simplifycfg),\
     ipsccp<no-func-spec>,\
     globaldce,\
     cgscc(inline),\
     globaldce";

/// Passes over each function, after interprocedural facts are known. The first GVN precedes instcombine,
/// which would change products and word arithmetic into forms that do not become `mulx` and `adc`;
/// `reassociate` would split carry chains. Vectorization applies to loops without checks and meter calls. The
/// `indvars` before it turns the cycles of all iterations into one product.
const PASSES_ALONE: &str = "function(\
     gvn,instcombine<no-verify-fixpoint>,loop-mssa(licm),correlated-propagation,dse,adce,simplifycfg,\
     loop(indvars),loop-vectorize,simplifycfg)";

/// Passes that remove functions whose bodies other shares contain.
const PASSES_AFTER_SHARING: &str = "elim-avail-extern,globaldce";

/// Passes over functions with vectors, after the others: operations that were separate for each element may
/// be shared.
const PASSES_AFTER_VECTORS: &str = "early-cse,instcombine<no-verify-fixpoint>,simplifycfg";

/// LLVM's tuning beyond the required features: a sum of three operands is one `lea`, which begins most
/// address checks of two registers.
const TUNING: &str = "-slow-3ops-lea";

static START: Once = Once::new();

/// Guards LLVM's global options, which lld resets when it links. Code generation takes a shared lock; linking
/// takes an exclusive one and restores the options.
static OPTIONS: RwLock<()> = RwLock::new(());

fn start() {
    START.call_once(|| {
        Target::initialize_x86(&InitializationConfig::default());
        set_options();
    });
}

fn set_options() {
    // A loop's sum becomes a product of its iterations at any cost: cycles above all. Most copies are of few
    // bytes: one vector per iteration, then eight bytes at once. Vector loops with early exits extract
    // elements through the stack by index, an access that the code check does not know. Products may be
    // divided in 128 bits, for which there is no library function. LLVM assumes that carries are predictable:
    // as branches, those of bignum code cost four times as much. Inlining pays for single callers and tiny
    // functions (see `emit`); the rest only grows, since guest calls pass values in registers. A few targets
    // are found faster by comparisons than by a table; a table has a slot for each even address. Guest code
    // has an order for twice the host's registers, and a better order needs loads to pass stores. The
    // processor schedules for latencies itself; doing it here only costs registers. Values meet in loops and
    // at interpreter jumps: copies for that go to the edges that need them.
    let arguments = [
        c"antares".as_ptr(),
        c"-disable-lsr".as_ptr(),
        c"-replexitval=always".as_ptr(),
        c"-force-vector-interleave=1".as_ptr(),
        c"-epilogue-vectorization-force-VF=8".as_ptr(),
        c"-enable-early-exit-vectorization=false".as_ptr(),
        c"-expand-div-rem-bits=64".as_ptr(),
        c"-x86-cmov-converter=false".as_ptr(),
        c"-inline-threshold=0".as_ptr(),
        c"-min-jump-table-entries=8".as_ptr(),
        c"-jump-table-density=2".as_ptr(),
        c"-cgpp-huge-func=0".as_ptr(),
        c"-enable-aa-sched-mi".as_ptr(),
        c"-schedmodel=false".as_ptr(),
        c"-greedy-reverse-local-assignment".as_ptr(),
        c"-no-phi-elim-live-out-early-exit".as_ptr(),
        c"-experimental-debug-variable-locations=false".as_ptr(),
    ];
    let count = i32::try_from(arguments.len()).expect("these are few");
    // SAFETY: LLVM expects `argc` pointers to C strings and an optional overview; all are valid. No other
    // thread is in LLVM: callers hold `OPTIONS` exclusively, or are the first.
    unsafe { llvm_sys::support::LLVMParseCommandLineOptions(count, arguments.as_ptr(), std::ptr::null()) }
}

/// Runs `generate` while the options are valid.
pub(crate) fn with_options<T>(generate: impl FnOnce() -> T) -> T {
    let _shared = OPTIONS.read().unwrap_or_else(PoisonError::into_inner);
    generate()
}

/// Runs `link`, which resets the options, while no other thread needs them.
pub(crate) fn without_options<T>(link: impl FnOnce() -> T) -> T {
    let _alone = OPTIONS.write().unwrap_or_else(PoisonError::into_inner);
    start();
    let linked = link();
    set_options();
    linked
}

fn llvm_error(step: &'static str) -> impl Fn(inkwell::support::LLVMString) -> CodegenError {
    move |message| CodegenError::Llvm { step, message: message.to_string() }
}

/// Discards the names of values and blocks, which only text shows.
pub(crate) fn forget_names(context: &Context) {
    // SAFETY: the context is alive, and no code in it requests names.
    unsafe { llvm_sys::core::LLVMContextSetDiscardValueNames(context.as_ctx_ref(), 1) }
}

/// The target machine. Plain code is selected one instruction at a time, in linear time.
pub(crate) fn target_machine(is_plain: bool) -> Result<TargetMachine> {
    start();
    let triple = TargetTriple::create(TARGET_TRIPLE);
    let target = Target::from_triple(&triple).map_err(llvm_error("target"))?;
    let features = format!("{TARGET_FEATURES},{TUNING}");
    let machine = target.create_target_machine(
        &triple,
        TARGET_CPU,
        &features,
        if is_plain { OptimizationLevel::None } else { OptimizationLevel::Default },
        RelocMode::PIC,
        CodeModel::Default,
    );
    machine.ok_or_else(|| CodegenError::Llvm { step: "target machine", message: TARGET_CPU.to_owned() })
}

/// Optimizes a module, and retains only the functions of `share`.
pub(crate) fn run(module: &Module, share: Share, target: &TargetMachine) -> Result {
    let run = |passes: &str| {
        module.run_passes(passes, target, PassBuilderOptions::create()).map_err(llvm_error("passes"))
    };
    run(PASSES_TOGETHER)?;
    if share.of > 1 {
        drop_bodies(module, share);
        run(PASSES_AFTER_SHARING)?;
    }
    run(PASSES_ALONE)?;
    let loops = module.get_context().get_kind_id("llvm.loop");
    for function in module.get_functions().filter(|function| function.count_basic_blocks() > 0) {
        if has_vectors(function, loops) {
            let options = PassBuilderOptions::create();
            function.run_passes(PASSES_AFTER_VECTORS, target, options).map_err(llvm_error("passes"))?;
        }
        function.get_basic_block_iter().for_each(allow_merging);
    }
    // Passes would also apply the attribute to loop vectorization, so it is set after them.
    forbid_vectors(module);
    Ok(())
}

/// Guest code is scalar: copies through vector registers would only wait for earlier stores.
pub(crate) fn forbid_vectors(module: &Module) {
    let kind = Attribute::get_named_enum_kind_id("noimplicitfloat");
    let attribute = module.get_context().create_enum_attribute(kind, 0);
    for function in module.get_functions().filter(|function| function.count_basic_blocks() > 0) {
        function.add_attribute(AttributeLoc::Function, attribute);
    }
}

/// Lets other blocks share the trap of `block`, now that no pass would change branches for that.
fn allow_merging(block: BasicBlock) {
    let kind = Attribute::get_named_enum_kind_id("nomerge");
    let trap = block.get_first_instruction().and_then(|trap| CallSiteValue::try_from(trap).ok());
    if let Some(trap) = trap.filter(|_| block.get_instructions().count() == 2) {
        trap.remove_enum_attribute(AttributeLoc::Function, kind);
    }
}

/// Marks functions outside `share` as available externally; every share has the stubs. The shares of a module
/// take about the same work, and do not depend on which one is requested.
fn drop_bodies(module: &Module, share: Share) {
    let size = |function: &FunctionValue| -> usize {
        function.get_basic_block_iter().map(|block| block.get_instructions().count()).sum()
    };
    let is_shared = |function: &FunctionValue| {
        let name = function.get_name().to_bytes();
        function.count_basic_blocks() > 0 && !STUBS.iter().any(|stub| stub.as_bytes() == name)
    };
    let functions = module.get_functions().filter(is_shared);
    let mut functions: Vec<_> = functions.map(|function| (size(&function), function)).collect();
    functions.sort_by_key(|(size, _)| std::cmp::Reverse(*size));
    // Assigns the largest functions first, each to the share with the least work so far.
    let mut loads = vec![0; share.of as usize];
    for (size, function) in functions {
        let least = (0..loads.len()).min_by_key(|share| loads[*share]).unwrap_or(0);
        loads[least] += size;
        let is_here = least == share.index as usize;
        function.set_linkage(if is_here { Linkage::External } else { Linkage::AvailableExternally });
        function.as_global_value().set_visibility(GlobalVisibility::Hidden);
    }
    for global in module.get_globals().filter(|global| global.get_initializer().is_some()) {
        let is_header = global.get_name().to_bytes() == LIBRARY_SYMBOL.as_bytes();
        global.set_linkage(if share.index == 0 { Linkage::External } else { Linkage::AvailableExternally });
        if !is_header {
            global.set_visibility(GlobalVisibility::Hidden);
        }
    }
}

/// Whether a loop of `function` was vectorized: only the vectorizer marks loops, with metadata of the kind
/// `loops`.
fn has_vectors(function: FunctionValue, loops: u32) -> bool {
    let ends = function.get_basic_block_iter().filter_map(|block| block.get_terminator());
    ends.into_iter().any(|end| end.get_metadata(loops).is_some())
}

pub(crate) fn write(module: &Module, target: &TargetMachine, form: FileType) -> Result<Vec<u8>> {
    let buffer = target.write_to_memory_buffer(module, form).map_err(llvm_error("code generation"))?;
    let bytes = buffer.as_slice();
    // Text ends in a zero byte.
    Ok(bytes.strip_suffix(&[0]).filter(|_| form == FileType::Assembly).unwrap_or(bytes).to_vec())
}

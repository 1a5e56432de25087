//! The target machine and the passes. Nothing here depends on the machine that compiles.

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

use crate::{CodegenError, Share, emit::STUBS};

/// Passes over all functions together, found by measuring (docs/benchmarks.md). What all callers pass, and
/// what follows from it, is known before anything else is done; then functions are gone that nobody calls.
const PASSES_TOGETHER: &str = "function(mem2reg,early-cse<memssa>,simplifycfg),\
     ipsccp<no-func-spec>,\
     globaldce,\
     cgscc(inline),\
     globaldce";

/// Passes over each function, once it has what matters of the others. The first GVN comes before instcombine,
/// which would change products and word arithmetic into forms that do not become `mulx` and `adc`;
/// `reassociate` tears carry chains apart. Vectors are for loops without checks and meter: a loop that calls
/// the meter cannot become one of vectors; `indvars` before makes one product of the cycles of all passes.
const PASSES_ALONE: &str = "function(\
     gvn,instcombine<no-verify-fixpoint>,loop-mssa(licm),correlated-propagation,dse,adce,simplifycfg,\
     loop(indvars),loop-vectorize,simplifycfg)";

/// Passes that take away what is found elsewhere.
const PASSES_AFTER_SHARING: &str = "elim-avail-extern,globaldce";

/// Passes over functions with vectors, after the others: what one operation was for each element may be one
/// for all.
const PASSES_AFTER_VECTORS: &str = "early-cse,instcombine<no-verify-fixpoint>,simplifycfg";

/// What LLVM assumes of processors beside the features that they must have: a sum of three is one `lea`,
/// which most address checks of two registers start with.
const TUNING: &str = "-slow-3ops-lea";

static START: Once = Once::new();

/// LLVM's global options, which lld sets back to their defaults when it links: code is generated under a
/// shared lock, and linked under an exclusive one that sets them again.
static OPTIONS: RwLock<()> = RwLock::new(());

fn start() {
    START.call_once(|| {
        Target::initialize_x86(&InitializationConfig::default());
        set_options();
    });
}

fn set_options() {
    // What a loop has added up is a product of its passes, whatever that costs: cycles above all. Most copies
    // are of few bytes: one vector a pass, and eight bytes at once at the end. What is taken out of a loop of
    // vectors that ends early is an element by its number, through the stack: an access that the check of
    // machine code does not know. Such products may be divided in 128 bits, for which there is no function to
    // call. LLVM takes carries for predictable: as branches, those of bignum code cost four times as much.
    // Inlining what has one caller gains, and what is tiny (see `emit`); the rest only grows, since guest
    // calls pass what they need in registers. Few targets are found sooner by comparing than by a table; a
    // table has a place for each even address. Guest code comes in an order for twice our registers, and
    // loads must be able to pass stores to get a better one. The processor looks far enough ahead by itself:
    // an order for its latencies only costs registers. Values meet in loops and at the jumps of interpreters;
    // copies for that are made on the edges that need them.
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
    // SAFETY: LLVM wants `argc` pointers to C strings and no overview; all are given. Nobody else is in LLVM:
    // callers hold `OPTIONS` alone, or are the first.
    unsafe { llvm_sys::support::LLVMParseCommandLineOptions(count, arguments.as_ptr(), std::ptr::null()) }
}

/// Runs `generate` while the options hold.
pub(crate) fn with_options<T>(generate: impl FnOnce() -> T) -> T {
    let _shared = OPTIONS.read().unwrap_or_else(PoisonError::into_inner);
    generate()
}

/// Runs `link`, which loses the options, while nobody needs them.
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

/// Leaves out what values and blocks are called, which only text shows.
pub(crate) fn forget_names(context: &Context) {
    // SAFETY: the context is alive, and nothing in it asks for names.
    unsafe { llvm_sys::core::LLVMContextSetDiscardValueNames(context.as_ctx_ref(), 1) }
}

/// The machine that code is generated for; plain code is generated without looking at more than an
/// instruction, in a time that grows as it does.
pub(crate) fn target_machine(is_plain: bool) -> Result<TargetMachine, CodegenError> {
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

/// Optimizes a module, and of its functions leaves those of `share`.
pub(crate) fn run(module: &Module, share: Share, target: &TargetMachine) -> Result<(), CodegenError> {
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
    // Passes take it for a ban on vectors in loops too, so it comes after them.
    forbid_vectors(module);
    Ok(())
}

/// Guest code is scalar: copies through vector registers would only wait for the stores before them.
pub(crate) fn forbid_vectors(module: &Module) {
    let kind = Attribute::get_named_enum_kind_id("noimplicitfloat");
    let attribute = module.get_context().create_enum_attribute(kind, 0);
    for function in module.get_functions().filter(|function| function.count_basic_blocks() > 0) {
        function.add_attribute(AttributeLoc::Function, attribute);
    }
}

/// Lets the trap of `block` be shared with other blocks, now that no pass would change their branches for it.
fn allow_merging(block: BasicBlock) {
    let kind = Attribute::get_named_enum_kind_id("nomerge");
    let trap = block.get_first_instruction().and_then(|trap| CallSiteValue::try_from(trap).ok());
    if let Some(trap) = trap.filter(|_| block.get_instructions().count() == 2) {
        trap.remove_enum_attribute(AttributeLoc::Function, kind);
    }
}

/// Marks what is not in `share` as to be found elsewhere; stubs are in each. The shares of a module are about
/// the same work, and are the same whichever is asked for.
fn drop_bodies(module: &Module, share: Share) {
    let size = |function: &FunctionValue| -> usize {
        function.get_basic_block_iter().map(|block| block.get_instructions().count()).sum()
    };
    let is_shared = |function: &FunctionValue| {
        let name = function.get_name().to_bytes();
        function.count_basic_blocks() > 0 && !STUBS.iter().any(|stub| stub.as_bytes() == name)
    };
    let mut functions: Vec<_> = module
        .get_functions()
        .filter(is_shared)
        .enumerate()
        .map(|(index, function)| (std::cmp::Reverse(size(&function)), index, function))
        .collect();
    functions.sort_by_key(|(size, index, _)| (*size, *index));
    // The biggest first, each to the share with the least so far.
    let mut loads = vec![0; share.of as usize];
    for (std::cmp::Reverse(size), _, function) in functions {
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

/// Whether a loop of `function` was made one of vectors: nothing else marks loops, by metadata of the kind
/// `loops`.
fn has_vectors(function: FunctionValue, loops: u32) -> bool {
    let ends = function.get_basic_block_iter().filter_map(|block| block.get_terminator());
    ends.into_iter().any(|end| end.get_metadata(loops).is_some())
}

/// Generates host code.
pub(crate) fn write(
    module: &Module,
    target: &TargetMachine,
    form: FileType,
) -> Result<Vec<u8>, CodegenError> {
    let buffer = target.write_to_memory_buffer(module, form).map_err(llvm_error("code generation"))?;
    let bytes = buffer.as_slice();
    // Text comes with a zero byte at its end.
    Ok(bytes.strip_suffix(&[0]).filter(|_| form == FileType::Assembly).unwrap_or(bytes).to_vec())
}

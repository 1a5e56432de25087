//! The target machine and the passes. Nothing here depends on the machine that compiles.

use std::sync::{Once, PoisonError, RwLock};

use antares_abi::{TARGET_CPU, TARGET_FEATURES, TARGET_TRIPLE};
use inkwell::{
    OptimizationLevel,
    module::Module,
    passes::PassBuilderOptions,
    targets::{CodeModel, FileType, InitializationConfig, RelocMode, Target, TargetMachine, TargetTriple},
};

use crate::CodegenError;

/// Passes over the emitted module, found by measuring (docs/engine.md). The first GVN comes before instcombine, which
/// would change products and word arithmetic into forms that do not become `mulx` and `adc`; `reassociate` tears carry
/// chains apart. No vectorizers: guest code is scalar.
const PASSES: &str = "function(sroa,early-cse<memssa>,simplifycfg),\
     cgscc(inline),\
     globaldce,\
     function(gvn,instcombine<no-verify-fixpoint>,loop-mssa(licm),correlated-propagation,dse,adce,simplifycfg)";

static START: Once = Once::new();

/// LLVM's global options, which lld sets back to their defaults when it links: code is generated under a shared lock,
/// and linked under an exclusive one that sets them again.
static OPTIONS: RwLock<()> = RwLock::new(());

fn start() {
    START.call_once(|| {
        Target::initialize_x86(&InitializationConfig::default());
        set_options();
    });
}

fn set_options() {
    // LLVM takes carries for predictable: as branches, those of bignum code cost four times as much. Inlining what has
    // one caller gains, and what is tiny (see `emit`); the rest only grows, since guest calls pass what they need in
    // registers. Few targets are found sooner by comparing than by a table: branches are foretold better than jumps.
    // Guest code comes in an order for twice our registers, and loads must be able to pass stores to get a better one.
    let arguments = [
        c"antares".as_ptr(),
        c"-disable-lsr".as_ptr(),
        c"-x86-cmov-converter=false".as_ptr(),
        c"-inline-threshold=0".as_ptr(),
        c"-min-jump-table-entries=32".as_ptr(),
        c"-cgpp-huge-func=0".as_ptr(),
        c"-enable-aa-sched-mi".as_ptr(),
        c"-greedy-reverse-local-assignment".as_ptr(),
        c"-experimental-debug-variable-locations=false".as_ptr(),
    ];
    let count = i32::try_from(arguments.len()).unwrap_or(0);
    // SAFETY: LLVM wants `argc` pointers to C strings and no overview; all are given. Nobody else is in LLVM: callers
    // hold `OPTIONS` alone, or are the first.
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

/// The machine that code is generated for.
pub(crate) fn target_machine() -> Result<TargetMachine, CodegenError> {
    start();
    let triple = TargetTriple::create(TARGET_TRIPLE);
    let target = Target::from_triple(&triple).map_err(llvm_error("target"))?;
    let machine = target.create_target_machine(
        &triple,
        TARGET_CPU,
        TARGET_FEATURES,
        OptimizationLevel::Default,
        RelocMode::PIC,
        CodeModel::Default,
    );
    machine.ok_or_else(|| CodegenError::Llvm { step: "target machine", message: TARGET_CPU.to_owned() })
}

/// Optimizes a module.
pub(crate) fn run(module: &Module, target: &TargetMachine) -> Result<(), CodegenError> {
    let options = PassBuilderOptions::create();
    module.run_passes(PASSES, target, options).map_err(llvm_error("passes"))
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

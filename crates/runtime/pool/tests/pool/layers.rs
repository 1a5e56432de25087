//! The sandbox with one layer removed at a time: each absence is detected. The worst case is a kernel that
//! reports success without doing anything, so the self-test must not trust it.

use std::{os::unix::fs::MetadataExt, thread, time::Instant};

use antares_pool::{Layer, Pool, PoolConfig, PoolError, Sealed, Speculation, Verdict};

use crate::{
    hostile::{self, assert_works, attempt, is_lost, is_violation, start},
    kernel,
};

/// A call for which the kernel falsely reports success.
pub(crate) struct Lie {
    layer: Layer,
    call: i64,
    /// An argument and its value; `None` means any value except 0.
    only: Option<(u32, Option<i32>)>,
    /// Whether the layer only has an effect for root.
    needs_root: bool,
}

/// A lie about every use of `call`, or only with a value of an argument.
pub(crate) const fn lie(layer: Layer, call: i64, only: Option<(u32, Option<i32>)>) -> Lie {
    Lie { layer, call, only, needs_root: false }
}

const LIES: [Lie; 15] = [
    lie(Layer::Namespaces, libc::SYS_unshare, None),
    Lie { needs_root: true, ..lie(Layer::Capabilities, libc::SYS_capset, None) },
    Lie { needs_root: true, ..lie(Layer::UnprivilegedUser, libc::SYS_setresuid, None) },
    lie(Layer::ParentDeath, libc::SYS_prctl, Some((0, Some(libc::PR_SET_PDEATHSIG)))),
    lie(Layer::NotDumpable, libc::SYS_prctl, Some((0, Some(libc::PR_SET_DUMPABLE)))),
    lie(Layer::ClosedFds, libc::SYS_close_range, None),
    // Querying limits still works.
    lie(Layer::Rlimits, libc::SYS_prlimit64, Some((2, None))),
    Lie {
        needs_root: true,
        ..lie(Layer::NoNewPrivs, libc::SYS_prctl, Some((0, Some(libc::PR_SET_NO_NEW_PRIVS))))
    },
    lie(Layer::Landlock, libc::SYS_landlock_restrict_self, None),
    lie(Layer::ExecutableMemory, libc::SYS_prctl, Some((0, Some(libc::PR_SET_MDWE)))),
    lie(Layer::SealedCode, libc::SYS_mseal, None),
    // PR_SET_SPECULATION_CTRL, for both.
    lie(Layer::StoreBypass, libc::SYS_prctl, Some((0, Some(53)))),
    lie(Layer::IndirectBranches, libc::SYS_prctl, Some((0, Some(53)))),
    lie(Layer::CoreScheduling, libc::SYS_prctl, Some((0, Some(libc::PR_SCHED_CORE)))),
    lie(Layer::Seccomp, libc::SYS_seccomp, None),
];

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Runs `test` in a thread where `lie` applies, also for everything that the thread starts.
pub(crate) fn where_it_is_reported(lie: &Lie, errno: i32, test: impl FnOnce() + Send) {
    thread::scope(|scope| {
        scope.spawn(|| {
            let instruction = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
            let (argument, test_of) = match lie.only {
                None => (0, instruction(0x05, 0, 0, 0)),
                Some((argument, Some(value))) => {
                    (argument, instruction(0x15, 0, 1, u32::try_from(value).unwrap()))
                }
                // Any value except 0, by its low half, which a pointer to the stack has.
                Some((argument, None)) => (argument, instruction(0x15, 1, 0, 0)),
            };
            let mut program = [
                instruction(0x20, 0, 0, 0),
                instruction(0x15, 0, 3, u32::try_from(lie.call).unwrap()),
                instruction(0x20, 0, 0, 16 + 8 * argument),
                test_of,
                instruction(0x06, 0, 0, libc::SECCOMP_RET_ERRNO | u32::try_from(errno).unwrap()),
                instruction(0x06, 0, 0, libc::SECCOMP_RET_ALLOW),
            ];
            let filter = libc::sock_fprog { len: 6, filter: program.as_mut_ptr() };
            if !is_root() {
                // SAFETY: the arguments are numbers.
                assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
            }
            // SAFETY: the kernel copies 6 instructions from `program`, which has that many.
            let answer =
                unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) };
            assert_eq!(answer, 0);
            test();
        });
    });
}

fn stands(pool: &Pool, layer: Layer) -> bool {
    hostile::status(pool, layer).active
}

/// Whether a layer is active that root's change of user also provides.
fn stands_in_truth(pool: &Pool, layer: Layer) -> bool {
    let zygote = format!("/proc/{}", pool.stats().zygote_pid.unwrap());
    match layer {
        Layer::Capabilities => {
            std::fs::read_to_string(zygote + "/status").unwrap().contains("CapPrm:\t0000000000000000")
        }
        // Its files then belong to root and not to itself.
        Layer::NotDumpable => std::fs::metadata(zygote + "/environ").unwrap().uid() == 0,
        _ => false,
    }
}

#[test]
fn a_layer_that_is_only_said_to_stand_is_noticed() {
    let healthy = start(1, &[]).unwrap();
    // The supervisor itself creates control groups.
    assert_eq!(LIES.iter().map(|lie| lie.layer).collect::<Vec<_>>(), Layer::ALL[1..]);
    for lie in &LIES {
        let detail = hostile::status(&healthy, lie.layer).detail;
        // On an unaffected processor, requests are not made.
        let is_given = matches!(&*detail, "the processor is not affected" | "on the whole machine");
        if lie.needs_root && !is_root() || !stands(&healthy, lie.layer) || is_given {
            println!("skipped: {} is not put up here", lie.layer);
            continue;
        }
        where_it_is_reported(lie, 0, || match start(1, &[]) {
            // For a layer that every supported host has, the error names it; an optional layer is refused by
            // name.
            Err(error @ (PoolError::NotReady { .. } | PoolError::LayersMissing { .. })) => {
                println!("{}: {error}", lie.layer);
                assert!(error.to_string().contains(lie.layer.name()), "{}: {error}", lie.layer);
                assert!(lie.layer.is_required() || lie.needs_root, "{}: {error}", lie.layer);
            }
            Ok(pool) => {
                println!("{}: {:?}", lie.layer, hostile::status(&pool, lie.layer));
                if stands(&pool, lie.layer) && stands_in_truth(&pool, lie.layer) {
                    println!("{}: stands all the same", lie.layer);
                    return;
                }
                assert!(!lie.layer.is_required(), "{} is missing, and nobody notices", lie.layer);
                assert!(!stands(&pool, lie.layer), "{} is said to stand", lie.layer);
            }
            Err(other) => panic!("{}: {other}", lie.layer),
        });
    }
}

/// Compares an attempt with the complete sandbox and with a stage that lacks one layer.
#[track_caller]
fn assert_noticed(pool: &Pool, name: &str, number: u64, whole: (&str, &str), lacking: (&str, &str)) {
    for (stage, expected) in [whole, lacking] {
        let verdict = attempt(pool, stage, name, &[number]);
        let said = match &verdict {
            Verdict::Done(said) => said.clone(),
            Verdict::SandboxViolation { .. } => "violation".to_owned(),
            other => format!("{other:?}"),
        };
        assert!(said.starts_with(expected), "{name} in {stage}: {verdict:?}, expected {expected}");
    }
}

/// Removes layers that are data of a child's policy, one at a time.
#[test]
fn an_attempt_succeeds_where_the_layer_that_is_there_for_it_is_left_out() {
    let pool = start(1, &[]).unwrap();
    let getpid = libc::SYS_getpid.cast_unsigned();
    // The filters of the run stage and of the load stage, and limits of either.
    assert_noticed(&pool, "syscall", getpid, ("run", "violation"), ("run-without-seccomp", "ok"));
    assert_noticed(&pool, "memfd", 0, ("load", "violation"), ("load-without-seccomp", "ok"));
    assert_noticed(&pool, "map-huge", 0, ("load", "errno 12"), ("load-without-rlimits", "ok"));
    assert_noticed(&pool, "duplicate", 0, ("run", "violation"), ("run-without-seccomp", "errno 22"));
    assert_noticed(&pool, "duplicate", 0, ("run", "violation"), ("run-without-both", "ok"));
    assert_noticed(&pool, "descriptor", 0, ("load", "errno 9"), ("load-without-closed-fds", "ok"));
}

#[test]
fn without_sealed_code_it_can_be_changed_and_a_forbidden_call_has_no_name() {
    let pool = start(1, &[]).unwrap();
    let named = |pool: &Pool| match attempt(pool, "run", "socket", &[]) {
        Verdict::SandboxViolation { detail } => detail,
        other => panic!("{other:?}"),
    };
    if kernel::can_seal() {
        assert_eq!(named(&pool), "system call 41 (socket) outside of the policy (SIGSYS)");
        for name in ["unmap-code", "make-code-writable", "unmap-shared"] {
            assert_eq!(attempt(&pool, "run", name, &[]), Verdict::Done("errno 1".to_owned()), "{name}");
        }
    } else {
        println!("skipped: this kernel does not seal");
    }
    let absent = Lie { only: None, ..lie(Layer::SealedCode, libc::SYS_mseal, None) };
    where_it_is_reported(&absent, libc::ENOSYS, || {
        let pool = start(1, &[]).unwrap();
        assert!(!stands(&pool, Layer::SealedCode));
        assert_eq!(named(&pool), "a system call outside of the policy (SIGSYS)");
        let verdict = attempt(&pool, "run", "make-code-writable", &[]);
        assert!(matches!(verdict, Verdict::WorkerLost { .. }), "{verdict:?}");
    });
}

/// The kernel seals in the zygote, but not the library that is loaded later: that is an error, not a missing
/// layer.
#[test]
fn a_library_that_cannot_be_sealed_is_not_run() {
    if !kernel::can_seal() {
        return println!("skipped: this kernel does not seal");
    }
    let pool = start(1, &[]).unwrap();
    let library = Sealed::new("library", &std::fs::read("/lib/x86_64-linux-gnu/libm.so.6").unwrap()).unwrap();
    let elf = Sealed::new("elf", b"not an elf").unwrap();
    let run = |stage: &str| {
        let deadline = Instant::now() + hostile::PATIENCE;
        pool.run(&hostile::job(stage, "nothing", &[]), &elf, Some(&library), deadline).unwrap()
    };
    assert!(matches!(run("run"), Verdict::Done(_)));
    let Verdict::WorkerLost { detail } = run("run-unsealed") else { panic!("it was run") };
    assert!(detail.contains("sealed_code: cannot seal the loaded library"), "{detail}");
}

/// Detail of a layer that the machine supports and the configuration does not request.
const OFFERED: &str = "offered, not asked for";

/// The layers that limit speculation.
const SPECULATION: [Layer; 3] = [Layer::StoreBypass, Layer::IndirectBranches, Layer::CoreScheduling];

fn start_limited(speculation: Speculation) -> Pool {
    Pool::start(PoolConfig { speculation, ..PoolConfig::new(hostile::worker(), 1) }).unwrap()
}

#[test]
fn limits_of_speculation_are_asked_for_or_not() {
    for layer in SPECULATION {
        let asked = Speculation {
            limit_store_bypass: layer == Layer::StoreBypass,
            limit_indirect_branches: layer == Layer::IndirectBranches,
            own_core: layer == Layer::CoreScheduling,
        };
        let [unasked, asked] = [Speculation::default(), asked]
            .map(|speculation| hostile::status(&start_limited(speculation), layer).detail);
        println!("{layer}: {unasked}; asked for: {asked}");
        assert!(unasked != "for good" && unasked != "each worker", "{layer}: {unasked}");
        // A supported layer is active if and only if it is requested.
        assert_eq!(unasked == OFFERED, matches!(&*asked, "for good" | "each worker"), "{layer}: {asked}");
    }
}

/// A kernel without these limits, or without core scheduling: reported, but not a reason to fail.
#[test]
fn a_machine_without_limits_of_speculation_says_so() {
    let speculation = Speculation { limit_store_bypass: true, limit_indirect_branches: true, own_core: true };
    for (errno, expected) in [
        (libc::EINVAL, ["not in this kernel"; 3]),
        (
            libc::ENODEV,
            ["not on this processor", "not on this processor", "no core with several threads is known"],
        ),
    ] {
        // PR_GET_SPECULATION_CTRL and PR_SCHED_CORE.
        let lacks = |option, test: &mut (dyn FnMut() + Send)| {
            let lie = lie(Layer::StoreBypass, libc::SYS_prctl, Some((0, Some(option))));
            where_it_is_reported(&lie, errno, test);
        };
        lacks(52, &mut || {
            lacks(libc::PR_SCHED_CORE, &mut || {
                let pool = start_limited(speculation);
                for (layer, expected) in SPECULATION.into_iter().zip(expected) {
                    let status = hostile::status(&pool, layer);
                    assert_eq!((status.active, &*status.detail), (false, expected), "{layer}");
                }
                assert_works(&pool);
            });
        });
    }
}

/// The handler that records a call does not prevent the end of the process.
#[test]
fn who_makes_a_forbidden_call_never_comes_back() {
    let pool = start(1, &[]).unwrap();
    for (stage, name) in [
        ("load", "socket-blocked"),
        ("load", "socket-ignored"),
        ("run", "socket-without-stack"),
        ("run", "socket-after-spoiling"),
        ("compile", "socket-handled"),
    ] {
        let verdict = attempt(&pool, stage, name, &[20]);
        let is_end = is_violation(&verdict) || name == "socket-without-stack" && is_lost(&verdict, "SIGSEGV");
        assert!(is_end, "{stage} {name}: {verdict:?}");
        println!("{stage} {name}: {verdict:?}");
    }
}

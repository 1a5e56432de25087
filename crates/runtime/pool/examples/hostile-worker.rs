//! A worker that misbehaves on command, for tests of the sandbox.
//!
//! The job's arguments are the stage (`compile`, `load` or `run`), the name of an attempt, and its numbers.
//! Without a zygote's arguments, `hostile-worker ATTEMPT NUMBER...` makes the attempt without a sandbox and
//! prints the result.
#![allow(unsafe_code, clippy::unwrap_used, clippy::print_stdout, reason = "a program of the tests")]

use std::{
    arch::asm,
    fs::File,
    io::{Read, Seek},
    sync::atomic::{AtomicUsize, Ordering},
};

use antares_abi::BailoutReason;
use antares_pool::{
    Files, Worker,
    job::{RunOutcome, RunReport, RunWorkerJob, RunWorkerReport, VerifyReport},
    serve,
};
use antares_sandbox::{CALL_OFFSET, CONTROL_FD, Confinement, EXTRA_FD, Policy, SandboxError};

/// Address of the memory that is shared with the supervisor.
static SHARED: AtomicUsize = AtomicUsize::new(0);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "zygote") {
        serve(|| {
            for signal in [libc::SIGSEGV, libc::SIGBUS] {
                // The standard library's handler makes a system call before it lets the process die.
                // SAFETY: the default action is no handler.
                unsafe { libc::signal(signal, libc::SIG_DFL) };
            }
            Ok(Hostile::default())
        })
        .unwrap();
        return;
    }
    let numbers: Vec<u64> = arguments[1..].iter().map(|text| text.parse().unwrap()).collect();
    println!("{}", attempt(&arguments[0], &numbers));
}

#[derive(Default)]
struct Hostile {
    /// Whether the worker offers to do another job.
    stays: bool,
    is_locked_in: bool,
}

impl Worker for Hostile {
    type Job = RunWorkerJob;
    type Report = RunWorkerReport;

    fn confinement(&self, job: &RunWorkerJob) -> Result<Confinement, SandboxError> {
        let RunWorkerJob::Run(job) = job else { return Confinement::new(Policy::run_load()) };
        let stage = job.args.first().map(Vec::as_slice).unwrap_or_default();
        Confinement::new(match stage {
            b"compile" => Policy::compile(1 << 30, 10, 0),
            b"load-without-seccomp" => Policy { rules: Policy::zygote().rules, ..Policy::run_load() },
            b"load-without-rlimits" => Policy { limits: Vec::new(), ..Policy::run_load() },
            b"load-without-closed-fds" => {
                Policy { retained_fds: Vec::from_iter(0..256).leak(), ..Policy::run_load() }
            }
            _ => Policy::run_load(),
        })
    }

    fn work(&mut self, job: RunWorkerJob, files: &Files) -> Result<RunWorkerReport, String> {
        let RunWorkerJob::Run(job) = job else { return Ok(contents(files)) };
        let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
        let arguments: Vec<String> = job.args.iter().map(text).collect();
        let [stage, name, numbers @ ..] = arguments.as_slice() else { return Err("no attempt".to_owned()) };
        let numbers: Vec<u64> = numbers.iter().map(|text| text.parse().unwrap()).collect();
        if let Some(policy) = run_stage(stage)
            && !std::mem::replace(&mut self.is_locked_in, true)
        {
            if stage == "run-unsealed" {
                load_unsealed();
            }
            let run = Confinement::new(policy).map_err(|error| error.to_string())?;
            // SAFETY: the run stage closes nothing.
            unsafe { run.lock_in(files.zygote()) }.map_err(|error| error.to_string())?;
        }
        SHARED.store(files.shared_memory().cast::<u8>().as_ptr().expose_provenance(), Ordering::Relaxed);
        let what = match name.as_str() {
            "shared-address" => SHARED.load(Ordering::Relaxed).to_string(),
            "elf" => text(&files.elf().unwrap()),
            "flood" => flood(files, &[0x55; 4096]),
            "lie" => flood(files, &[4, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]),
            "trailing" => flood(files, &[1, 0, 0, 0, 0]),
            "spoil" => {
                spoil(files);
                "ok".to_owned()
            }
            "spoil-and-wait" => {
                spoil(files);
                behave("loop")
            }
            "echo" | "echo-late" => {
                self.stays = true;
                let start = std::time::Instant::now();
                while name == "echo-late" && start.elapsed().as_millis() < 2 {
                    std::hint::spin_loop();
                }
                numbers.iter().map(ToString::to_string).collect()
            }
            "stay" | "trapped" | "restarted" => {
                self.stays = true;
                "ok".to_owned()
            }
            name => attempt(name, &numbers),
        };
        let mut report = report(what);
        match name.as_str() {
            "trapped" => report.outcome = RunOutcome::CyclesExceeded,
            "restarted" => report.restarted = Some(BailoutReason::BadAddress),
            _ => {}
        }
        Ok(RunWorkerReport::Run(report))
    }

    fn stays(&self) -> bool {
        self.stays
    }
}

/// The policy of a complete run stage, or of one without the named layer; `None` for the other stages.
fn run_stage(stage: &str) -> Option<Policy> {
    match stage {
        "run" | "run-unsealed" => Some(Policy::run()),
        "run-without-seccomp" => Some(Policy { rules: Policy::run_load().rules, ..Policy::run() }),
        "run-without-both" => {
            Some(Policy { rules: Policy::run_load().rules, limits: Vec::new(), ..Policy::run() })
        }
        _ => None,
    }
}

/// The bytes of the files after the first, as numbers, one line each.
fn contents(files: &Files) -> RunWorkerReport {
    let text = |mut file: &File| {
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        format!("{bytes:?}\n")
    };
    RunWorkerReport::Verify(VerifyReport::Refused { path: None, detail: files.extras().map(text).collect() })
}

fn report(what: String) -> RunReport {
    RunReport {
        outcome: RunOutcome::Exit(0),
        cycles: 1,
        load_cycles: 0,
        native_cycles: 0,
        interpreted_cycles: 1,
        restarted: None,
        seen: None,
        debug: vec![what].into(),
        load_us: 0,
        run_us: 0,
        samples: None,
    }
}

/// Makes a system call; returns `ok N` or `errno N`.
fn call(number: i64, arguments: [u64; 6]) -> String {
    let [a, b, c, d, e, f] = arguments;
    let answer: i64;
    // SAFETY: the test is about the call's effects on this process, a child that ends after it.
    unsafe {
        asm!("syscall", inlateout("rax") number => answer, in("rdi") a, in("rsi") b, in("rdx") c,
             in("r10") d, in("r8") e, in("r9") f, lateout("rcx") _, lateout("r11") _);
    }
    if (-4095..0).contains(&answer) { format!("errno {}", -answer) } else { format!("ok {answer}") }
}

/// An i386 call through the gate that a filter without an architecture check misses.
fn call_i386(number: u32, argument: u32) -> String {
    let answer: i64;
    // SAFETY: as in `call`; rbx is restored.
    unsafe {
        asm!("xchg {argument}, rbx", "int 0x80", "xchg {argument}, rbx",
             argument = inout(reg) u64::from(argument) => _, inlateout("rax") i64::from(number) => answer,
             lateout("r8") _, lateout("r9") _, lateout("r10") _, lateout("r11") _);
    }
    format!("ok {answer}")
}

fn path(text: &'static std::ffi::CStr) -> u64 {
    text.as_ptr() as u64
}

fn attempt(name: &str, numbers: &[u64]) -> String {
    let at = |index: usize| numbers.get(index).copied().unwrap_or(0);
    match name {
        "syscall" => call(at(0).cast_signed(), [at(1), at(2), at(3), at(4), at(5), at(6)]),
        "syscall-ones" => call(at(0).cast_signed(), [u64::MAX; 6]),
        "syscall-fitting" => {
            let mut space = [0_u64; 512];
            let buffer = space.as_mut_ptr() as u64;
            call(at(0).cast_signed(), [4, buffer, 64, buffer, 64, 0])
        }
        "i386" => call_i386(u32::try_from(at(0)).unwrap(), 0),
        _ => known(name, at(0)),
    }
}

/// Attempts with arguments that work without a sandbox.
fn known(name: &str, number: u64) -> String {
    let at_cwd = u64::from_ne_bytes(i64::from(libc::AT_FDCWD).to_ne_bytes());
    let mut space = [0_u64; 512];
    let buffer = space.as_mut_ptr() as u64;
    let executable = (libc::PROT_READ | libc::PROT_EXEC) as u64;
    let anonymous = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
    let empty_path = libc::AT_EMPTY_PATH as u64;
    let (syscall, arguments) = match name {
        "open" => (libc::SYS_openat, [at_cwd, path(c"/etc/passwd"), 0, 0, 0, 0]),
        "open-old" => (libc::SYS_open, [path(c"/etc/passwd"), 0, 0, 0, 0, 0]),
        "open-memory" => (libc::SYS_openat, [at_cwd, path(c"/proc/1/mem"), 0, 0, 0, 0]),
        "open-elf" => (libc::SYS_openat, [at_cwd, path(c"/proc/self/fd/4"), 0, 0, 0, 0]),
        "socket" => (libc::SYS_socket, [libc::AF_INET as u64, libc::SOCK_STREAM as u64, 0, 0, 0, 0]),
        "socket-unix" => (libc::SYS_socket, [libc::AF_UNIX as u64, libc::SOCK_STREAM as u64, 0, 0, 0, 0]),
        "connect" => (libc::SYS_connect, [CONTROL_FD as u64, buffer, 16, 0, 0, 0]),
        "ptrace" => (libc::SYS_ptrace, [u64::from(libc::PTRACE_ATTACH), number, 0, 0, 0, 0]),
        "process-vm-readv" => (libc::SYS_process_vm_readv, [number, buffer, 1, buffer, 1, 0]),
        "kill" => (libc::SYS_kill, [number, 0, 0, 0, 0, 0]),
        "bpf" => (libc::SYS_bpf, [0, buffer, 128, 0, 0, 0]),
        "perf-event-open" => (libc::SYS_perf_event_open, [buffer, 0, u64::MAX, u64::MAX, 0, 0]),
        "io-uring-setup" => (libc::SYS_io_uring_setup, [1, buffer, 0, 0, 0, 0]),
        "userfaultfd" => (libc::SYS_userfaultfd, [1, 0, 0, 0, 0, 0]),
        "unshare" => (libc::SYS_unshare, [libc::CLONE_NEWUSER as u64, 0, 0, 0, 0, 0]),
        "mount" => (libc::SYS_mount, [path(c"none"), path(c"/tmp"), path(c"tmpfs"), 0, 0, 0]),
        "memfd" => (libc::SYS_memfd_create, [path(c"code"), 0, 0, 0, 0, 0]),
        "map-executable" => (libc::SYS_mmap, [0, 4096, executable, anonymous, u64::MAX, 0]),
        "map-both" => (libc::SYS_mmap, [0, 4096, executable | 2, anonymous, u64::MAX, 0]),
        "protect-executable" => (libc::SYS_mprotect, [own_page(), 4096, executable, 0, 0, 0]),
        "prctl" => (libc::SYS_prctl, [libc::PR_SET_DUMPABLE as u64, 1, 0, 0, 0, 0]),
        "keyctl" => (libc::SYS_keyctl, [0, 3, 0, 0, 0, 0]),
        "clone3" => (libc::SYS_clone3, [buffer, 88, 0, 0, 0, 0]),
        "thread" => (libc::SYS_clone, [(libc::CLONE_VM | libc::CLONE_THREAD) as u64, 0, 0, 0, 0, 0]),
        "execveat" => (libc::SYS_execveat, [4, path(c""), 0, 0, empty_path, 0]),
        "execve" => (libc::SYS_execve, [path(c"/bin/true"), 0, 0, 0, 0, 0]),
        "shm" => (libc::SYS_shmget, [0, 4096, 0o1600, 0, 0, 0]),
        "lock-record" => (libc::SYS_fcntl, [4, libc::F_OFD_SETLK as u64, buffer, 0, 0, 0]),
        "lease" => (libc::SYS_fcntl, [4, libc::F_SETLEASE as u64, libc::F_RDLCK as u64, 0, 0, 0]),
        "add-seal" => (libc::SYS_fcntl, [4, libc::F_ADD_SEALS as u64, 0, 0, 0, 0]),
        "socket-vsock" => (libc::SYS_socket, [libc::AF_VSOCK as u64, libc::SOCK_STREAM as u64, 0, 0, 0, 0]),
        "socket-pair" => {
            (libc::SYS_socketpair, [libc::AF_UNIX as u64, libc::SOCK_STREAM as u64, 0, buffer, 0, 0])
        }
        "message-queue" => (libc::SYS_msgget, [7, 0o1600, 0, 0, 0, 0]),
        "semaphore" => (libc::SYS_semget, [7, 1, 0o1600, 0, 0, 0]),
        "watch" => (libc::SYS_inotify_init1, [0; 6]),
        "name-thread" => (libc::SYS_prctl, [libc::PR_SET_NAME as u64, path(c"message"), 0, 0, 0, 0]),
        "priority" => (libc::SYS_setpriority, [0, 0, 19, 0, 0, 0]),
        "affinity" => (libc::SYS_sched_setaffinity, [0, 128, buffer, 0, 0, 0]),
        "flock" => (libc::SYS_flock, [4, libc::LOCK_EX as u64, 0, 0, 0, 0]),
        "send-elsewhere" => (libc::SYS_write, [4, buffer, 1, 0, 0, 0]),
        "control-high-bits" => (libc::SYS_write, [(1 << 32) | 3, buffer, 0, 0, 0, 0]),
        "open-raised-limit" => (libc::SYS_prlimit64, [0, u64::from(libc::RLIMIT_NOFILE), buffer, 0, 0, 0]),
        "map-huge" => (libc::SYS_mmap, [0, 8 << 30, 3, anonymous | libc::MAP_NORESERVE as u64, u64::MAX, 0]),
        "duplicate" => (libc::SYS_fcntl, [4, libc::F_DUPFD_CLOEXEC as u64, 0, 0, 0, 0]),
        "descriptor" => (libc::SYS_fcntl, [number, libc::F_GETFD as u64, 0, 0, 0, 0]),
        "unmap-code" => (libc::SYS_munmap, [own_page(), 4096, 0, 0, 0, 0]),
        "make-code-writable" => (libc::SYS_mprotect, [own_page(), 4096, 3, 0, 0, 0]),
        "unmap-shared" => (libc::SYS_munmap, [SHARED.load(Ordering::Relaxed) as u64, 4096, 0, 0, 0, 0]),
        other => return behave(other),
    };
    call(syscall, arguments)
}

/// Address of a page of this program.
fn own_page() -> u64 {
    known as *const () as u64 & !4095
}

/// Attempts that need more than one call.
fn behave(name: &str) -> String {
    match name {
        "nothing" => "ok".to_owned(),
        // As many lines as fit into the bytes of a small answer.
        "empty-lines" => "\0".repeat(400 << 10),
        // Return to the C library: the filter applies to its functions, too.
        "jump-to-libc" => {
            // SAFETY: the strings are NUL-terminated; the test is about the call's effects.
            let answer = unsafe { libc::system(c"true".as_ptr()) };
            format!("ok {answer}")
        }
        "write-own-code" | "write-constants" | "run-data" => change(name),
        "fork" => {
            // SAFETY: fork has no precondition on memory; its child ends at once.
            match unsafe { libc::fork() } {
                // SAFETY: _exit has no precondition.
                0 => unsafe { libc::_exit(0) },
                child => format!("ok {child}"),
            }
        }
        "loop" => loop {
            std::hint::spin_loop();
        },
        "hang" => call(libc::SYS_futex, [(&raw const WORD) as u64, 0, 0, 0, 0, 0]),
        "overflow" => format!("ok {}", recurse(1)),
        "panic" => panic!("out of bounds, says the machine"),
        "abort" => std::process::abort(),
        "exit" => call(libc::SYS_exit_group, [3, 0, 0, 0, 0, 0]),
        "fill-memory-files" => {
            // SAFETY: numbers that this process does not use from now on.
            (0..64).for_each(|number| _ = unsafe { libc::close(number) });
            // The kernel rejects lengths beyond the limit.
            memory_files(|file| {
                (0..40).rev().fold(0, |length, bit| {
                    // SAFETY: numbers.
                    let is_longer = unsafe { libc::ftruncate(file, length + (1 << bit)) } == 0;
                    length + if is_longer { 1 << bit } else { 0 }
                })
            })
        }
        // With resident pages.
        "take-memory-files" => memory_files(|file| {
            let mut end = 0;
            // SAFETY: numbers.
            while unsafe { libc::fallocate(file, 0, end, 1 << 20) } == 0 {
                end += 1 << 20;
            }
            end
        }),
        "allocate" => {
            let bytes = vec![1_u8; 100 << 30];
            format!("ok {}", bytes[99 << 30])
        }
        "segv" | "ill" | "fpe" | "bus" => fault(name),
        name if name.starts_with("socket-") => evade(name),
        other => panic!("there is no attempt {other}"),
    }
}

/// Creates memory files until there are no more; returns the MiB that `fill` gives them.
fn memory_files(fill: impl Fn(i32) -> i64) -> String {
    // SAFETY: numbers.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    // SAFETY: the name stays alive.
    let files = std::iter::repeat_with(|| unsafe { libc::memfd_create(c"full".as_ptr(), 0) });
    format!("ok {}", files.take_while(|file| *file >= 0).map(fill).sum::<i64>() >> 20)
}

/// Loads the job's library after the kernel stopped sealing.
fn load_unsealed() {
    let path = std::ffi::CString::new(format!("/proc/self/fd/{EXTRA_FD}")).unwrap();
    // SAFETY: the C library's own mathematics, whose constructors have no relevant effects.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    assert!(!library.is_null(), "the library is not loaded");
    let instruction = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut program = [
        instruction(0x20, 0, 0, 0),
        instruction(0x15, 0, 1, u32::try_from(libc::SYS_mseal).unwrap()),
        instruction(0x06, 0, 0, libc::SECCOMP_RET_ERRNO | u32::try_from(libc::EPERM).unwrap()),
        instruction(0x06, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: 4, filter: program.as_mut_ptr() };
    // SAFETY: the kernel copies 4 instructions from `program`, which has that many.
    let answer =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const filter) };
    assert_eq!(answer, 0);
}

/// Makes a forbidden call and tries to survive it.
fn evade(name: &str) -> String {
    extern "C" fn do_nothing(_: i32) {}
    // SAFETY: irrelevant, because this process is supposed to die here.
    unsafe {
        match name {
            "socket-blocked" => {
                let mut all = std::mem::zeroed();
                libc::sigfillset(&mut all);
                libc::sigprocmask(libc::SIG_BLOCK, &all, std::ptr::null_mut());
            }
            "socket-ignored" => _ = libc::signal(libc::SIGSYS, libc::SIG_IGN),
            "socket-handled" => _ = libc::signal(libc::SIGSYS, do_nothing as *const () as usize),
            "socket-after-spoiling" => {
                std::ptr::with_exposed_provenance_mut::<u32>(SHARED.load(Ordering::Relaxed) + CALL_OFFSET)
                    .write(8);
            }
            _ => asm!("mov rsp, 64", "mov eax, 41", "syscall", "mov eax, 231", "syscall", options(noreturn)),
        }
    }
    known("socket", 0)
}

static WORD: u32 = 0;

fn recurse(depth: u64) -> u64 {
    let space = std::hint::black_box([depth; 512]);
    if depth == u64::MAX { 0 } else { recurse(depth + 1) + space[usize::try_from(depth % 512).unwrap()] }
}

fn flood(files: &Files, bytes: &[u8]) -> String {
    loop {
        if let Err(error) = files.send_bytes(bytes) {
            return error.to_string();
        }
        if bytes.len() < 4096 {
            call(libc::SYS_exit_group, [0; 6]);
        }
    }
}

/// Accesses memory contrary to its permissions.
fn change(name: &str) -> String {
    static CONSTANT: [u8; 64] = [7; 64];
    // SAFETY: irrelevant, because this process is supposed to die here.
    unsafe {
        match name {
            "write-own-code" => {
                std::ptr::with_exposed_provenance_mut::<u8>(change as *const () as usize).write_volatile(0xc3)
            }
            "write-constants" => CONSTANT.as_ptr().cast_mut().write_volatile(1),
            _ => {
                let code = Box::new([0xc3_u8; 64]);
                let run: extern "C" fn() = std::mem::transmute(Box::into_raw(code));
                run();
            }
        }
    }
    "ok".to_owned()
}

/// Overwrites all memory that is shared with the supervisor, including positions and bells.
fn spoil(files: &Files) {
    // SAFETY: the test is about the effects on this process; the supervisor must tolerate them.
    unsafe { files.shared_memory().cast::<u8>().write_bytes(0xff, files.shared_memory().len()) };
}

fn fault(name: &str) -> String {
    // SAFETY: irrelevant, because this process is supposed to die here.
    unsafe {
        match name {
            "segv" => asm!("mov qword ptr [0], rax"),
            "ill" => asm!("ud2"),
            "fpe" => {
                asm!("xor edx, edx", "xor ecx, ecx", "mov eax, 1", "div ecx", out("eax") _, out("ecx") _, out("edx") _)
            }
            // A non-canonical stack address is a SIGBUS.
            _ => asm!("mov rsp, {}", "push rax", in(reg) 0x8000_0000_0000_0000_u64),
        }
    }
    "survived".to_owned()
}

//! Tables of the system calls that each role needs, with reasons. The list of the role that runs guests is
//! the shortest.

use crate::{Action, ChildRole, Condition, SyscallRule, SystemCall, Test};

/// Descriptor from which a child maps the memory that it shares with its supervisor; closed right after that.
pub const CONTROL_FD: i32 = 3;
/// A child's descriptor of the sealed ELF or of the transaction.
pub const ELF_FD: i32 = 4;
/// First descriptor of the sealed libraries in a run child; descriptor of the output in a compile child.
pub const EXTRA_FD: i32 = 5;
/// Maximum number of descriptors from [`EXTRA_FD`]: the programs that a transaction may have compiled.
pub const EXTRA_FDS_MAX: usize = 64;
/// One above the highest descriptor of a child.
pub(crate) const RETAINED_FDS_END: usize = 5 + EXTRA_FDS_MAX;
/// A zygote's descriptor of the socket to the supervisor: its standard input.
const ZYGOTE_SOCKET_FD: i32 = 0;
/// Flags of clone in glibc's fork; those for a thread differ.
pub const FORK_FLAGS: i32 = libc::CLONE_CHILD_SETTID | libc::CLONE_CHILD_CLEARTID | libc::SIGCHLD;

/// Numbers from standard input to the last library.
const ALL_FDS: [i32; RETAINED_FDS_END] = {
    let mut numbers = [ZYGOTE_SOCKET_FD; RETAINED_FDS_END];
    let mut index = 1;
    while index < RETAINED_FDS_END {
        numbers[index] = numbers[index - 1] + 1;
        index += 1;
    }
    numbers
};

pub(crate) fn retained_fds(role: ChildRole) -> &'static [i32] {
    match role {
        // 1 and all from 3 are occupied by /dev/null, so that the descriptors of a job get higher numbers.
        ChildRole::Zygote => &ALL_FDS,
        // 0 and 1 are /dev/null; 2 is a pipe to the supervisor for LLVM's final error output.
        ChildRole::Compile => &[0, 1, 2, CONTROL_FD, ELF_FD, EXTRA_FD],
        ChildRole::RunLoad | ChildRole::Run => ALL_FDS.split_at(3).1,
        // Two pipes to the parent, and its final error output.
        ChildRole::Hosted => ALL_FDS.split_at(3).0,
    }
}

pub(crate) fn rules(role: ChildRole) -> Vec<SyscallRule> {
    let tables: &[&[SyscallRule]] = match role {
        ChildRole::Run => &[RUN],
        ChildRole::Hosted => &[RUN, MEMORY, DATA, PIPES],
        ChildRole::RunLoad => &[RUN, MEMORY, CODE, FILES, LOAD],
        ChildRole::Compile => &[RUN, MEMORY, DATA, FILES, COMPILE, ABORT],
        // Filters stack, so a zygote needs all calls of its children, and those of their confinement.
        ChildRole::Zygote => &[RUN, MEMORY, CODE, FILES, LOAD, COMPILE, LOCK_IN, ZYGOTE],
    };
    tables.iter().flat_map(|table| table.iter().copied()).collect()
}

macro_rules! call {
    ($name:ident, $number:ident) => {
        SystemCall { number: libc::$number, name: stringify!($name) }
    };
}

const fn allow(call: SystemCall, conditions: &'static [Condition], why: &'static str) -> SyscallRule {
    SyscallRule { call, conditions, answer: Action::Allow, why }
}

const fn fail(call: SystemCall, errno: i32, why: &'static str) -> SyscallRule {
    SyscallRule { call, conditions: &[], answer: Action::Fail(errno), why }
}

/// A C int argument; compilers sign-extend it, but these values are not negative.
const fn is(argument: u8, value: i32) -> Condition {
    Condition { argument, test: Test::Is((value as i64).cast_unsigned()) }
}

const fn lacks(argument: u8, mask: i32) -> Condition {
    Condition { argument, test: Test::Lacks((mask as i64).cast_unsigned()) }
}

const WAKE_PRIVATE: i32 = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
const WAIT_PRIVATE: i32 = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;

/// System calls of a process while it runs a guest.
const RUN: &[SyscallRule] = &[
    allow(call!(futex, SYS_futex), &[is(1, libc::FUTEX_WAIT)], "waiting for the supervisor"),
    allow(call!(futex, SYS_futex), &[is(1, WAIT_PRIVATE)], "locks of the C library"),
    allow(call!(futex, SYS_futex), &[is(1, libc::FUTEX_WAKE)], "waking the supervisor"),
    allow(call!(futex, SYS_futex), &[is(1, WAKE_PRIVATE)], "locks of the C library"),
    allow(call!(rt_sigreturn, SYS_rt_sigreturn), &[], "the machine's handler of guest faults"),
    allow(call!(munmap, SYS_munmap), &[], "giving memory back"),
    allow(call!(madvise, SYS_madvise), &[is(2, libc::MADV_DONTNEED)], "clearing guest memory"),
    allow(call!(mprotect, SYS_mprotect), &[lacks(2, libc::PROT_EXEC)], "guest pages that become code"),
    allow(
        call!(pkey_mprotect, SYS_pkey_mprotect),
        &[lacks(2, libc::PROT_EXEC)],
        "cells that stay in guest memory",
    ),
    allow(call!(mincore, SYS_mincore), &[], "which guest pages were written"),
    allow(call!(sysinfo, SYS_sysinfo), &[], "whether some of them may be in swap"),
    allow(
        call!(getrusage, SYS_getrusage),
        &[is(0, libc::RUSAGE_SELF)],
        "whether pages came since the last wiping",
    ),
    allow(call!(sched_yield, SYS_sched_yield), &[], "locks of the C library"),
    allow(
        call!(clock_gettime, SYS_clock_gettime),
        &[is(0, libc::CLOCK_MONOTONIC)],
        "durations in the report, where the vdso has no clock",
    ),
    allow(call!(exit, SYS_exit), &[], "the end"),
    allow(call!(exit_group, SYS_exit_group), &[], "the end"),
];

/// Memory for data.
const MEMORY: &[SyscallRule] = &[
    allow(call!(brk, SYS_brk), &[], "heap"),
    allow(call!(mremap, SYS_mremap), &[], "growing a large allocation"),
    allow(call!(madvise, SYS_madvise), &[], "the allocator"),
];

/// Mappings that are never executable.
const DATA: &[SyscallRule] = &[allow(call!(mmap, SYS_mmap), &[lacks(2, libc::PROT_EXEC)], "heap, files")];

/// Mappings that are executable or writable, never both.
const CODE: &[SyscallRule] = &[
    allow(call!(mmap, SYS_mmap), &[lacks(2, libc::PROT_EXEC)], "heap, data of a library"),
    allow(call!(mmap, SYS_mmap), &[lacks(2, libc::PROT_WRITE)], "code of the verified library"),
];

/// Files, which are only memory files after Landlock, and library queries about them.
const FILES: &[SyscallRule] = &[
    allow(call!(openat, SYS_openat), &[], "memory files through /proc/self/fd; Landlock denies others"),
    allow(call!(read, SYS_read), &[], "memory files"),
    allow(call!(pread64, SYS_pread64), &[], "memory files"),
    allow(call!(lseek, SYS_lseek), &[], "memory files"),
    allow(call!(fstat, SYS_fstat), &[], "length of a memory file"),
    allow(call!(newfstatat, SYS_newfstatat), &[], "length of a memory file"),
    allow(call!(fcntl, SYS_fcntl), &[is(1, libc::F_GETFD)], "checks of the standard library"),
    allow(call!(fcntl, SYS_fcntl), &[is(1, libc::F_GETFL)], "checks of the standard library"),
    allow(call!(fcntl, SYS_fcntl), &[is(1, libc::F_DUPFD_CLOEXEC)], "a second handle of a memory file"),
    allow(call!(close, SYS_close), &[], "memory files"),
    allow(call!(getrandom, SYS_getrandom), &[], "seeds of hash tables and of the allocator"),
    allow(call!(rt_sigprocmask, SYS_rt_sigprocmask), &[], "signal handling"),
    allow(call!(rt_sigaction, SYS_rt_sigaction), &[], "signal handling"),
    allow(call!(sigaltstack, SYS_sigaltstack), &[], "signal handling"),
    allow(call!(getpid, SYS_getpid), &[], "signal handling"),
    allow(call!(gettid, SYS_gettid), &[], "signal handling"),
    fail(call!(statx, SYS_statx), libc::ENOSYS, "the standard library then uses fstat"),
    fail(call!(readlink, SYS_readlink), libc::ENOENT, "paths lead nowhere here"),
    fail(call!(readlinkat, SYS_readlinkat), libc::ENOENT, "paths lead nowhere here"),
    fail(call!(getcwd, SYS_getcwd), libc::ENOENT, "paths lead nowhere here"),
    fail(call!(ioctl, SYS_ioctl), libc::ENOTTY, "nothing is a terminal"),
];

/// System calls of a hosted process in addition to memory.
const PIPES: &[SyscallRule] = &[
    allow(call!(read, SYS_read), &[is(0, 0)], "its job, and what the parent answers"),
    allow(call!(ppoll, SYS_ppoll), &[], "whether a debugger wants a run to stop"),
    allow(call!(write, SYS_write), &[is(0, 1)], "what is asked of the parent, and the report"),
    allow(call!(write, SYS_write), &[is(0, 2)], "last words"),
    allow(call!(getrandom, SYS_getrandom), &[], "seeds of hash tables and of the allocator"),
    allow(call!(rt_sigprocmask, SYS_rt_sigprocmask), &[], "signal handling"),
    allow(call!(rt_sigaction, SYS_rt_sigaction), &[], "signal handling"),
    allow(call!(sigaltstack, SYS_sigaltstack), &[], "signal handling"),
    allow(call!(getpid, SYS_getpid), &[], "signal handling"),
    allow(call!(gettid, SYS_gettid), &[], "signal handling"),
    fail(call!(readlink, SYS_readlink), libc::ENOENT, "paths lead nowhere here"),
    fail(call!(getcwd, SYS_getcwd), libc::ENOENT, "paths lead nowhere here"),
    fail(call!(ioctl, SYS_ioctl), libc::ENOTTY, "nothing is a terminal"),
];

/// System calls for entering the run stage.
const LOAD: &[SyscallRule] = &[
    allow(call!(mseal, SYS_mseal), &[], "code of the loaded library stays"),
    allow(call!(prlimit64, SYS_prlimit64), &[is(0, 0)], "limits of the run stage"),
    allow(
        call!(seccomp, SYS_seccomp),
        &[is(0, libc::SECCOMP_SET_MODE_FILTER as i32)],
        "entering the run stage",
    ),
];

/// System calls of LLVM and the linker in addition to [`FILES`] and [`DATA`].
const COMPILE: &[SyscallRule] = &[
    allow(call!(memfd_create, SYS_memfd_create), &[], "the linker's input and output"),
    allow(call!(ftruncate, SYS_ftruncate), &[], "the linker's output"),
    allow(call!(fallocate, SYS_fallocate), &[], "the linker's output"),
    allow(call!(write, SYS_write), &[], "memory files, LLVM's last words"),
    allow(call!(writev, SYS_writev), &[], "memory files, the C library's last words"),
    allow(call!(pwrite64, SYS_pwrite64), &[], "memory files"),
    allow(call!(clock_gettime, SYS_clock_gettime), &[], "timers, where the vdso has no clock"),
    allow(call!(getrusage, SYS_getrusage), &[], "timers"),
    allow(call!(sched_getaffinity, SYS_sched_getaffinity), &[], "LLVM counts processors"),
    allow(call!(sysinfo, SYS_sysinfo), &[], "the C library's sort"),
    allow(call!(uname, SYS_uname), &[], "LLVM's default triple"),
    allow(call!(prlimit64, SYS_prlimit64), &[is(0, 0), is(2, 0)], "reading limits"),
    fail(call!(access, SYS_access), libc::EACCES, "no file but memory files"),
    fail(call!(faccessat, SYS_faccessat), libc::EACCES, "no file but memory files"),
    fail(call!(faccessat2, SYS_faccessat2), libc::EACCES, "no file but memory files"),
    fail(call!(unlink, SYS_unlink), libc::EACCES, "the linker removes an old output"),
    fail(call!(unlinkat, SYS_unlinkat), libc::EACCES, "the linker removes an old output"),
    fail(call!(statfs, SYS_statfs), libc::ENOSYS, "LLVM asks whether a file is local"),
    fail(call!(fstatfs, SYS_fstatfs), libc::ENOSYS, "LLVM asks whether a file is local"),
    fail(call!(clone3, SYS_clone3), libc::ENOSYS, "no threads and no processes"),
];

/// Ends the process by SIGABRT, which distinguishes a fatal LLVM error from a forbidden call.
const ABORT: &[SyscallRule] = &[allow(
    call!(tgkill, SYS_tgkill),
    &[Condition { argument: 0, test: Test::OwnProcess }, is(2, libc::SIGABRT)],
    "abort",
)];

/// System calls of a child between fork and its own filter, in the order of the confinement steps.
const LOCK_IN: &[SyscallRule] = &[
    allow(call!(dup3, SYS_dup3), &[], "descriptors of a job at their numbers"),
    allow(call!(set_robust_list, SYS_set_robust_list), &[], "the C library's fork"),
    allow(call!(getppid, SYS_getppid), &[], "whether the zygote still lives"),
    allow(call!(prctl, SYS_prctl), &[is(0, libc::PR_SET_PDEATHSIG)], "dying with the zygote"),
    allow(call!(prctl, SYS_prctl), &[is(0, libc::PR_GET_PDEATHSIG)], "dying with the zygote"),
    allow(call!(prctl, SYS_prctl), &[is(0, libc::PR_SET_DUMPABLE), is(1, 0)], "no dumps"),
    allow(call!(prctl, SYS_prctl), &[is(0, libc::PR_GET_DUMPABLE)], "no dumps"),
    allow(call!(prctl, SYS_prctl), &[is(0, libc::PR_SET_NO_NEW_PRIVS)], "no new privileges"),
    allow(call!(prctl, SYS_prctl), &[is(0, libc::PR_GET_NO_NEW_PRIVS)], "no new privileges"),
    allow(
        call!(prctl, SYS_prctl),
        &[is(0, libc::PR_SCHED_CORE), is(1, libc::PR_SCHED_CORE_CREATE)],
        "a core of its own",
    ),
    allow(
        call!(prctl, SYS_prctl),
        &[is(0, libc::PR_SCHED_CORE), is(1, libc::PR_SCHED_CORE_GET)],
        "a core of its own",
    ),
    allow(call!(close_range, SYS_close_range), &[], "closing descriptors"),
    allow(call!(prlimit64, SYS_prlimit64), &[], "limits"),
    allow(call!(landlock_create_ruleset, SYS_landlock_create_ruleset), &[], "Landlock"),
    allow(call!(landlock_restrict_self, SYS_landlock_restrict_self), &[], "Landlock"),
];

/// System calls of the zygote itself.
const ZYGOTE: &[SyscallRule] = &[
    allow(call!(poll, SYS_poll), &[], "waiting for work and for the end of children"),
    allow(call!(ppoll, SYS_ppoll), &[], "waiting for work and for the end of children"),
    allow(call!(recvmsg, SYS_recvmsg), &[is(0, ZYGOTE_SOCKET_FD)], "work"),
    allow(call!(sendmsg, SYS_sendmsg), &[is(0, ZYGOTE_SOCKET_FD)], "answers"),
    allow(call!(socketpair, SYS_socketpair), &[is(0, libc::AF_UNIX)], "a child that is there before its job"),
    allow(call!(sendmsg, SYS_sendmsg), &[is(0, CONTROL_FD)], "its job"),
    allow(call!(clone, SYS_clone), &[is(0, FORK_FLAGS)], "fork, but no threads and no namespaces"),
    allow(call!(waitid, SYS_waitid), &[], "the end of children"),
    allow(call!(pidfd_open, SYS_pidfd_open), &[], "a handle of a child for the supervisor"),
    allow(call!(pipe2, SYS_pipe2), &[], "the self-test"),
    allow(call!(tgkill, SYS_tgkill), &[is(2, libc::SIGABRT)], "abort, in children too"),
];

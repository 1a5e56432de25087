//! gdb's remote protocol over a [`Debuggee`]: its VMs are threads, numbered from 1.

mod description;
mod files;
mod monitor;
mod points;
mod resume;
mod wire;

use std::{io, num::NonZeroUsize};

use antares_hosted::job::DebugEnd;
use gdbstub::{
    common::{Signal, Tid},
    conn::ConnectionExt,
    stub::{DisconnectReason, GdbStub, GdbStubError, MultiThreadStopReason, run_blocking},
    target::{
        Target, TargetError, TargetResult,
        ext::{
            base::{
                BaseOps,
                multithread::{MultiThreadBase, MultiThreadResumeOps},
                reverse_exec::ReplayLogPosition,
            },
            breakpoints::BreakpointsOps,
            catch_syscalls::{CatchSyscallPosition, CatchSyscallsOps},
            exec_file::ExecFileOps,
            host_io::HostIoOps,
            libraries::LibrariesOps,
            monitor_cmd::MonitorCmdOps,
            target_description_xml_override::TargetDescriptionXmlOverrideOps,
            thread_extra_info::{ThreadExtraInfo, ThreadExtraInfoOps},
        },
    },
};
use gdbstub_arch::riscv::{Riscv64, reg::RiscvCoreRegs};

use wire::Buffered;
pub use wire::Wire;

use super::{Debuggee, Resume, Stop, error::DebugError};

/// Maximum malformed packets in a session.
const MALFORMED_MAX: usize = 1_000;

/// Why a session ended with an error.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The debugger cannot continue.
    #[error(transparent)]
    Debug(#[from] DebugError),
    /// The data does not follow the protocol.
    #[error("gdb's protocol: {0}")]
    Protocol(String),
}

/// Serves one gdb over `wire` until it disconnects. `has_file` says whether gdb has the script as a file.
///
/// # Errors
/// The run cannot continue, or the data does not follow the protocol.
pub fn serve(mut debuggee: Debuggee, wire: impl Wire, has_file: bool) -> Result<DebugEnd, ServeError> {
    let mut wire = Buffered::new(wire);
    debuggee.stop_at_programs(debuggee.vm());
    let files = files::Files::new(has_file);
    let listed = (debuggee.vm(), Vec::new());
    let mut session = Session { debuggee, going: None, pending: None, files, listed, by_monitor: false };
    for _ in 0..MALFORMED_MAX {
        let connection: &mut dyn ConnectionExt<Error = io::Error> = &mut wire;
        return match GdbStub::new(connection).run_blocking::<EventLoop<'_>>(&mut session) {
            Ok(DisconnectReason::TargetExited(code)) => Ok(DebugEnd::Exited(code.cast_signed())),
            Ok(DisconnectReason::TargetTerminated(_)) => Ok(DebugEnd::Failed),
            Ok(DisconnectReason::Disconnect) => Ok(DebugEnd::Left),
            Ok(DisconnectReason::Kill) => Ok(DebugEnd::Killed),
            Err(error) if error.is_connection_error() => Ok(DebugEnd::Left),
            Err(error) if error.is_target_error() => Err(failed(error)),
            // The library fails for a packet that it cannot parse, but debuggers expect an error reply.
            Err(_) => match wire.refuse() {
                Ok(()) => continue,
                Err(_) => Ok(DebugEnd::Left),
            },
        };
    }
    Err(ServeError::Protocol(format!("{MALFORMED_MAX} malformed packets")))
}

fn failed(error: GdbStubError<DebugError, io::Error>) -> ServeError {
    let text = error.to_string();
    match error.into_target_error() {
        Some(error) => error.into(),
        None => ServeError::Protocol(text),
    }
}

/// The target of gdb's commands.
struct Session {
    debuggee: Debuggee,
    /// How gdb wants to resume.
    going: Option<Resume>,
    /// The stop to report after gdb has read another program's symbols.
    pending: Option<MultiThreadStopReason<u64>>,
    files: files::Files,
    /// The VM last reported to gdb, and the addresses of its loaded code.
    listed: (u64, Vec<u64>),
    /// Whether the command `monitor` caught the system calls: older gdbs have no catchpoints.
    by_monitor: bool,
}

/// The thread of a VM.
fn thread(vm: u64) -> Tid {
    let number = usize::try_from(vm).unwrap_or(usize::MAX - 1) + 1;
    NonZeroUsize::new(number).unwrap_or(NonZeroUsize::MIN)
}

/// The VM of a thread.
fn vm_of(thread: Tid) -> u64 {
    thread.get() as u64 - 1
}

impl Target for Session {
    type Arch = Riscv64;
    type Error = DebugError;

    fn base_ops(&mut self) -> BaseOps<'_, Riscv64, DebugError> {
        BaseOps::MultiThread(self)
    }

    // Breakpoints are never written to the VM's memory.
    fn guard_rail_implicit_sw_breakpoints(&self) -> bool {
        true
    }

    fn support_target_description_xml_override(
        &mut self,
    ) -> Option<TargetDescriptionXmlOverrideOps<'_, Self>> {
        Some(self)
    }

    fn support_breakpoints(&mut self) -> Option<BreakpointsOps<'_, Self>> {
        Some(self)
    }

    fn support_catch_syscalls(&mut self) -> Option<CatchSyscallsOps<'_, Self>> {
        Some(self)
    }

    fn support_monitor_cmd(&mut self) -> Option<MonitorCmdOps<'_, Self>> {
        Some(self)
    }

    fn support_host_io(&mut self) -> Option<HostIoOps<'_, Self>> {
        Some(self)
    }

    fn support_exec_file(&mut self) -> Option<ExecFileOps<'_, Self>> {
        Some(self)
    }

    fn support_libraries(&mut self) -> Option<LibrariesOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadBase for Session {
    fn read_registers(&mut self, into: &mut RiscvCoreRegs<u64>, tid: Tid) -> TargetResult<(), Self> {
        let registers = self.debuggee.registers(vm_of(tid)).ok_or(TargetError::NonFatal)?;
        (into.x, into.pc) = (registers.general, registers.pc);
        Ok(())
    }

    /// Recorded state cannot be changed.
    fn write_registers(&mut self, _registers: &RiscvCoreRegs<u64>, _tid: Tid) -> TargetResult<(), Self> {
        Err(TargetError::NonFatal)
    }

    fn read_addrs(&mut self, start: u64, data: &mut [u8], tid: Tid) -> TargetResult<usize, Self> {
        match self.debuggee.read(vm_of(tid), start, data) {
            0 if !data.is_empty() => Err(TargetError::NonFatal),
            read => Ok(read),
        }
    }

    fn write_addrs(&mut self, _start: u64, _data: &[u8], _tid: Tid) -> TargetResult<(), Self> {
        Err(TargetError::NonFatal)
    }

    fn list_active_threads(&mut self, is_active: &mut dyn FnMut(Tid)) -> Result<(), DebugError> {
        // gdb selects the first thread.
        let current = self.debuggee.vm();
        is_active(thread(current));
        self.debuggee.vms().filter(|vm| *vm != current).for_each(|vm| is_active(thread(vm)));
        Ok(())
    }

    fn support_resume(&mut self) -> Option<MultiThreadResumeOps<'_, Self>> {
        Some(self)
    }

    fn support_thread_extra_info(&mut self) -> Option<ThreadExtraInfoOps<'_, Self>> {
        Some(self)
    }
}

impl ThreadExtraInfo for Session {
    fn thread_extra_info(&self, tid: Tid, into: &mut [u8]) -> Result<usize, DebugError> {
        let vm = vm_of(tid);
        let what = if self.debuggee.vm() == vm { "runs" } else { "waits" };
        Ok(part(format!("VM {vm}, {what}").as_bytes(), (0, into.len()), into))
    }
}

/// Copies at most `length` bytes of `bytes` from an offset on; returns their number.
fn part(bytes: &[u8], (offset, length): (u64, usize), into: &mut [u8]) -> usize {
    let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default();
    let count = rest.len().min(length).min(into.len());
    into[..count].copy_from_slice(&rest[..count]);
    count
}

/// Waits for the next event, from the script or from gdb.
struct EventLoop<'wire>(std::marker::PhantomData<&'wire ()>);

impl<'wire> run_blocking::BlockingEventLoop for EventLoop<'wire> {
    type Target = Session;
    type Connection = &'wire mut dyn ConnectionExt<Error = io::Error>;
    type StopReason = MultiThreadStopReason<u64>;

    fn wait_for_stop_reason(
        session: &mut Session,
        connection: &mut Self::Connection,
    ) -> Result<
        run_blocking::Event<Self::StopReason>,
        run_blocking::WaitForStopReasonError<DebugError, io::Error>,
    > {
        if let Some(reason) = session.pending.take() {
            return Ok(run_blocking::Event::TargetStopped(reason));
        }
        let how = session.going.unwrap_or(Resume::Continue);
        let (mut lost, mut incoming) = (None, false);
        let stop = session.debuggee.resume(how, &mut || match connection.peek() {
            Ok(byte) => {
                incoming = byte.is_some();
                incoming
            }
            Err(error) => {
                lost = Some(error);
                true
            }
        });
        if let Some(error) = lost {
            return Err(run_blocking::WaitForStopReasonError::Connection(error));
        }
        let stop = stop.map_err(run_blocking::WaitForStopReasonError::Target)?;
        if stop == Stop::Interrupted && incoming {
            let byte = connection.read().map_err(run_blocking::WaitForStopReasonError::Connection)?;
            return Ok(run_blocking::Event::IncomingData(byte));
        }
        Ok(run_blocking::Event::TargetStopped(session.stop_reason(stop)))
    }

    fn on_interrupt(session: &mut Session) -> Result<Option<Self::StopReason>, DebugError> {
        let tid = thread(session.debuggee.vm());
        Ok(Some(MultiThreadStopReason::SignalWithThread { tid, signal: Signal::SIGINT }))
    }
}

impl Session {
    /// The reply for `stop`: first for changed symbols, if there are any.
    fn stop_reason(&mut self, stop: Stop) -> MultiThreadStopReason<u64> {
        let tid = self.thread_of(&stop);
        let is_end = matches!(stop, Stop::Exited(_) | Stop::Failed { again: true, .. });
        let is_reported = matches!(stop, Stop::Program(_));
        let reason = self.reason(stop);
        let vm = vm_of(tid);
        let loaded = self.debuggee.loaded(vm).iter().map(|file| file.address).collect();
        let is_new = loaded != self.listed.1 || !self.debuggee.is_known_program(vm);
        if is_end || !is_new && !is_reported {
            return reason;
        }
        self.listed = (vm, loaded);
        self.debuggee.stop_at_programs(vm);
        self.pending = (!is_reported).then_some(reason);
        MultiThreadStopReason::Library(tid)
    }

    /// The thread of `stop`.
    fn thread_of(&self, stop: &Stop) -> Tid {
        match self.going {
            Some(Resume::Step(vm) | Resume::StepRange(vm, ..) | Resume::StepBack(vm))
                if *stop == Stop::Stepped =>
            {
                thread(vm)
            }
            _ => thread(self.debuggee.vm()),
        }
    }

    fn reason(&mut self, stop: Stop) -> MultiThreadStopReason<u64> {
        let tid = self.thread_of(&stop);
        let signal = |signal| MultiThreadStopReason::SignalWithThread { tid, signal };
        match stop {
            Stop::Stepped | Stop::Cycles => signal(Signal::SIGTRAP),
            Stop::Breakpoint { address } => {
                let pc = self.debuggee.registers(self.debuggee.vm()).map(|registers| registers.pc);
                match pc == Some(address) {
                    true => MultiThreadStopReason::SwBreak(tid),
                    false => signal(Signal::SIGTRAP),
                }
            }
            Stop::Watch(watch) => {
                MultiThreadStopReason::Watch { tid, kind: watch.access, addr: watch.address }
            }
            Stop::Program(_) => MultiThreadStopReason::Library(tid),
            Stop::Call(_) if self.by_monitor => signal(Signal::SIGTRAP),
            Stop::Call(number) => MultiThreadStopReason::CatchSyscall {
                tid: Some(tid),
                number,
                position: CatchSyscallPosition::Entry,
            },
            Stop::FailingExit(_) => signal(Signal::SIGABRT),
            Stop::Exited(code) => MultiThreadStopReason::Exited(code.cast_unsigned()),
            Stop::Failed { fault, again: true, .. } => MultiThreadStopReason::Terminated(fault),
            Stop::Failed { fault, .. } => signal(fault),
            Stop::Beginning => {
                MultiThreadStopReason::ReplayLog { tid: Some(tid), pos: ReplayLogPosition::Begin }
            }
            Stop::Interrupted => signal(Signal::SIGINT),
        }
    }
}

//! Patches that install our machine in ckb-script's tests.

use super::patch::Patch;

/// The manifest gets the hook, the default machine becomes ours, and a script group whose native code bails
/// out restarts in the interpreter.
pub(super) const PATCHES: [Patch; 5] = [
    Patch {
        file: "script/Cargo.toml",
        from: "[dependencies.byteorder]\n",
        to: "[dependencies.antares-upstream-hook]\npath = \"../hook\"\n\n[dependencies.byteorder]\n",
    },
    Patch {
        file: "script/src/types.rs",
        from: "pub type Machine = ckb_vm::machine::asm::AsmMachine;",
        to: "pub type Machine = antares_upstream_hook::NativeMachine;",
    },
    Patch {
        file: "script/src/scheduler.rs",
        from: "    message_box: Arc<Mutex<Vec<Message>>>,\n}\n\nimpl<DL, V, M> Scheduler<DL, V, M>\n",
        to: "    message_box: Arc<Mutex<Vec<Message>>>,
    session: Arc<antares_upstream_hook::MachineSession>,
    /// Pauses that the caller has seen.
    pauses: u64,
    is_replay: bool,
}

impl<DL, V, M> Scheduler<DL, V, M>\n",
    },
    Patch {
        file: "script/src/scheduler.rs",
        from: "            root_vm_args: Vec::new(),\n        }\n    }\n",
        to: "            root_vm_args: Vec::new(),
            session: antares_upstream_hook::session(),
            pauses: 0,
            is_replay: false,
        }
    }\n",
    },
    Patch {
        file: "script/src/scheduler.rs",
        from: "    pub fn run(&mut self, mode: RunMode) -> Result<TerminatedResult, Error> {\n",
        to: RUN,
    },
];

/// `Scheduler::run`, and the beginning of the original.
const RUN: &str = "    pub fn run(&mut self, mode: RunMode) -> Result<TerminatedResult, Error> {
        let (pause, limit) = match mode {
            RunMode::LimitCycles(limit) => (None, limit),
            RunMode::Pause(pause, limit) => (Some(pause), limit),
        };
        let mode = || match &pause {
            None => RunMode::LimitCycles(limit),
            Some(pause) => RunMode::Pause(pause.clone(), limit),
        };
        let session = Arc::clone(&self.session);
        let mut result = session.enter(|| self.run_once(mode()));
        if !self.is_replay && session.restarted().is_some() {
            session.interpret();
            let root_vm_args = std::mem::take(&mut self.root_vm_args);
            let fresh = Self::new(self.sg_data.clone(), self.syscall_generator, self.syscall_context.clone());
            let pauses = self.pauses;
            *self = Self { root_vm_args, session: Arc::clone(&session), pauses, is_replay: true, ..fresh };
            result = session.enter(|| self.run_once(mode()));
            // The caller has seen the first pauses before.
            let is_interrupted = || pause.as_ref().is_some_and(|pause| pause.has_interrupted());
            for _ in 0..pauses {
                if !matches!(result, Err(Error::Pause)) || is_interrupted() {
                    break;
                }
                result = session.enter(|| self.run_once(mode()));
            }
        }
        match result {
            Err(Error::Pause) => self.pauses += 1,
            _ => antares_upstream_hook::report(&session),
        }
        result
    }

    fn run_once(&mut self, mode: RunMode) -> Result<TerminatedResult, Error> {
";

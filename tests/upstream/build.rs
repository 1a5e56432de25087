//! Copies the source of ckb-script, and of the part of its test utilities that needs no database, to the
//! output folder, and puts our machine in place of the stock one.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

#[allow(dead_code, unreachable_pub, reason = "a module of the guests, which call the rest")]
#[path = "../guests/src/crates.rs"]
mod crates;

/// A text to replace, which must occur `times`, so that changes upstream are noticed.
struct Patch<'a> {
    from: &'a str,
    to: &'a str,
    times: usize,
}

/// `Scheduler` with a session. A script group whose native code bails out restarts in the interpreter.
const SCHEDULER: [Patch<'_>; 3] = [
    Patch {
        from: "    message_box: Arc<Mutex<Vec<Message>>>,\n}\n\nimpl<DL, V, M> Scheduler<DL, V, M>\n",
        to: "    message_box: Arc<Mutex<Vec<Message>>>,
    session: Arc<crate::hook::MachineSession>,
    /// Pauses that the caller has seen.
    pauses: u64,
    is_replay: bool,
}

impl<DL, V, M> Scheduler<DL, V, M>\n",
        times: 1,
    },
    Patch {
        from: "            root_vm_args: Vec::new(),\n        }\n    }\n",
        to: "            root_vm_args: Vec::new(),
            session: crate::hook::session(),
            pauses: 0,
            is_replay: false,
        }
    }\n",
        times: 1,
    },
    Patch {
        from: "    pub fn run(&mut self, mode: RunMode) -> Result<TerminatedResult, Error> {\n",
        to: include_str!("run.rs.in"),
        times: 1,
    },
];

fn main() {
    let output = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let suite = crates::of_workspace("ckb-script").expect("the crate is a dependency");
    let utilities = crates::apart("ckb-test-chain-utils").expect("the crate is a dependency");
    copy(&suite.join("src"), &output.join("src"));
    fs::copy(utilities.join("src/chain.rs"), output.join("chain.rs")).expect("copied");
    let data = format!("{}/", suite.join("testdata").display());
    let [suite, utilities] = [suite, utilities].map(|folder| format!("{:?}", folder.display().to_string()));
    let manifest = |to, times| Patch { from: "env!(\"CARGO_MANIFEST_DIR\")", to, times };
    let patch = |file: &str, patches: &[Patch<'_>]| apply(&output.join(file), patches);
    // Included files have no comments on the whole.
    patch("src/lib.rs", &[Patch { from: "//! CKB", to: "// CKB", times: 1 }]);
    let machine = "pub type Machine = ckb_vm::machine::asm::AsmMachine;";
    patch(
        "src/types.rs",
        &[Patch { from: machine, to: "pub type Machine = crate::hook::NativeMachine;", times: 1 }],
    );
    patch("src/scheduler.rs", &SCHEDULER);
    patch("src/verify/tests/utils.rs", &[manifest(&suite, 2)]);
    patch(
        "chain.rs",
        &[manifest(&utilities, 1), Patch { from: "../../script/testdata/", to: &data, times: 2 }],
    );
    let latest = "src/verify/tests/ckb_latest/features_since_v2023.rs";
    patch(latest, &["../../../../testdata/", "./testdata/"].map(|from| Patch { from, to: &data, times: 1 }));
    patch(latest, &[Patch { from: "use rand::{", to: "use rand_0_8::{", times: 1 }]);
    println!("cargo::rustc-check-cfg=cfg(has_asm)");
    println!("cargo::rustc-cfg=has_asm");
    for file in ["build.rs", "run.rs.in", "Cargo.toml", "../published/Cargo.toml", "../../Cargo.lock"] {
        println!("cargo::rerun-if-changed={file}");
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("it has a name"));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).expect("copied");
        }
    }
}

fn apply(path: &Path, patches: &[Patch<'_>]) {
    let mut text = fs::read_to_string(path).expect("the file is there");
    for Patch { from, to, times } in patches {
        assert_eq!(text.matches(from).count(), *times, "{}: {from:?}", path.display());
        text = text.replace(from, to);
    }
    fs::write(path, text).expect("written");
}

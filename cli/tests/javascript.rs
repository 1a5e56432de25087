//! Failing JavaScript in ckb-js-vm: its stack and original sources. `javascript/` has a bundle by esbuild
//! with its map; its package.json has the build command.

use std::{fs, path::Path, process::Command};

use antares_guests::js_vm;
use antares_pool::worker_path;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::command::{command, ends_with, json as parsed};

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/tests/javascript");

/// Path of the map relative to the folder of a test.
const MAP: &str = "dist/index.js.map";

const VERIFY: [&str; 3] = ["verify", "--tx", "tx.json"];

/// The stack without a map: bytecode has no file names.
const BUNDLED: &str = "  JavaScript stack: Error: cell 0 has 0 bytes of data, an amount takes 16
     0 AmountError
     1 readAmount (bundle:11)
     2 sum (bundle:19)
     3 main (bundle:23)
     4 <anonymous> (bundle:25)
";

/// The same with its map.
const MAPPED: &str = "  JavaScript stack: Error: cell 0 has 0 bytes of data, an amount takes 16
     0 AmountError
     1 readAmount (src/amounts.ts:8)
     2 sum (src/index.ts:6)
     3 main (src/index.ts:11)
     4 <anonymous> (src/index.ts:14)
        5 | export function readAmount(index: number, source: bigint): bigint {
        6 |   const data = bindings.loadCellData(index, source);
        7 |   if (data.byteLength < 16) {
  >     8 |     throw new AmountError(`cell ${index} has ${data.byteLength} bytes of data, an amount takes 16`);
        9 |   }
       10 |   return new DataView(data).getBigUint64(0, true);
       11 | }
";

/// Standard output and standard error.
#[track_caller]
fn antares(folder: &TempDir, args: &[&str], status: i32) -> (String, String) {
    ends_with(status, &mut command(folder.path(), args))
}

fn with<'a>(words: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [words, more].concat()
}

/// A folder with ckb-js-vm as the lock of a transaction, the bundle as bytecode in a cell, and its map. None
/// if ckb-js-vm is unavailable.
fn folder() -> Option<TempDir> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("ckb-js-vm"), js_vm().unwrap()?).unwrap();
    fs::create_dir(folder.path().join("dist")).unwrap();
    for name in ["tx.json", "dist/index.js", MAP] {
        fs::copy(Path::new(FILES).join(name), folder.path().join(name)).unwrap();
    }
    let compile = ["--read-file", "dist/index.js", "--bin", "ckb-js-vm", "--", "-c", "index.bc"];
    let mut debugger = Command::new(worker_path("ckb-debugger").unwrap());
    ends_with(0, debugger.current_dir(folder.path()).args(compile));
    Some(folder)
}

#[test]
fn the_stack_of_a_bundle_leads_to_typescript() {
    let Some(folder) = folder() else { return };
    let (bare, errors) = antares(&folder, &VERIFY, 1);
    assert!(bare.contains(BUNDLED) && errors.is_empty(), "{bare}\n{errors}");
    // Short and complete; debug output is unchanged.
    for more in [&["--source-map", MAP][..], &["--explain", "--source-map", MAP]] {
        let (text, errors) = antares(&folder, &with(&VERIFY, more), 1);
        assert!(text.contains(MAPPED) && errors.is_empty(), "{text}\n{errors}");
        assert!(text.contains("|     at AmountError ()\n    at readAmount (:11)\n"), "{text}");
    }
    // A map given by another path resolves its sources relative to itself.
    let map = folder.path().canonicalize().unwrap().join(MAP);
    let (text, _) = antares(&folder, &with(&VERIFY, &["--source-map", &format!("={}", map.display())]), 1);
    assert!(text.contains(MAPPED), "{text}");
}

#[test]
fn tools_read_the_same() {
    let Some(folder) = folder() else { return };
    let reported = |more: &[&str]| -> Value {
        let (text, _) = antares(&folder, &with(&VERIFY, &with(&["--json", "--explain"], more)), 1);
        parsed(&text)["diagnosis"]["javascript"].take()
    };
    let stack = &reported(&["--source-map", MAP])[0];
    assert_eq!(stack["thrown"], "Error: cell 0 has 0 bytes of data, an amount takes 16");
    assert_eq!(stack["left_out"], 0);
    let original = json!({"file": "src/amounts.ts", "line": 8, "column": null});
    let frame = json!({"function": "readAmount", "file": null, "line": 11, "column": null, "is_native": false,
                       "original": original});
    assert_eq!(stack["frames"][1], frame);
    let text = stack["source"][3]["text"].as_str().unwrap();
    assert!(text.contains("throw new AmountError"), "{text}");
    let bare = &reported(&[])[0];
    assert_eq!((&bare["frames"][1]["original"], &bare["source"]), (&Value::Null, &json!([])));
}

/// Sources that the map does not contain are read from the command's folder.
#[test]
fn sources_beside_the_map_are_read() {
    let Some(folder) = folder() else { return };
    let map = fs::read_to_string(folder.path().join(MAP)).unwrap();
    let mut map = parsed(&map);
    map.as_object_mut().unwrap().remove("sourcesContent").unwrap();
    fs::write(folder.path().join(MAP), map.to_string()).unwrap();
    let verify = with(&VERIFY, &["--source-map", MAP]);
    let (text, _) = antares(&folder, &verify, 1);
    assert!(text.contains("readAmount (src/amounts.ts:8)") && !text.contains("  >  "), "{text}");
    fs::create_dir(folder.path().join("src")).unwrap();
    fs::copy(Path::new(FILES).join("src/amounts.ts"), folder.path().join("src/amounts.ts")).unwrap();
    assert!(antares(&folder, &verify, 1).0.contains(MAPPED));
}

#[test]
fn maps_that_fit_nothing_say_so() {
    let Some(folder) = folder() else { return };
    let (text, errors) = antares(&folder, &with(&VERIFY, &["--source-map", "other.js=dist/index.js.map"]), 1);
    assert!(text.contains(BUNDLED), "{text}");
    let reason = "index.js.map: no call is of its bundle; the calls' files are [\"\"]";
    assert!(errors.contains(reason), "{errors}");
    // A separate script that is not in the map.
    let code = "function no() { throw new Error('no'); }\n\nno();";
    let words = ["run", "ckb-js-vm", "--source-map", MAP, "--", "-e", code];
    let (text, errors) = antares(&folder, &words, 1);
    assert!(text.contains("JavaScript stack: Error: no\n     0 no (<cmdline>)\n     1 "), "{text}");
    let reason = "index.js.map: no line of the stack is in the map: is it of another build?";
    assert!(errors.contains(reason), "{errors}");
    // A script that prints no stack.
    let words = ["run", "ckb-js-vm", "--source-map", MAP, "--", "-e", "throw 5;"];
    let (text, errors) = antares(&folder, &words, 1);
    assert!(!text.contains("JavaScript stack"), "{text}");
    assert!(errors.contains("index.js.map: no stack of JavaScript was printed"), "{errors}");
}

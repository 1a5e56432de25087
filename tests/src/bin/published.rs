//! Exports published scripts, each with a transaction that it accepts or with its arguments: `published
//! FOLDER`.
//!
//! Prints one line for each: its name, the file with the script, the transaction or `-`, then the file with
//! its argument.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a command line tool")]

use std::{env, fs, path::Path};

use antares_tests::{
    guests::{debugger_examples, js_vm, source_folder},
    locks,
};
use antares_transaction::{Mock, ScriptLocation};
use anyhow::{Context, Result, ensure};

/// Programs in JavaScript for ckb-js-vm.
const PROGRAMS: [&str; 3] = ["calls", "text", "numbers"];

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    ensure!(arguments.len() == 1, "usage: published FOLDER");
    let folder = Path::new(&arguments[0]);
    fs::create_dir_all(folder)?;
    let mock_tx = fs::read(debugger_examples()?.join("mock_tx.json"))?;
    let mock = Mock::from_json(&mock_tx)?;
    let hash = mock.script_hash(ScriptLocation::InputLock(0)).context("the transaction has no input")?;
    let code = mock.code_of(&hash).context("the transaction has no code of its lock")?;
    let lock = mock.as_ckb().mock_info.cell_deps[code].data.clone();
    write(folder, "default lock, mock_tx.json", &lock, &mock_tx)?;
    for passing in locks::passing()? {
        let name = format!("{}, {}", passing.build.name, passing.what);
        write(folder, &name, &passing.build.elf()?, &passing.mock.to_json())?;
    }
    let Some(elf) = js_vm()? else { return Ok(()) };
    fs::write(folder.join("ckb-js-vm.elf"), elf)?;
    for program in PROGRAMS {
        let source = source_folder().join("javascript").join(program).with_extension("js");
        println!("ckb-js-vm, {program}\tckb-js-vm.elf\t-\t{}", source.display());
    }
    Ok(())
}

/// Writes a script and its transaction, and prints their paths.
fn write(folder: &Path, name: &str, elf: &[u8], transaction: &[u8]) -> Result<()> {
    let plain: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    fs::write(folder.join(format!("{plain}.elf")), elf)?;
    fs::write(folder.join(format!("{plain}.json")), transaction)?;
    println!("{name}\t{plain}.elf\t{plain}.json");
    Ok(())
}

//! `antares new`: a folder with a script, its build, its tests and a workflow for CI.

use std::{fs, io, path::Path};

use anyhow::Context as _;

use crate::{args::new::NewArgs, failure::Failure, output};

/// Files of a folder of `examples/scripts`, and the workflow that all share.
macro_rules! template {
    ($folder:literal: $($name:literal)*) => {
        &[
            $(($name, include_str!(concat!("../../../examples/scripts/", $folder, "/", $name))),)*
            (".github/workflows/test.yml", include_str!("../../../examples/scripts/test.yml")),
        ]
    };
}

/// Paths and texts.
type Template = &'static [(&'static str, &'static str)];

const C: Template = template!("c": ".gitignore" "Makefile" "errors.txt" "lock.c" "opens.toml" "refused.toml");
const RUST: Template = template!("rust": ".cargo/config.toml" ".gitignore" "Cargo.lock" "Cargo.toml" "Makefile"
    "errors.txt" "src/main.rs" "opens.toml" "refused.toml");
const JS: Template =
    template!("js": ".gitignore" "Makefile" "errors.txt" "src/lock.js" "opens.toml" "refused.toml");

pub(crate) fn new(args: &NewArgs) -> Result<(), Failure> {
    let template = match (args.c, args.rust) {
        (true, _) => C,
        (_, true) => RUST,
        _ => JS,
    };
    let folder = &args.folder;
    write(folder, template)
        .with_context(|| format!("cannot write {}", folder.display()))
        .map_err(Failure::Usage)?;
    output::print(format!("{0}: next, cd {0} && antares test\n", folder.display()).as_bytes())
}

fn write(folder: &Path, template: Template) -> io::Result<()> {
    fs::create_dir(folder)?;
    for (name, text) in template {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::write(path, text)?;
    }
    Ok(())
}

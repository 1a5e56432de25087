//! The line that a diagnosis names first, over compilers and flags.

use std::{collections::BTreeMap, fs, process::Command};

use antares_diagnosis::{Diagnosis, ErrorCodes};
use antares_tests::guests::{self, BUILDS, Refusing, refusals, refusing};
use bytes::Bytes;

use crate::diagnoses::{alone, watch};

fn diagnosis(case: &Refusing, elf: &Bytes) -> Diagnosis {
    alone(&watch(&case.case, elf, &[], 2, Some(0)), elf, &ErrorCodes::default())
}

fn is_right(case: &Refusing, diagnosis: &Diagnosis) -> bool {
    let place = &diagnosis.place[0];
    let is_file = place.file.as_ref().is_some_and(|file| file.ends_with(case.file));
    is_file && place.line.is_some_and(|line| case.lines.contains(&line))
}

#[test]
fn the_first_line_is_the_condition_in_the_author_s_code() {
    let (mut wrong, mut counts) = (String::new(), BTreeMap::<&str, [usize; 2]>::new());
    for (compiler, flags) in BUILDS {
        for case in refusals(compiler).unwrap() {
            let reported = diagnosis(&case, &Bytes::from(refusing(&case, compiler, flags).unwrap()));
            let level = flags[0].trim_start_matches("-Copt-level=").trim_start_matches("-O");
            let [right, all] = counts.entry(level).or_default();
            (*right, *all) = (*right + usize::from(is_right(&case, &reported)), *all + 1);
            if !is_right(&case, &reported) {
                let (name, lines) = (&case.case, &case.lines);
                wrong += &format!(
                    "# {compiler} {} {name}: none of {lines:?}\n{}",
                    flags.join(" "),
                    reported.to_short_text()
                );
            }
        }
    }
    println!("{wrong}{counts:?}");
    let [right, all] = counts.values().fold([0, 0], |sum, level| [sum[0] + level[0], sum[1] + level[1]]);
    assert!(all > 200 && right * 100 >= all * 95, "{right} of {all}");
    assert!(counts["s"][0] * 100 >= counts["s"][1] * 95, "{counts:?}");
}

#[test]
fn compressed_lines_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let case = &refusals("gcc").unwrap()[0];
    fs::write(path("script"), refusing(case, "gcc", &["-Os"]).unwrap()).unwrap();
    for by in ["zlib", "zstd"] {
        let mut objcopy = Command::new("llvm-objcopy-22");
        objcopy.arg(format!("--compress-debug-sections={by}")).args([path("script"), path(by)]);
        guests::crates::run(&mut objcopy).unwrap();
        let elf = Bytes::from(fs::read(path(by)).unwrap());
        assert!(is_right(case, &diagnosis(case, &elf)), "{by}");
    }
}

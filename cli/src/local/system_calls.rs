//! Explains a system call that had no handler, and names an environment that has one.

use antares_profile::syscall_name;

/// Calls of ckb-debugger, and of Linux programs that it supports.
const DEBUGGER: [(u64, &str); 21] = [
    (57, "close"),
    (62, "lseek"),
    (63, "read"),
    (64, "write"),
    (66, "writev"),
    (80, "fstat"),
    (4097, "dump"),
    (9000, "read of --read-file"),
    (9001, "time"),
    (9002, "random"),
    (9003, "fopen"),
    (9004, "freopen"),
    (9005, "fread"),
    (9006, "feof"),
    (9007, "ferror"),
    (9008, "fgetc"),
    (9009, "fclose"),
    (9010, "ftell"),
    (9011, "fseek"),
    (9012, "fwrite"),
    (9013, "write of a file"),
];

/// The environment of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunLocation {
    /// Without a transaction.
    Alone,
    /// In a transaction.
    Transaction,
}

/// Explains call `number` of a script that ended at it.
pub(crate) fn explain(number: u64, place: RunLocation) -> String {
    if let Some((_, name)) = DEBUGGER.iter().find(|(known, _)| *known == number) {
        return format!(
            "{number} is {name} of ckb-debugger, which is not on the chain: antares debugger --bin SCRIPT serves it"
        );
    }
    match (syscall_name(number), place) {
        (Some(name), RunLocation::Alone) => format!(
            "{number} is {name}, which needs a transaction: antares run --as-lock SCRIPT, or antares verify --tx FILE"
        ),
        (Some(name), RunLocation::Transaction) => {
            format!("{number} is {name}, which the VM version of the script does not have")
        }
        (None, _) => format!("{number} is no system call of CKB"),
    }
}

/// The number in the text of an error `InvalidEcall`.
pub(crate) fn number_in(detail: &str) -> Option<u64> {
    let (_, rest) = detail.split_once("InvalidEcall(")?;
    rest.split_once(')')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_named_with_who_serves_them() {
        let alone = explain(2052, RunLocation::Alone);
        assert!(alone.contains("load_script") && alone.contains("--as-lock"), "{alone}");
        assert!(explain(9003, RunLocation::Transaction).contains("antares debugger"));
        assert!(explain(2601, RunLocation::Transaction).contains("spawn"));
        assert!(explain(1, RunLocation::Alone).contains("no system call"));
        assert_eq!(number_in("VM Internal Error: InvalidEcall(2178)"), Some(2178));
        assert_eq!(number_in("VM Internal Error: MemOutOfBound(1, Memory)"), None);
    }
}

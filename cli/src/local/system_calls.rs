//! Explains a system call that had no handler, and names an environment that has one.

/// Calls of ckb-script, by number; unlisted numbers from 2041 on are unassigned.
const CKB: [(u64, &str); 26] = [
    (2041, "vm_version"),
    (2042, "current_cycles"),
    (2043, "exec"),
    (2051, "load_transaction"),
    (2052, "load_script"),
    (2061, "load_tx_hash"),
    (2062, "load_script_hash"),
    (2071, "load_cell"),
    (2072, "load_header"),
    (2073, "load_input"),
    (2074, "load_witness"),
    (2081, "load_cell_by_field"),
    (2082, "load_header_by_field"),
    (2083, "load_input_by_field"),
    (2091, "load_cell_data_as_code"),
    (2092, "load_cell_data"),
    (2104, "load_block_extension"),
    (2177, "debug"),
    (2601, "spawn"),
    (2602, "wait"),
    (2603, "process_id"),
    (2604, "pipe"),
    (2605, "write"),
    (2606, "read"),
    (2607, "inherited_fd"),
    (2608, "close"),
];

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
    let named = |table: &[(u64, &'static str)]| {
        table.iter().find_map(|(known, name)| (*known == number).then_some(*name))
    };
    if let Some(name) = named(&DEBUGGER) {
        return format!(
            "{number} is {name} of ckb-debugger, which is not on the chain: antares debugger --bin SCRIPT serves it"
        );
    }
    match (named(&CKB), place) {
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

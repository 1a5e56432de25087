//! Detects formats that other tools write instead of a mock transaction, and advises how to convert them.

/// Advice for the value at `path`, for which the parser reports `detail`.
pub(crate) fn of_shape(text: &[u8], path: &str, detail: &str) -> Option<&'static str> {
    let is_header = path.strip_prefix("mock_info.header_deps[").is_some_and(|rest| rest.ends_with(']'));
    if is_header && detail.starts_with("invalid type: string") {
        return Some(
            "this is the hash of a header, as offckb writes it, and the whole header is needed: take the \
             transaction anew with `antares dump --tx-hash HASH --rpc URL`, or put the answer to get_header here",
        );
    }
    if detail.starts_with("invalid type: integer") {
        return Some("numbers are texts of hexadecimal digits here, such as \"0x1f\"");
    }
    let has = |key: &[u8]| text.windows(key.len()).any(|part| part == key);
    if has(b"\"mockInfo\"") || has(b"\"cellDeps\"") || has(b"\"txHash\"") {
        return Some(
            "keys are written as nodes have them, mock_info, cell_deps and tx_hash, not as CCC and Lumos have \
             them in memory",
        );
    }
    None
}

/// Advice for a text that is not JSON.
pub(crate) fn of_syntax(text: &[u8]) -> Option<&'static str> {
    let start = text.trim_ascii_start();
    let is_yaml = [&b"---"[..], b"mock_info:", b"tx:"].iter().any(|yaml| start.starts_with(yaml));
    is_yaml.then_some("this is YAML, and JSON is needed: ckb-cli writes it with --output-format json")
}

//! A transaction without its cells, in the formats of nodes and wallets.

use ckb_types::{H256, core::TransactionView, packed::Transaction, prelude::*};
use serde_json::Value;

use crate::{check, error::hex, format::BareFormat, limits::BARE_BYTES_MAX, shapes::TransactionShape};

/// Why a text is not a transaction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BareError {
    /// Longer than any transaction.
    #[error("the transaction has {0} bytes, at most {BARE_BYTES_MAX} are accepted")]
    TooLong(usize),
    /// Neither JSON nor molecule.
    #[error("this is neither JSON nor hexadecimal digits behind 0x: {0}")]
    Syntax(String),
    /// JSON, but no transaction.
    #[error("{path}{detail}")]
    Shape {
        /// The path, with a colon.
        path: String,
        /// What was expected.
        detail: String,
    },
    /// JSON of an unrelated kind.
    #[error("no transaction: there is none of the keys transaction, inputs and outputs")]
    Foreign,
    /// Molecule, but no transaction, or one with values that nothing has.
    #[error("no transaction: {0}")]
    Malformed(String),
    /// The file says another hash.
    #[error("the transaction has the hash {found}, but the file says {said}")]
    OtherHash {
        /// The computed hash.
        found: String,
        /// The hash in the file.
        said: String,
    },
    /// It already has its cells.
    #[error("this is a mock transaction: it has its cells already")]
    Mock,
}

/// A transaction without its cells.
#[derive(Clone, Debug)]
pub struct BareTransaction(pub TransactionView);

impl BareTransaction {
    /// Reads JSON in this format, also wrapped in `{"transaction": ...}` as by ckb-cli and nodes; molecule's
    /// encoding; or its hexadecimal digits.
    ///
    /// # Errors
    /// The problem and its location.
    pub fn read(text: &[u8], format: BareFormat) -> Result<Self, BareError> {
        if text.len() > BARE_BYTES_MAX {
            return Err(BareError::TooLong(text.len()));
        }
        // Molecule's tables start with their length, which no text this short matches.
        if text.first_chunk().is_some_and(|length| u32::from_le_bytes(*length) as usize == text.len()) {
            return Self::of_molecule(text);
        }
        let text = text.trim_ascii();
        if text.starts_with(b"0x") {
            return Self::of_digits(text);
        }
        if is_mock_at_once(text) {
            return Err(BareError::Mock);
        }
        let value: Value =
            serde_json::from_slice(text).map_err(|error| BareError::Syntax(error.to_string()))?;
        if keys_in(&value) != keys_of(text) {
            return Err(BareError::Syntax("an object has a key twice".to_owned()));
        }
        let (path, value) = unwrapped(value, format)?;
        let said = value.get("hash").cloned();
        let value = format.node_form(value)?;
        let shape: TransactionShape = serde_path_to_error::deserialize(value).map_err(|error| {
            let place = error.path().to_string();
            let place = if place == "." { String::new() } else { place };
            let dot = if path.is_empty() || place.is_empty() { "" } else { "." };
            let whole = format!("{path}{dot}{place}");
            let whole = if whole.is_empty() { whole } else { format!("{whole}: ") };
            BareError::Shape {
                path: format.reworded(whole),
                detail: format.reworded(error.inner().to_string()),
            }
        })?;
        let read = Self::of(shape.0.into())?;
        if let Some(said) = said.and_then(|said| serde_json::from_value::<H256>(said).ok())
            && said.as_bytes() != read.0.hash().as_slice()
        {
            return Err(BareError::OtherHash { found: hex(&read.0.hash()), said: format!("{said:#x}") });
        }
        Ok(read)
    }

    fn of_digits(text: &[u8]) -> Result<Self, BareError> {
        let text = Value::String(String::from_utf8_lossy(text).into_owned());
        let bytes: ckb_jsonrpc_types::JsonBytes =
            serde_json::from_value(text).map_err(|error| BareError::Syntax(error.to_string()))?;
        Self::of_molecule(bytes.as_bytes())
    }

    fn of_molecule(bytes: &[u8]) -> Result<Self, BareError> {
        let read = Transaction::from_slice(bytes);
        Self::of(read.map_err(|error| BareError::Malformed(error.to_string()))?)
    }

    fn of(transaction: Transaction) -> Result<Self, BareError> {
        check::sound(&transaction).map_err(BareError::Malformed)?;
        Ok(Self(transaction.into_view()))
    }
}

/// Whether the first key is that of a mock transaction, whose cells may be long: there is no need to parse them.
fn is_mock_at_once(json: &[u8]) -> bool {
    json.strip_prefix(b"{").is_some_and(|rest| rest.trim_ascii_start().starts_with(b"\"mock_info\""))
}

/// The transaction itself and its path.
fn unwrapped(value: Value, format: BareFormat) -> Result<(String, Value), BareError> {
    let (mut path, mut value) = (String::new(), value);
    loop {
        let Value::Object(mut keys) = value else { return Err(BareError::Foreign) };
        if keys.contains_key("mock_info") {
            return Err(BareError::Mock);
        }
        for (camel, node_key) in
            [("cellDeps", "cell_deps"), ("headerDeps", "header_deps"), ("outputsData", "outputs_data")]
        {
            if format == BareFormat::Node && keys.contains_key(camel) {
                let detail = format!(
                    "the key {camel} is CCC's or Lumos', and nodes write {node_key}: write the form of the node's \
                     JSON-RPC, or name the other: --format ccc or lumos, in the API's field format \
                     TRANSACTION_FORMAT_CCC or TRANSACTION_FORMAT_LUMOS"
                );
                return Err(BareError::Shape { path: String::new(), detail });
            }
        }
        // A node's answer, its content, and a wallet's file.
        match ["result", "transaction", "tx"].into_iter().find(|key| keys.contains_key(*key)) {
            Some(key) if !keys.contains_key("inputs") => {
                path = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
                value = keys.remove(key).unwrap_or_default();
            }
            _ if path.is_empty() && ["inputs", "outputs"].iter().all(|key| !keys.contains_key(*key)) => {
                return Err(BareError::Foreign);
            }
            _ => return Ok((path, Value::Object(keys))),
        }
    }
}

/// Number of keys of all objects in `value`; duplicates count once.
fn keys_in(value: &Value) -> usize {
    match value {
        Value::Object(fields) => fields.len() + fields.values().map(keys_in).sum::<usize>(),
        Value::Array(values) => values.iter().map(keys_in).sum(),
        _ => 0,
    }
}

/// Number of keys of all objects in `json`: colons outside of strings.
fn keys_of(json: &[u8]) -> usize {
    let (mut keys, mut is_text, mut is_escaped) = (0, false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => is_text = !is_text,
            b':' if !is_text => keys += 1,
            _ => {}
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    const BARE: &str = r#"{"version":"0x0","cell_deps":[],"header_deps":[],"inputs":[{"since":"0x0","previous_output":
        {"tx_hash":"0x1111111111111111111111111111111111111111111111111111111111111111","index":"0x0"}}],
        "outputs":[],"outputs_data":[],"witnesses":["0x01"]}"#;

    #[test]
    fn all_forms_are_the_same_transaction() {
        let first = BareTransaction::read(BARE.as_bytes(), BareFormat::Node).unwrap().0;
        let molecule = ckb_jsonrpc_types::JsonBytes::from_bytes(first.data().as_bytes());
        let molecule = serde_json::to_value(molecule).unwrap();
        for text in [
            format!("{{\"transaction\":{BARE},\"multisig_configs\":{{}},\"signatures\":{{}}}}"),
            format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{\"transaction\":{BARE},\"cycles\":null}}}}"),
            BARE.replacen('{', &format!("{{\"hash\":\"{:#x}\",", first.hash()), 1),
            format!("{}\n", molecule.as_str().unwrap()),
        ] {
            let read = BareTransaction::read(text.as_bytes(), BareFormat::Node).unwrap().0;
            assert_eq!((read.hash(), read.witness_hash()), (first.hash(), first.witness_hash()), "{text}");
        }
        let read = BareTransaction::read(first.data().as_slice(), BareFormat::Node).unwrap().0;
        assert_eq!((read.hash(), read.witness_hash()), (first.hash(), first.witness_hash()));
    }

    #[test]
    fn mistakes_are_reported_with_their_place() {
        let wrong =
            |text: &str| BareTransaction::read(text.as_bytes(), BareFormat::Node).unwrap_err().to_string();
        let other = BARE.replacen('{', &format!("{{\"hash\":\"0x{}\",", "22".repeat(32)), 1);
        assert!(wrong(&other).contains("but the file says 0x2222"), "{}", wrong(&other));
        let number = format!("{{\"transaction\":{}}}", BARE.replace("\"since\":\"0x0\"", "\"since\":0"));
        let number = wrong(&number);
        assert!(number.starts_with("transaction.inputs[0].since: invalid type"), "{number}");
        for mock in ["{\"mock_info\":{},\"tx\":{}}", "{ \n\"mock_info\": {", "{\"tx\":{},\"mock_info\":{}}"] {
            assert!(wrong(mock).contains("has its cells already"));
        }
        assert!(wrong("{\"cellDeps\":[]}").contains("nodes write cell_deps"));
        assert!(wrong("tx: 1").contains("neither JSON nor"));
        let twice = BARE.replace("\"since\":\"0x0\"", "\"since\":\"0x1\",\"since\":\"0x0\"");
        assert!(wrong(&twice).contains("a key twice"), "{}", wrong(&twice));
        assert!(wrong("0x1234").starts_with("no transaction: "));
        assert!(wrong("{}").contains("none of the keys transaction, inputs"));
        assert!(wrong("{\"inputs\":[]}").contains("missing field"));
        let data = BARE.replace("\"outputs_data\":[]", "\"outputs_data\":[\"0x\"]");
        assert!(wrong(&data).contains("other numbers of outputs and of data"), "{}", wrong(&data));
    }
    /// Output of `ccc.stringify` of @ckb-ccc/core 1.12.5, the same with `bigint` in decimal, and
    /// `JSON.stringify` of @ckb-lumos/helpers 0.23.0.
    #[test]
    fn wallets_forms_are_the_same_transaction() {
        use BareFormat::{Ccc, Lumos, Node};

        let hash = format!("0x{}", "11".repeat(32));
        let camel = |text: &str| text.replace('%', &hash);
        let script = r#"{"codeHash":"%","hashType":"type","args":"0x01"}"#;
        let rest = r#""headerDeps":["%"],"outputs":[{"capacity":"0x64","lock":S}],"outputsData":["0x02"],"witnesses":["0x"]}"#
            .replace('S', script);
        let dep = r#""cellDeps":[{"outPoint":{"txHash":"%","index":"0x1"},"depType":"depGroup"}],"#;
        let cells = r#""inputs":[{"previousOutput":{"txHash":"%","index":"0x0"},"since":"0x5"}],"#;
        let lumos = camel(&format!(r#"{{"version":"0x0",{dep}{cells}{rest}"#));
        let completed = r#""0x5","cellOutput":{"capacity":"0x64"},"outputData":"0x"}"#;
        let ccc = lumos.replace(r#""0x5"}"#, completed);
        let decimal = lumos.replace("0x64", "100").replace(r#""0x5""#, "5");
        let cell = format!(
            r#"{{"cellOutput":{{"capacity":"0x64","lock":{script}}},"data":"0x02","outPoint":{{"txHash":"%","index":"0x0"}}}}"#
        );
        let skeleton = camel(&format!(
            r#"{{"cellProvider":null,{dep}"headerDeps":["%"],"inputs":[{cell}],"outputs":[{cell}],"witnesses":["0x"],
            "fixedEntries":[],"signingEntries":[],"inputSinces":{{"0":"0x5"}}}}"#
        ));
        let hashed = lumos.replace("\"version\"", &format!("\"hash\":\"{hash}\",\"version\""));
        let read = |text: &str, format| {
            BareTransaction::read(text.as_bytes(), format)
                .map(|read| (read.0.hash(), read.0.witness_hash()))
                .map_err(|error| error.to_string())
        };
        let first = read(&lumos, Lumos).unwrap();
        for (text, format) in [(&lumos, Ccc), (&ccc, Ccc), (&decimal, Ccc), (&skeleton, Lumos)] {
            assert_eq!(read(text, format).as_ref(), Ok(&first), "{text}");
        }
        for (text, format, reported) in [
            (BARE, Ccc, "cell_deps: nodes write this key"),
            (&lumos, Node, "TRANSACTION_FORMAT_CCC"),
            (&ccc, Lumos, "unknown field `cellOutput`"),
            (&skeleton.replace("{\"0\":", "{\"1\":"), Lumos, "inputSinces.1: there is no such input"),
            (&skeleton.replace("\"inputs\":[", "\"inputs\":{},\"x\":["), Lumos, "inputs: a skeleton has"),
            (&decimal, Lumos, "inputs[0].since: Lumos writes numbers as hex"),
            (&lumos.replace("0x64", "0100"), Ccc, "outputs[0].capacity: this is no number"),
            (&lumos.replace("0x64", "0x"), Ccc, "outputs[0].capacity: "),
            (&lumos.replace("\"since\"", "\"sinse\""), Ccc, "unknown field `sinse`"),
            (&lumos.replace("\"depGroup\"", "1"), Ccc, "cellDeps[0].depType: invalid type"),
            (&hashed, Ccc, "has the hash"),
        ] {
            let problem = read(text, format).unwrap_err();
            assert!(problem.contains(reported), "{problem}: {text}");
        }
    }
}

//! Converts the JSON of wallet libraries to that of nodes.

use serde_json::{Map, Value, json};

use crate::bare::BareError;

/// The origin of the JSON of a transaction without its cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BareFormat {
    /// A node, or ckb-cli: `cell_deps`, and hexadecimal numbers with 0x.
    #[default]
    Node,
    /// `ccc.stringify`: `cellDeps`. Numbers may also be decimal, as CCC programs write its `bigint`.
    Ccc,
    /// A transaction of Lumos, or `transactionSkeletonToObject`: `cellDeps`, and the nodes' numbers.
    Lumos,
}

/// Keys of a skeleton that are not part of the transaction.
const NOTES: [&str; 3] = ["cellProvider", "fixedEntries", "signingEntries"];

/// Why and where a value does not match the format.
struct Wrong {
    path: String,
    detail: String,
}

impl Wrong {
    fn new(key: &str, detail: String) -> Self {
        Self { path: key.to_owned(), detail }
    }

    fn below(self, key: &str) -> Self {
        let dot = if self.path.starts_with('[') { "" } else { "." };
        Self { path: format!("{key}{dot}{}", self.path), ..self }
    }
}

impl BareFormat {
    /// A transaction in this format, converted to that of nodes.
    pub(crate) fn node_form(self, value: Value) -> Result<Value, BareError> {
        let Value::Object(keys) = value else { return Ok(value) };
        let is_skeleton = self == Self::Lumos && NOTES.iter().any(|key| keys.contains_key(*key));
        let formed = match self {
            Self::Node => return Ok(Value::Object(keys)),
            _ if is_skeleton => of_skeleton(keys).and_then(|keys| self.renamed(Value::Object(keys))),
            _ => self.renamed(Value::Object(keys)),
        };
        formed.map_err(|Wrong { path, detail }| BareError::Shape { path: format!("{path}: "), detail })
    }

    fn renamed(self, value: Value) -> Result<Value, Wrong> {
        match value {
            Value::Array(items) => {
                let items = items.into_iter().enumerate();
                let item = |(at, item)| self.renamed(item).map_err(|wrong| wrong.below(&format!("[{at}]")));
                items.map(item).collect::<Result<_, _>>().map(Value::Array)
            }
            Value::Object(keys) => {
                // CCC completes inputs with their cells. The server fetches these by hash.
                let is_note = |key: &str| self == Self::Ccc && matches!(key, "cellOutput" | "outputData");
                let is_input = keys.contains_key("previousOutput");
                let keys = keys.into_iter().filter(|(key, _)| !is_input || !is_note(key));
                keys.map(|(key, value)| self.entry(&key, value)).collect::<Result<_, _>>().map(Value::Object)
            }
            value => Ok(value),
        }
    }

    fn entry(self, key: &str, value: Value) -> Result<(String, Value), Wrong> {
        if key.contains('_') {
            return Err(Wrong::new(key, "nodes write this key: the format is the node's".to_owned()));
        }
        let value = match (key, value) {
            ("capacity" | "index" | "since" | "version", value) => {
                self.number(value).map_err(|detail| Wrong::new(key, detail))?
            }
            ("depType", Value::String(text)) if text == "depGroup" => json!("dep_group"),
            (_, value) => self.renamed(value).map_err(|wrong| wrong.below(key))?,
        };
        let letters = key.chars().flat_map(|letter| {
            let dash = letter.is_ascii_uppercase().then_some('_');
            dash.into_iter().chain([letter.to_ascii_lowercase()])
        });
        Ok((letters.collect(), value))
    }

    fn number(self, value: Value) -> Result<Value, String> {
        let decimal = match &value {
            Value::Number(number) => number.as_u64(),
            Value::String(text) if text.starts_with("0x") => return Ok(value),
            Value::String(text) => text.parse().ok().filter(|number: &u64| number.to_string() == *text),
            _ => None,
        };
        match decimal {
            Some(number) if self == Self::Ccc => Ok(json!(format!("{number:#x}"))),
            Some(_) => Err("Lumos writes numbers as hexadecimal digits behind 0x".to_owned()),
            None => Err("this is no number of 64 bits".to_owned()),
        }
    }

    /// A path or message about the node's format, with the keys of this one.
    #[must_use]
    pub fn reworded(self, text: String) -> String {
        if self == Self::Node {
            return text;
        }
        let mut words = text.split('_');
        let first = words.next().unwrap_or_default().to_owned();
        words.fold(first, |text, word| {
            let (letter, rest) = word.split_at(word.chars().next().map_or(0, char::len_utf8));
            text + &letter.to_uppercase() + rest
        })
    }
}

/// The transaction of a skeleton, whose inputs and outputs are cells.
fn of_skeleton(mut keys: Map<String, Value>) -> Result<Map<String, Value>, Wrong> {
    keys.retain(|key, _| !NOTES.contains(&key.as_str()));
    let mut list = |key: &str| match keys.remove(key) {
        Some(Value::Array(cells)) => Ok(cells),
        _ => Err(Wrong::new(key, "a skeleton has a list of cells here".to_owned())),
    };
    let (inputs, mut outputs) = (list("inputs")?, list("outputs")?);
    let mut sinces = match keys.remove("inputSinces") {
        Some(Value::Object(sinces)) => sinces,
        None => Map::new(),
        Some(_) => return Err(Wrong::new("inputSinces", "this is no object of inputs".to_owned())),
    };
    let inputs = inputs.into_iter().enumerate().map(|(at, mut cell)| {
        let since = sinces.remove(&at.to_string()).unwrap_or_else(|| json!("0x0"));
        json!({ "previousOutput": cell.get_mut("outPoint").map(Value::take), "since": since })
    });
    keys.insert("inputs".to_owned(), inputs.collect());
    if let Some(at) = sinces.keys().next() {
        return Err(Wrong::new(&format!("inputSinces.{at}"), "there is no such input".to_owned()));
    }
    for (name, of_cell) in [("outputs", "cellOutput"), ("outputsData", "data")] {
        let parts = outputs.iter_mut().map(|cell| cell.get_mut(of_cell).map(Value::take).unwrap_or_default());
        keys.insert(name.to_owned(), parts.collect());
    }
    keys.entry("version").or_insert_with(|| json!("0x0"));
    Ok(keys)
}

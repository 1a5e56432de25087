//! The parsed file. Every text keeps its position, so that errors can name the line.

use std::collections::BTreeMap;

use antares_transaction::worded;
use anyhow::anyhow;
use serde::Deserialize;
use toml::Spanned;

use super::error::{DraftError, FieldError};

/// A text and its position.
pub(crate) type Text = Spanned<String>;

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Draft {
    pub(crate) expect: Option<Text>,
    #[serde(default)]
    pub(crate) keys: BTreeMap<String, Text>,
    #[serde(default)]
    pub(crate) headers: Vec<Header>,
    #[serde(default)]
    pub(crate) cells: Vec<Cell>,
    pub(crate) inputs: Vec<Input>,
    #[serde(default)]
    pub(crate) outputs: Vec<Output>,
    /// Witnesses after those of the inputs.
    #[serde(default)]
    pub(crate) witnesses: Vec<Text>,
}

/// A header dep.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Header {
    pub(crate) name: Text,
    #[serde(default)]
    pub(crate) number: u64,
    pub(crate) epoch: Option<Text>,
    #[serde(default)]
    pub(crate) timestamp_ms: u64,
    pub(crate) dao: Option<Text>,
}

/// A cell dep.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cell {
    pub(crate) name: Text,
    pub(crate) file: Option<Text>,
    pub(crate) data: Option<Text>,
    pub(crate) system: Option<Text>,
    pub(crate) hash_type: Option<Text>,
    pub(crate) header: Option<Text>,
}

/// An input, and the cell that it spends.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    pub(crate) capacity_shannons: Option<u64>,
    pub(crate) lock: Script,
    #[serde(rename = "type")]
    pub(crate) type_script: Option<Script>,
    pub(crate) data: Option<Text>,
    pub(crate) since: Option<Text>,
    pub(crate) header: Option<Text>,
    pub(crate) witness: Option<Witness>,
    pub(crate) raw_witness: Option<Text>,
}

impl Input {
    /// The cell that it spends.
    pub(crate) fn spent(&self) -> Output {
        Output {
            capacity_shannons: self.capacity_shannons,
            lock: Some(self.lock.clone()),
            type_script: self.type_script.clone(),
            data: self.data.clone(),
        }
    }
}

/// A cell.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Output {
    pub(crate) capacity_shannons: Option<u64>,
    pub(crate) lock: Option<Script>,
    #[serde(rename = "type")]
    pub(crate) type_script: Option<Script>,
    pub(crate) data: Option<Text>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Script {
    pub(crate) code_hash: Text,
    pub(crate) hash_type: Option<Text>,
    pub(crate) args: Option<Text>,
}

/// `WitnessArgs`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Witness {
    pub(crate) lock: Option<Text>,
    pub(crate) input_type: Option<Text>,
    pub(crate) output_type: Option<Text>,
}

pub(crate) fn parse(text: &str) -> Result<Draft, DraftError> {
    toml::from_str(text).map_err(|error| {
        let span = error.span().unwrap_or_default();
        let problem = match text.trim_start().starts_with('{') {
            true => anyhow!("this is JSON: name the file *.json"),
            false => anyhow!(worded(error.message()).replace("an object", "a table")),
        };
        FieldError { span, field: String::new(), problem }.locate(text)
    })
}

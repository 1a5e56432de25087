//! The structure of a node's answers. They are parsed directly, without an intermediate form that a long answer
//! could inflate.

use std::{fmt, marker::PhantomData};

use ckb_jsonrpc_types::{
    self as json, BlockNumber, Byte32, CellDep, CellInput, CellOutput, Cycle, EpochNumberWithFraction,
    JsonBytes, ProposalShortId, Timestamp, Uint32, Uint64, Uint128, Version,
};
use ckb_types::{H256, packed};
use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};

use crate::limits::LIST_ENTRIES_MAX;

/// A value in molecule encoding or JSON.
pub(crate) enum Form<T> {
    Hex(JsonBytes),
    Json(Box<T>),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Form<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Either<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Either<T> {
            type Value = Form<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("hexadecimal digits or an object")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Form<T>, E> {
                JsonBytes::deserialize(de::value::StrDeserializer::new(text)).map(Form::Hex)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Form<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(|json| Form::Json(Box::new(json)))
            }
        }

        from.deserialize_any(Either(PhantomData))
    }
}

/// A list of at most [`LIST_ENTRIES_MAX`] entries. A parsed entry can be twenty times as long as its text.
fn bounded<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    struct List<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "at most {LIST_ENTRIES_MAX} entries")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Vec<T>, A::Error> {
            let mut list = Vec::new();
            while let Some(entry) = entries.next_element()? {
                if list.len() == LIST_ENTRIES_MAX {
                    return Err(de::Error::invalid_length(list.len() + 1, &self));
                }
                list.push(entry);
            }
            Ok(list)
        }
    }

    from.deserialize_seq(List(PhantomData))
}

/// A transaction. Its hash is computed, not parsed.
#[derive(Deserialize)]
#[serde(transparent)]
pub(crate) struct TransactionShape(#[serde(with = "TransactionFields")] pub(crate) json::Transaction);

#[derive(Deserialize)]
#[serde(remote = "json::Transaction")]
struct TransactionFields {
    version: Version,
    #[serde(deserialize_with = "bounded")]
    cell_deps: Vec<CellDep>,
    #[serde(deserialize_with = "bounded")]
    header_deps: Vec<H256>,
    #[serde(deserialize_with = "bounded")]
    inputs: Vec<CellInput>,
    #[serde(deserialize_with = "bounded")]
    outputs: Vec<CellOutput>,
    #[serde(deserialize_with = "bounded")]
    outputs_data: Vec<JsonBytes>,
    #[serde(deserialize_with = "bounded")]
    witnesses: Vec<JsonBytes>,
}

/// A header. Its hash is computed, not parsed.
#[derive(Deserialize)]
#[serde(transparent)]
pub(crate) struct HeaderShape(#[serde(with = "HeaderFields")] pub(crate) json::Header);

#[derive(Deserialize)]
#[serde(remote = "json::Header")]
struct HeaderFields {
    version: Version,
    compact_target: Uint32,
    timestamp: Timestamp,
    number: BlockNumber,
    epoch: EpochNumberWithFraction,
    parent_hash: H256,
    transactions_root: H256,
    proposals_hash: H256,
    extra_hash: H256,
    dao: Byte32,
    nonce: Uint128,
}

#[derive(Deserialize)]
struct UncleShape {
    header: HeaderShape,
    proposals: Vec<ProposalShortId>,
}

/// A block.
#[derive(Deserialize)]
pub(crate) struct BlockShape {
    header: HeaderShape,
    uncles: Vec<UncleShape>,
    transactions: Vec<TransactionShape>,
    proposals: Vec<ProposalShortId>,
    extension: Option<JsonBytes>,
}

impl From<BlockShape> for packed::Block {
    fn from(shape: BlockShape) -> Self {
        let BlockShape { header, uncles, transactions, proposals, extension } = shape;
        let uncle = |UncleShape { header, proposals }| json::UncleBlock { header: header.0, proposals };
        let block = json::Block {
            header: header.0,
            uncles: uncles.into_iter().map(uncle).collect(),
            transactions: transactions.into_iter().map(|transaction| transaction.0).collect(),
            proposals,
            extension,
        };
        block.into()
    }
}

/// The answer to `get_transaction`.
#[derive(Deserialize)]
pub(crate) struct TransactionAnswer {
    pub(crate) transaction: Option<Form<TransactionShape>>,
    pub(crate) cycles: Option<Cycle>,
    pub(crate) tx_status: StatusShape,
}

/// The state of a transaction.
#[derive(Deserialize)]
pub(crate) struct StatusShape {
    pub(crate) status: json::Status,
    pub(crate) block_number: Option<BlockNumber>,
    pub(crate) block_hash: Option<H256>,
    pub(crate) reason: Option<String>,
}

/// The answer to `get_block` and `get_block_by_number` with cycles.
#[derive(Deserialize)]
pub(crate) struct BlockAnswer {
    pub(crate) block: Form<BlockShape>,
    pub(crate) cycles: Option<Vec<Cycle>>,
}

/// The used field of the answer to `get_live_cell`.
#[derive(Deserialize)]
pub(crate) struct LiveCellAnswer {
    pub(crate) status: String,
}

/// The used fields of the answer to `get_consensus`.
#[derive(Deserialize)]
pub(crate) struct ConsensusAnswer {
    pub(crate) id: String,
    pub(crate) hardfork_features: Vec<ForkShape>,
}

#[derive(Deserialize)]
pub(crate) struct ForkShape {
    pub(crate) rfc: String,
    pub(crate) epoch_number: Option<Uint64>,
}

/// The answer to `get_transaction_proof`.
#[derive(Deserialize)]
pub(crate) struct ProofAnswer {
    pub(crate) witnesses_root: H256,
    pub(crate) proof: MerkleShape,
}

#[derive(Deserialize)]
pub(crate) struct MerkleShape {
    pub(crate) indices: Vec<Uint32>,
    pub(crate) lemmas: Vec<H256>,
}

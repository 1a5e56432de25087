//! A session of many transactions over many shared cells, whose servers are killed: one verdict for each, and
//! that of ckb-script.

use std::{
    collections::{HashMap, HashSet},
    env,
    sync::Arc,
};

use antares_proto::v1::{self, VerifyOutcome, shared_transaction};
use antares_tests::{asm::encode, transactions::by_ckb_script};
use antares_transaction::{CellFields, DepFields, Environment, Fields, Mock};
use bytes::Bytes;
use ckb_types::{packed, prelude::*};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;

use crate::{
    server::{PATIENCE, Server},
    transactions::{elf, fields, with_lock},
};

/// Distinct transactions of the session; another number with ANTARES_SESSION_TRANSACTIONS.
const TRANSACTIONS: u64 = 500;
/// Cells that they share, the lock's code among them.
const CELLS: u32 = 200;
/// Of these, in one transaction beside the lock's code.
const CELLS_EACH: u32 = 4;
/// Long enough to be kept hot.
const CELL_BYTES: usize = 8 << 10;
/// One transaction in so many has a witness that its lock does not accept.
const WRONG_ONE_IN: u64 = 5;
const CYCLES_MAX: u64 = 70_000_000;

/// A lock that counts down from the first two bytes of the witness, and exits with the difference of the
/// first byte of the second cell dep's data and the third of the witness.
fn lock() -> Vec<u8> {
    let li = |register, value| encode::i(0x13, 0, register, 0, value);
    let at = |register, offset| encode::i(0x13, 0, register, 2, offset);
    // Loads `length` bytes to `offset` of the stack, of `index` of `source`, with the call 2047 + `call`.
    let load = |length, offset, index, source, call| {
        vec![
            li(5, length),
            encode::s(3, 2, 5, 0),
            at(10, offset),
            at(11, 0),
            li(12, 0),
            li(13, index),
            li(14, source),
            li(17, 2047),
            encode::i(0x13, 0, 17, 17, call),
            0x73,
        ]
    };
    let mut code = vec![encode::i(0x13, 0, 2, 2, -32)];
    code.extend(load(4, 8, 0, 1, 2074 - 2047));
    code.extend(load(8, 16, 1, 3, 2092 - 2047));
    code.extend([
        encode::i(0x03, 5, 6, 2, 8),
        encode::i(0x13, 0, 6, 6, 1),
        encode::i(0x13, 0, 6, 6, -1),
        encode::b(1, 6, 0, -4).unwrap(),
        encode::i(0x03, 0, 10, 2, 16),
        encode::i(0x03, 0, 5, 2, 10),
        0x4055_0533, // sub a0, a0, t0
        li(17, 93),
        0x73,
    ]);
    elf(&code)
}

fn place(number: u32) -> packed::OutPoint {
    packed::OutPoint::new(packed::Byte32::new([0x33; 32]), number)
}

/// The byte that the data of a cell is made of.
fn filling(number: u32) -> u8 {
    number.to_le_bytes()[0]
}

/// Transactions of one lock over cells that they share.
struct Transactions {
    /// One without the cells.
    base: v1::TransactionFields,
    cells: Vec<v1::CellDepFields>,
}

impl Transactions {
    fn new() -> Self {
        let mut base = fields(with_lock(&lock()).as_bytes());
        let mut cells = std::mem::take(&mut base.cell_deps);
        let output = packed::CellOutput::default();
        cells.extend((1..CELLS).map(|number| v1::CellDepFields {
            out_point: Bytes::copy_from_slice(place(number).as_slice()),
            cell: Some(v1::CellFields {
                output: Bytes::copy_from_slice(output.as_slice()),
                data: Bytes::from(vec![filling(number); CELL_BYTES]),
                ..Default::default()
            }),
        }));
        Self { base, cells }
    }

    fn shared(&self) -> v1::VerifyShared {
        v1::VerifyShared { cell_deps: self.cells.clone(), ..Default::default() }
    }

    /// The cells of a transaction, the lock's code first.
    fn cells_of(number: u64) -> Vec<u32> {
        let number = u32::try_from(number).unwrap();
        let mut cells = vec![0];
        // Other ones for each, and in time all.
        for at in 0..CELLS_EACH {
            let cell = 1 + (number.wrapping_mul(31) + at * (7 + number % 11)) % (CELLS - 1);
            if !cells.contains(&cell) {
                cells.push(cell);
            }
        }
        cells
    }

    fn tx(&self, number: u64) -> Bytes {
        let cells = Self::cells_of(number);
        let tx = packed::Transaction::from_slice(&self.base.tx).unwrap();
        let deps =
            cells[1..].iter().map(|cell| packed::CellDep::new_builder().out_point(place(*cell)).build());
        let deps: Vec<_> = tx.raw().cell_deps().into_iter().chain(deps).collect();
        let raw = tx.raw().as_builder().cell_deps(deps).build();
        let mut witness = u16::try_from(number).unwrap().to_le_bytes().to_vec();
        let wrong = u8::from(number.is_multiple_of(WRONG_ONE_IN));
        witness.extend([filling(cells[1]).wrapping_sub(wrong), 0]);
        let tx = tx.as_builder().raw(raw).witnesses(vec![packed::Bytes::from(witness)]).build();
        Bytes::copy_from_slice(tx.as_slice())
    }

    fn one(&self, number: u64) -> v1::SharedTransaction {
        let fields = v1::TransactionFields { tx: self.tx(number), ..self.base.clone() };
        v1::SharedTransaction {
            id: number,
            transaction: Some(shared_transaction::Transaction::Fields(fields)),
            cell_deps: Self::cells_of(number),
            ..Default::default()
        }
    }

    /// What ckb-script says: cycles, or an error.
    fn expected(&self, number: u64) -> Result<u64, String> {
        let tx = self.tx(number);
        let deps = Self::cells_of(number).into_iter().map(|at| &self.cells[usize::try_from(at).unwrap()]);
        let fields = Fields {
            tx: &tx,
            inputs: self.base.inputs.iter().map(cell_fields).collect(),
            cell_deps: deps
                .map(|dep| DepFields {
                    out_point: &dep.out_point,
                    cell_dep: None,
                    cell: cell_fields(dep.cell.as_ref().unwrap()),
                })
                .collect(),
            ..Fields::default()
        };
        let mock = Mock::from_molecule(&fields, &[]).unwrap();
        by_ckb_script(mock.as_ckb(), &Environment::default(), CYCLES_MAX)
    }
}

fn cell_fields(cell: &v1::CellFields) -> CellFields<'_> {
    CellFields { output: &cell.output, data: cell.data[..].into(), block_hash: None }
}

/// One verdict for each, none lost, and that of ckb-script.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_over_shared_cells_outlives_its_servers() {
    let count = env::var("ANTARES_SESSION_TRANSACTIONS").ok().and_then(|text| text.parse().ok());
    let count: u64 = count.unwrap_or(TRANSACTIONS);
    let folders: [_; 2] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
    let mut servers: Vec<Server> = folders.iter().map(Server::start).collect();
    let urls = servers.iter().map(|server| format!("http://{}", server.address));
    let client = antares_client::Client::builder().servers(urls).build().unwrap();
    let transactions = Arc::new(Transactions::new());
    let used: HashSet<u32> = (0..count).flat_map(Transactions::cells_of).collect();
    assert!(used.len() as u64 == u64::from(CELLS) || count < 100, "{} cells", used.len());
    let (sender, inputs) = mpsc::channel(1);
    let sent = transactions.clone();
    tokio::spawn(async move {
        for number in 0..count {
            sender.send(sent.one(number)).await.unwrap();
        }
    });
    let mut session = client.verify_session(transactions.shared(), ReceiverStream::new(inputs));
    let (mut verdicts, mut kills) = (HashMap::new(), 0);
    while let Some(answer) = timeout(PATIENCE, session.next()).await.unwrap() {
        let answer = answer.unwrap();
        let verdict = answer.result.unwrap();
        let before = verdicts.insert(answer.id, verdict);
        assert!(before.is_none(), "{} has two answers", answer.id);
        let answered = verdicts.len() as u64;
        if answered == count / 3 || answered == 2 * count / 3 {
            // Both of them, one after the other, so that it is the session's own, too.
            for (server, folder) in servers.iter_mut().zip(&folders) {
                let address = server.address.clone();
                server.kill();
                *server = Server::start_again(&address, folder);
                kills += 1;
            }
        }
    }
    assert_eq!((verdicts.len() as u64, kills), (count, 4));
    let cycles: HashSet<u64> = verdicts.values().map(|answer| answer.cycles).collect();
    assert_eq!(cycles.len() as u64, count, "each transaction is another one");
    let mut accepted = 0;
    for (number, answer) in &verdicts {
        match transactions.expected(*number) {
            Ok(cycles) => {
                assert_eq!((answer.outcome(), answer.cycles), (VerifyOutcome::Ok, cycles), "{number}");
                accepted += 1;
            }
            Err(error) => {
                assert_eq!(answer.outcome(), VerifyOutcome::Failed, "{number}");
                let ours = &answer.groups[0].error.as_ref().unwrap().detail;
                assert!(error.contains(ours), "{number}: {ours}\n{error}");
            }
        }
    }
    println!("{count} transactions over {CELLS} cells: {accepted} accepted, none lost, {kills} kills");
    assert_eq!(accepted, count - count.div_ceil(WRONG_ONE_IN));
    let kept: f64 = servers.iter().map(|server| server.metric("antares_hot_cells")).sum();
    assert!(kept >= f64::from(CELLS), "what transactions share is kept: {kept}");
}

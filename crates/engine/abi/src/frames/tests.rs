//! Tests of the frame table: lookups, and detection of every corruption.

use super::{
    row::{CHAIN_MAX, GROUP_ROWS_MAX},
    *,
};

fn row(start: u32, bytes: u32, chain: &[u32]) -> FrameRow {
    FrameRow { start, bytes, chain: chain.to_vec() }
}

/// A table with these bytes of rows and these groups.
fn table(rows: &[u8], groups: &[(u32, u32)]) -> Result<FrameTable, FrameError> {
    let mut bytes = rows.to_vec();
    for number in groups.iter().flat_map(|(start, place)| [*start, *place]) {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(u32::try_from(rows.len()).unwrap().to_le_bytes());
    bytes.extend(u32::try_from(groups.len()).unwrap().to_le_bytes());
    bytes.extend(MAGIC);
    FrameTable::read(bytes)
}

/// The size and the chain that a lookup finds.
fn found(table: &FrameTable, place: u32) -> Option<(u32, Vec<u32>)> {
    let mut frame = FrameAt::default();
    table.find(place, &mut frame).then(|| (frame.bytes, frame.chain().to_vec()))
}

/// A deterministic pseudorandom generator.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        u32::try_from((self.0 >> 33) % u64::from(end)).unwrap()
    }

    fn index(&mut self, length: usize) -> usize {
        self.below(u32::try_from(length).unwrap()) as usize
    }
}

/// Rows like those of compilers, and some unusual ones.
fn rows(numbers: &mut Numbers) -> Vec<FrameRow> {
    let mut rows: Vec<FrameRow> = Vec::new();
    let (mut start, mut chain) = (numbers.below(100), Vec::new());
    for _ in 0..numbers.below(200) {
        chain.truncate(numbers.index(1 + chain.len()));
        for _ in 0..[0, 1, 1, 1, 2, 9][numbers.below(6) as usize] {
            let anywhere = numbers.below(u32::MAX);
            chain.push([0x1_0000 + anywhere % 4096, anywhere, 0, u32::MAX][numbers.below(4) as usize]);
        }
        chain.truncate(CHAIN_MAX);
        let bytes = [8, 8, 8 * numbers.below(64), 0, u32::MAX, 7][numbers.below(6) as usize];
        rows.push(row(start, bytes, &chain));
        let farthest = [2, 300, 1 << 20][numbers.below(3) as usize];
        start += 1 + numbers.below(farthest);
    }
    rows
}

#[test]
fn what_was_put_behind_a_library_is_found_again() {
    let rows =
        [row(16, 8, &[]), row(32, 8, &[7]), row(40, 24, &[7]), row(48, 24, &[7]), row(64, 24, &[7, 9])];
    let table = FrameTable::new(rows);
    assert_eq!(table.check(), Ok(4));
    let mut library = b"a shared object".to_vec();
    let bytes = library.len();
    table.append_to(&mut library);
    let tail = &library[library.len() - FrameTable::TAIL_BYTES..];
    let length = FrameTable::length(tail, library.len() as u64).unwrap();
    assert_eq!(length, library.len() - bytes);
    let read = FrameTable::read(library[bytes..].to_vec()).unwrap();
    assert_eq!(read, table);
    assert_eq!(found(&read, 15), None);
    assert_eq!(found(&read, 31), Some((8, vec![])));
    assert_eq!(found(&read, 39), Some((8, vec![7])));
    assert_eq!(found(&read, 63), Some((24, vec![7])));
    assert_eq!(found(&read, u32::MAX), Some((24, vec![7, 9])));
}

#[test]
fn every_place_of_many_tables_is_found() {
    let mut numbers = Numbers(7);
    for _ in 0..300 {
        let rows = rows(&mut numbers);
        let table = FrameTable::new(rows.clone());
        assert_eq!(FrameTable::read(table.bytes.clone()), Ok(table.clone()));
        table.check().unwrap();
        for (index, row) in rows.iter().enumerate() {
            let next = rows.get(index + 1).map_or(u32::MAX, |next| next.start - 1);
            for place in [row.start, row.start.midpoint(next), next] {
                assert_eq!(found(&table, place), Some((row.bytes, row.chain.clone())), "{place}");
            }
        }
        let first = rows.first().map_or(u32::MAX, |row| row.start);
        assert_eq!(first.checked_sub(1).and_then(|place| found(&table, place)), None);
    }
}

#[test]
fn rows_take_few_bytes() {
    // A function with a call every twenty bytes: its own address and the call's address in turn.
    let rows = (0..3200_u32).map(|index| {
        let function = 0x1_0000 + index / 32 * 200;
        let pc = if index % 2 == 0 { function } else { function + 6 * (index % 32) };
        row(10 * index, 56, &[pc])
    });
    let table = FrameTable::new(rows);
    assert_eq!(table.check(), Ok(3200));
    assert!(table.bytes.len() < 6 * 3200, "{}", table.bytes.len());
}

#[test]
fn rows_out_of_order_are_left_out_and_long_chains_are_cut() {
    let long: Vec<u32> = (0..100).collect();
    let table = FrameTable::new([row(5, 8, &long), row(5, 9, &[]), row(4, 9, &[]), row(6, 9, &[])]);
    assert_eq!(table.check(), Ok(2));
    assert_eq!(found(&table, 5), Some((8, long[..CHAIN_MAX].to_vec())));
    assert_eq!(found(&table, 6), Some((9, vec![])));
}

#[test]
fn what_is_no_table_says_so() {
    let good = FrameTable::new([row(0, 8, &[1])]).bytes;
    assert!(FrameTable::read(good.clone()).is_ok());
    for cut in 0..good.len() {
        assert_eq!(FrameTable::read(good[..cut].to_vec()), Err(FrameError::Length { bytes: cut }), "{cut}");
    }
    let tail = good.len() - FrameTable::TAIL_BYTES;
    assert_eq!(FrameTable::length(&good[tail..], good.len() as u64 - 1), None);
    let mut old = good;
    *old.last_mut().unwrap() = 1;
    assert_eq!(FrameTable::length(&old[tail..], old.len() as u64), None, "another form");
    // Numbers that would wrap: counts of 2^32 - 1.
    let tail = [&[0xff; 8][..], &MAGIC].concat();
    assert_eq!(FrameTable::length(&tail, u64::from(u32::MAX)), None);
}

#[test]
fn every_lie_about_groups_is_refused() {
    let rows = [0, 0, 1, 0];
    assert!(table(&rows, &[(8, 0), (9, 2)]).is_ok());
    assert_eq!(table(&rows, &[]), Err(FrameError::Group { group: 0, place: 4 }));
    assert_eq!(table(&rows, &[(8, 1)]), Err(FrameError::Group { group: 0, place: 1 }));
    assert_eq!(table(&rows, &[(8, 0), (8, 2)]), Err(FrameError::Group { group: 1, place: 2 }));
    assert_eq!(table(&rows, &[(8, 0), (9, 0)]), Err(FrameError::Group { group: 1, place: 0 }));
    assert_eq!(table(&rows, &[(8, 0), (9, 4)]), Err(FrameError::Group { group: 1, place: 4 }));
    assert_eq!(table(&[], &[(8, 0)]), Err(FrameError::Group { group: 0, place: 0 }));
    assert_eq!(table(&[], &[]).unwrap().check(), Ok(0));
}

#[test]
fn every_lie_in_a_row_is_refused_and_finds_nothing() {
    let deep = [&[0, 0x70, 65][..], &[0; 65]].concat();
    let many =
        [0, 0].into_iter().chain([1, 0].into_iter().cycle().take(2 * GROUP_ROWS_MAX)).collect::<Vec<u8>>();
    let lies: [(&[u8], FrameError); 11] = [
        (&[0], FrameError::Cut { place: 0 }),
        (&[0, 0x10], FrameError::Cut { place: 0 }),
        (&[0, 1, 0x80], FrameError::Cut { place: 0 }),
        (&[0, 0, 1], FrameError::Cut { place: 2 }),
        (&[0x80, 0x80, 0x80, 0x80, 0x80, 0], FrameError::Wide { place: 0 }),
        (&[0, 1, 0xff, 0xff, 0xff, 0xff, 0x10], FrameError::Wide { place: 0 }),
        (&[0, 2], FrameError::Chain { place: 0 }),
        (&deep, FrameError::Chain { place: 0 }),
        (&[1, 0], FrameError::Order { place: 0 }),
        (&[0, 0, 0, 0], FrameError::Order { place: 2 }),
        (&many, FrameError::Rows { place: 2 * GROUP_ROWS_MAX }),
    ];
    for (rows, error) in lies {
        let table = table(rows, &[(8, 0)]).unwrap();
        assert_eq!(table.check(), Err(error), "{rows:?}");
        assert_eq!(found(&table, u32::MAX), None, "{rows:?}");
    }
    // Starts beyond 32 bits, and a group that starts in the middle of the previous one.
    let far = table(&[0, 0, 9, 0], &[(u32::MAX - 8, 0)]).unwrap();
    assert_eq!(far.check(), Err(FrameError::Order { place: 2 }));
    let overlapping = table(&[0, 0, 9, 0, 0, 0], &[(8, 0), (17, 4)]).unwrap();
    assert_eq!(overlapping.check(), Err(FrameError::Order { place: 4 }));
}

#[test]
fn no_change_of_a_byte_makes_a_panic() {
    let mut numbers = Numbers(3);
    let table = FrameTable::new(rows(&mut Numbers(11)));
    for _ in 0..20_000 {
        let mut bytes = table.bytes.clone();
        for _ in 0..1 + numbers.below(3) {
            let at = numbers.index(bytes.len());
            bytes[at] = numbers.below(256).to_le_bytes()[0];
        }
        if let Ok(table) = FrameTable::read(bytes) {
            let checked = table.check();
            for _ in 0..8 {
                if let Some((_, chain)) = found(&table, numbers.below(u32::MAX)) {
                    assert!(chain.len() <= CHAIN_MAX, "{checked:?}");
                }
            }
        }
    }
}

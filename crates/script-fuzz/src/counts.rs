//! Counters as the corpus sees them: how often, in classes.

/// Copies `counted` to `map`, each count by its class: 1, 2, 3, 4 to 7, 8 to 15, up to 31, up to 127, more.
/// As afl has them, so that a loop that goes once more is not always news.
pub(crate) fn classify(counted: &[u8], map: &mut [u8]) {
    for (counts, classes) in counted.chunks(8).zip(map.chunks_mut(8)) {
        if counts == [0; 8] {
            continue;
        }
        for (count, class) in counts.iter().zip(classes) {
            *class = class_of(*count);
        }
    }
}

fn class_of(count: u8) -> u8 {
    match count {
        0 => 0,
        1 => 1,
        2 => 2,
        3 => 4,
        4..=7 => 8,
        8..=15 => 16,
        16..=31 => 32,
        32..=127 => 64,
        128.. => 128,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_classes_and_what_was_not_reached_stays() {
        let mut map = [0; 16];
        classify(&[0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 127, 128, 255, 0, 0], &mut map);
        assert_eq!(map, [0, 1, 2, 4, 8, 8, 16, 16, 32, 32, 64, 64, 128, 128, 0, 0]);
    }
}

//! Workers as the kernel sees them: their processes and memory.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    thread,
    time::Instant,
};

use antares_pool::Pool;

use crate::jobs::PATIENCE;

/// Living children of the zygote of `pool` with `filters` filters: 1 is the zygote's own, which the spare child
/// has, 3 is the run stage.
pub(crate) fn workers(pool: &Pool, filters: u32) -> Vec<u32> {
    let zygote = pool.stats().zygote_pid.unwrap();
    let numbers = fs::read_to_string(format!("/proc/{zygote}/task/{zygote}/children")).unwrap_or_default();
    let has = |number: &u32| {
        let status = fs::read_to_string(format!("/proc/{number}/status")).unwrap_or_default();
        status.contains(&format!("Seccomp_filters:\t{filters}\n")) && !status.contains("State:\tZ")
    };
    numbers.split_whitespace().map(|number| number.parse().unwrap()).filter(has).collect()
}

/// Waits until process `number` has `canary` nowhere: a report arrives before the wiping. Returns whether reading
/// is permitted.
pub(crate) fn forgets(number: u32, canary: &[u8]) -> bool {
    let until = Instant::now() + PATIENCE;
    loop {
        match find(number, canary, "rw") {
            None => {
                println!("skipped: the memory of other processes may not be read here");
                return false;
            }
            Some(places) if places.is_empty() => return true,
            Some(places) => assert!(Instant::now() < until, "found at {places:x?}"),
        }
        thread::yield_now();
    }
}

/// Addresses of `canary` in the memory of process `number` with `access` (`rw`). `None` if reading is not
/// permitted.
pub(crate) fn find(number: u32, canary: &[u8], access: &str) -> Option<Vec<u64>> {
    let memory = File::open(format!("/proc/{number}/mem")).ok()?;
    let maps = fs::read_to_string(format!("/proc/{number}/maps")).ok()?;
    let mut found = Vec::new();
    for line in maps.lines().filter(|line| line.split(' ').nth(1).unwrap().starts_with(access)) {
        let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).unwrap());
        let mut page = vec![0; 1 << 20];
        let mut at = start;
        while at < end {
            let count = usize::try_from(end - at).unwrap().min(page.len());
            memory.read_exact_at(&mut page[..count], at).ok()?;
            at += count as u64;
            // Most pages are untouched.
            if page[..count].iter().fold(0, |all, byte| all | byte) == 0 {
                continue;
            }
            let at = at - count as u64;
            let hits = page[..count].windows(canary.len()).enumerate();
            found.extend(hits.filter(|(_, window)| *window == canary).map(|(offset, _)| at + offset as u64));
        }
    }
    Some(found)
}

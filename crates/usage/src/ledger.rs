//! The ledger: what came since the last flush in memory, the rest in the folder.

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::{
    amounts::Amounts,
    error::UsageError,
    export::{export, rows},
    folder::Folder,
    hour::Hour,
    table::{OTHERS, Tenants, UsageRow},
};

/// Hours that wait for a folder that cannot be written; what comes later counts as of the last of them.
const PENDING_HOURS_MAX: usize = 24;

/// Hours that one page looks into.
const PAGE_HOURS_MAX: usize = 168;

/// An hour that is over for so long has all that belongs to it.
const SETTLED: Duration = Duration::from_secs(300);

/// Between the parts of a page token.
const TOKEN_SEPARATOR: char = '/';

/// What is kept, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerConfig {
    /// The folder; made if it is not there. One process at a time.
    pub folder: PathBuf,
    /// Hours with use that are kept. The oldest go first; the clock has no say in it.
    pub hours_max: usize,
    /// Tenants of an hour; more are [`OTHERS`].
    pub tenants_max: usize,
    /// Where hours that are over are written as CSV and JSON, if anywhere.
    pub export: Option<PathBuf>,
}

/// Which rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// From this hour.
    pub from: Hour,
    /// Before this hour.
    pub until: Hour,
    /// Of this tenant alone.
    pub tenant: Option<Box<str>>,
    /// Behind what this page ended with; empty for the first one.
    pub token: String,
    /// Rows, at most.
    pub rows_max: usize,
}

/// Some of the rows, in the order of hours and tenants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsagePage {
    /// They may be none although more follow.
    pub rows: Vec<UsageRow>,
    /// For the next page; empty if there is none.
    pub token: String,
}

/// How keeping goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Flushes that failed; what they were to keep is still in memory.
    pub unkept_total: u64,
    /// Files that were not what was written.
    pub damaged_total: u64,
    /// Exports that failed; they are made again.
    pub unexported_total: u64,
}

/// What tenants used. One lock for what comes in, one for the folder.
#[derive(Debug)]
pub struct Ledger {
    config: LedgerConfig,
    pending: Mutex<BTreeMap<Hour, HashMap<Box<str>, Amounts>>>,
    kept: Mutex<Kept>,
    instance: String,
    unkept: AtomicU64,
    damaged: AtomicU64,
    unexported: AtomicU64,
}

/// The folder, and the last hour that was written.
#[derive(Debug)]
struct Kept {
    folder: Folder,
    last: Option<(Hour, Tenants)>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code under either lock can panic half-way through a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Ledger {
    /// Opens the folder.
    ///
    /// # Errors
    /// It cannot be had, or another process has it.
    pub fn open(config: LedgerConfig) -> Result<Self, UsageError> {
        let folder = Folder::open(&config.folder)?;
        let instance = folder.instance.clone();
        let (pending, unkept, damaged, unexported) = Default::default();
        let kept = Mutex::new(Kept { folder, last: None });
        Ok(Self { config, pending, kept, instance, unkept, damaged, unexported })
    }

    /// The folder's own name.
    #[must_use]
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// Adds `amounts` to what `tenant` used in this hour. Never waits for a disk.
    pub fn note(&self, tenant: &str, amounts: &Amounts) {
        self.note_in(Hour::now(), tenant, amounts);
    }

    fn note_in(&self, hour: Hour, tenant: &str, amounts: &Amounts) {
        let mut pending = lock(&self.pending);
        let is_full = pending.len() >= PENDING_HOURS_MAX && !pending.contains_key(&hour);
        let last = if is_full { pending.last_key_value().map(|(hour, _)| *hour) } else { None };
        let tenants = pending.entry(last.unwrap_or(hour)).or_default();
        let others = usize::from(tenants.contains_key(OTHERS));
        let has_row = tenants.contains_key(tenant) || tenants.len() - others < self.config.tenants_max;
        let tenant = if has_row { tenant } else { OTHERS };
        match tenants.get_mut(tenant) {
            Some(found) => found.add(amounts),
            None => {
                tenants.insert(tenant.into(), *amounts);
            }
        }
    }

    /// Adds what came since the last flush to the folder, lets go of hours that are too old, and exports
    /// those that are over. What cannot be written stays in memory. Blocks.
    ///
    /// # Errors
    /// The folder cannot be read or written.
    pub fn flush(&self) -> Result<(), UsageError> {
        let kept = &mut *lock(&self.kept);
        self.keep(kept).inspect_err(|_| count(&self.unkept))?;
        self.export(kept, Hour::before(SETTLED));
        Ok(())
    }

    fn keep(&self, kept: &mut Kept) -> Result<(), UsageError> {
        let mut taken = std::mem::take(&mut *lock(&self.pending));
        while let Some((hour, new)) = taken.pop_first() {
            if let Err(error) = self.keep_hour(kept, hour, &new) {
                taken.insert(hour, new);
                self.give_back(taken);
                return Err(error);
            }
        }
        let hours = kept.folder.hours()?;
        let many = hours.len().saturating_sub(self.config.hours_max);
        hours[..many].iter().try_for_each(|hour| kept.folder.remove(*hour))
    }

    fn keep_hour(
        &self,
        kept: &mut Kept,
        hour: Hour,
        new: &HashMap<Box<str>, Amounts>,
    ) -> Result<(), UsageError> {
        let mut tenants = match kept.last.take() {
            Some((last, tenants)) if last == hour => tenants,
            _ => self.read(&kept.folder, hour)?,
        };
        // If it is not written, the folder has what there was before.
        for (tenant, amounts) in new {
            let others = usize::from(tenants.contains_key(OTHERS));
            let has_row = tenants.contains_key(tenant) || tenants.len() - others < self.config.tenants_max;
            let tenant = if has_row { tenant.clone() } else { OTHERS.into() };
            tenants.entry(tenant).or_default().add(amounts);
        }
        kept.folder.write(hour, &tenants)?;
        kept.last = Some((hour, tenants));
        Ok(())
    }

    fn give_back(&self, taken: BTreeMap<Hour, HashMap<Box<str>, Amounts>>) {
        for (hour, tenants) in taken {
            tenants.iter().for_each(|(tenant, amounts)| self.note_in(hour, tenant, amounts));
        }
    }

    fn read(&self, folder: &Folder, hour: Hour) -> Result<Tenants, UsageError> {
        folder.read(hour, || count(&self.damaged))
    }

    fn export(&self, kept: &Kept, now: Hour) {
        let Some(to) = &self.config.export else { return };
        if let Err(error) = export(&kept.folder, to, now, |hour| self.read(&kept.folder, hour)) {
            count(&self.unexported);
            tracing::error!(%error, source = ?std::error::Error::source(&error), "usage is not exported");
        }
    }

    /// Rows that `query` asks for. What they tell is in the folder: a kill later takes nothing of it back.
    /// Blocks.
    ///
    /// # Errors
    /// The folder cannot be read or written, or the token is of another server.
    pub fn page(&self, query: &Query) -> Result<UsagePage, UsageError> {
        let (start, mut behind) = self.start(query)?;
        self.flush()?;
        let kept = lock(&self.kept);
        let hours = kept.folder.hours()?;
        let mut hours = hours.into_iter().filter(|hour| (start..query.until).contains(hour));
        let mut page = UsagePage { rows: Vec::new(), token: String::new() };
        for hour in hours.by_ref().take(PAGE_HOURS_MAX) {
            let mut tenants = self.read(&kept.folder, hour)?;
            if let Some(behind) = behind.take().filter(|_| hour == start) {
                tenants = tenants.split_off(&*behind);
                tenants.remove(&*behind);
            }
            tenants.retain(|tenant, _| query.tenant.as_ref().is_none_or(|wanted| wanted == tenant));
            let room = query.rows_max.saturating_sub(page.rows.len());
            let is_more = tenants.len() > room;
            page.rows.extend(rows(hour, tenants).into_iter().take(room));
            if is_more {
                let last = page.rows.last().map_or((hour, ""), |row| (row.hour, &*row.tenant));
                page.token = self.token(last.0, last.1);
                return Ok(page);
            }
        }
        if let Some(next) = hours.next() {
            page.token = self.token(next, "");
        }
        Ok(page)
    }

    fn token(&self, hour: Hour, tenant: &str) -> String {
        format!("{}{TOKEN_SEPARATOR}{hour}{TOKEN_SEPARATOR}{tenant}", self.instance)
    }

    /// The hour that a page begins with, and the tenant that it begins behind.
    fn start(&self, query: &Query) -> Result<(Hour, Option<Box<str>>), UsageError> {
        if query.token.is_empty() {
            return Ok((query.from, None));
        }
        let mut parts = query.token.splitn(3, TOKEN_SEPARATOR);
        let is_own = parts.next() == Some(&*self.instance);
        let hour = parts.next().and_then(|hour| hour.parse().ok()).filter(|_| is_own);
        let behind = parts.next().filter(|tenant| !tenant.is_empty()).map(Box::from);
        Ok((hour.ok_or(UsageError::Token)?, behind))
    }

    /// How keeping goes.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats {
            unkept_total: self.unkept.load(Ordering::Relaxed),
            damaged_total: self.damaged.load(Ordering::Relaxed),
            unexported_total: self.unexported.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests;

//! Second runs: native work is done again in the interpreter, by another worker, and what differs is taken
//! out of use.

use std::sync::Arc;

use antares_pool::Pool;
use antares_serve::Account;
use tokio::time::Instant;

use crate::{
    artifacts::ready::Used,
    ended::Found,
    runner::Shared,
    shadow_runs::comparison::{Again, Second},
    tenant::Tenant,
};

impl Shared {
    /// Does `second` again and compares with what its first run, by the native code `used`, told: before the
    /// answer if the caller asked, else behind it. Gives what is to be believed, and for a caller who asked
    /// what came of it.
    pub(crate) async fn recheck<A: Again>(
        self: &Arc<Self>,
        tenant: &Tenant,
        used: &[Used],
        second: Second<A>,
        first: A::Told,
    ) -> (A::Told, Option<Found>) {
        if second.is_asked {
            let (found, interpreted) = self.run_again(tenant, used, second, &first).await;
            return (interpreted.unwrap_or(first), Some(found));
        }
        let Ok(place) = self.recheck.places.clone().try_acquire_owned() else {
            self.recheck.note(Found::PassedOver);
            return (first, None);
        };
        let (shared, tenant, used, native) = (self.clone(), tenant.clone(), used.to_vec(), first.clone());
        tokio::spawn(async move {
            shared.run_again(&tenant, &used, second, &native).await;
            drop(place);
        });
        (first, None)
    }

    /// Gives what came of it, and what the interpreter told if that is another answer.
    async fn run_again<A: Again>(
        &self,
        tenant: &Tenant,
        used: &[Used],
        second: Second<A>,
        first: &A::Told,
    ) -> (Found, Option<A::Told>) {
        let interpreted = self.interpret(tenant, second).await;
        let difference = interpreted.as_ref().map(|interpreted| A::difference(first, interpreted));
        let (found, believed) = match difference {
            None => (Found::PassedOver, None),
            Some(None) => (Found::Equal, None),
            Some(Some(detail)) => {
                self.ready.bar(used, &detail);
                (Found::Different, interpreted)
            }
        };
        self.recheck.note(found);
        (found, believed)
    }

    async fn interpret<A: Again>(&self, tenant: &Tenant, second: Second<A>) -> Option<A::Told> {
        let (slot, _) = self.slot(tenant).await.ok()?;
        let Second { work, time, is_asked } = second;
        let began = Instant::now();
        let mut bill = is_asked.then(|| Bill::begin(&tenant.account));
        let run = move |pool: &Pool, until| work.run(pool, until);
        let told = self.lend(slot, time, (began + time).into(), run).await.ok().and_then(|lent| lent.answer);
        if let Some(bill) = &mut bill {
            told.as_ref().map(A::cycles).into_iter().for_each(|cycles| bill.told(cycles));
        }
        told
    }
}

/// What a second run costs whoever asked for it, also if nobody waits for its end.
pub(crate) struct Bill<'a> {
    account: &'a Account,
    began: Instant,
    /// None if it told none: then its time counts.
    cycles: Option<u64>,
}

impl<'a> Bill<'a> {
    /// Of a run that begins now.
    pub(crate) fn begin(account: &'a Account) -> Self {
        Self { account, began: Instant::now(), cycles: None }
    }

    /// It told so many cycles.
    pub(crate) fn told(&mut self, cycles: u64) {
        self.cycles = Some(cycles);
    }
}

impl Drop for Bill<'_> {
    fn drop(&mut self) {
        match self.cycles {
            Some(cycles) => self.account.ran(1, cycles, self.began.elapsed()),
            None => self.account.ran_for(self.began.elapsed(), u64::MAX),
        }
    }
}

//! The compile's side of the race, and the moment at which the interpreter may begin.

/// Native code that is on its way for one run: one piece or several.
pub(crate) trait PendingCode {
    /// Why the call cannot go on.
    type Error;

    /// Waits until all has come, or all but what takes long. Gives whether something long is missing.
    fn until_long(&mut self) -> impl Future<Output = Result<bool, Self::Error>> + Send;

    /// Waits until all has come that comes in time.
    fn rest(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Lets long compiles that wait begin at once.
    fn wake(&self);

    /// How many pieces of native code are there.
    fn there(&self) -> usize;

    /// Keeps ready what comes later: this run goes on without.
    fn keep_later(&mut self);
}

/// A worker for a run that begins without all of its native code, from `take_idle`; none where there is
/// nothing to race against or nobody to do it: then all native code has come that does.
///
/// # Errors
/// That of the compile.
pub(crate) async fn idle_worker<C: PendingCode, W>(
    compile: &mut C,
    take_idle: impl FnOnce() -> Option<W>,
) -> Result<Option<W>, C::Error> {
    if !compile.until_long().await? {
        return Ok(None);
    }
    let worker = take_idle();
    if worker.is_none() {
        compile.wake();
        compile.rest().await?;
    }
    Ok(worker)
}

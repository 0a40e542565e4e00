//! The resync barrier: it keeps requests out while background jobs work, and background jobs out
//! while requests are under way. This file says what any barrier must do; the array's own, in its
//! variants, is [`CountingBarrier`].
//!
//! Never knows which sectors a request or a job touches: the barrier is one for the whole array, as
//! in md's raid10.

pub use super::counting_barrier::CountingBarrier;
use crate::platform::Platform;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// How often the barrier can be raised at once, as in md.
pub const RESYNC_DEPTH: u32 = 32;

/// The step of a barrier that a user plugs in.
pub type Step<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// A barrier of the user's own, for [`Array::create_with_barrier`].
///
/// Contract:
/// - A request is *inside* from the return of `enter` to the call of `leave`. A background job is
///   inside from the return of `raise` to the call of `lower`. No request is ever inside together
///   with a background job.
/// - Requests never wait for each other, nor jobs for each other, up to [`RESYNC_DEPTH`] of them.
/// - What happened inside before is seen inside after: `leave` and `lower` publish, `enter` and
///   `raise` observe.
///
/// [`Array::create_with_barrier`]: crate::array::Array::create_with_barrier
pub trait ResyncBarrier<P: Platform>: Send + Sync + 'static {
    /// A request begins. Waits while the barrier is raised.
    fn enter<'a>(&'a self, cpu: &'a P::Cpu) -> Step<'a>;

    /// A request has been handed to the members, or a batch of writes has been sent off. The driver
    /// wakes whoever waits at the barrier here; a barrier that needs no such wake-up does nothing.
    fn submitted<'a>(&'a self, cpu: &'a P::Cpu) -> Step<'a>;

    /// A request has ended.
    fn leave<'a>(&'a self, cpu: &'a P::Cpu) -> Step<'a>;

    /// A background job begins: keeps new requests out, waits until none is inside. It lets those
    /// go first that wait already, unless `force`: then the caller is inside already and must not
    /// wait for requests that wait for it.
    fn raise<'a>(&'a self, cpu: &'a P::Cpu, force: bool) -> Step<'a>;

    /// A background job ends.
    fn lower<'a>(&'a self, cpu: &'a P::Cpu) -> Step<'a>;
}

/// The barrier of one array. The built-in one is called directly, without boxed futures.
pub(crate) enum Barrier<P: Platform> {
    Counting(CountingBarrier<P>),
    Custom(Arc<dyn ResyncBarrier<P>>),
}

impl<P: Platform> Barrier<P> {
    pub(crate) async fn enter(&self, cpu: &P::Cpu) {
        match self {
            Self::Counting(barrier) => barrier.enter(cpu).await,
            Self::Custom(barrier) => barrier.enter(cpu).await,
        }
    }

    /// Whether a request that enters now would sleep. Exact only for a moment; of a barrier from
    /// outside nobody knows, and it says no.
    pub(crate) async fn would_wait(&self, cpu: &P::Cpu) -> bool {
        match self {
            Self::Counting(barrier) => barrier.is_raised(cpu).await,
            Self::Custom(_) => false,
        }
    }

    pub(crate) async fn submitted(&self, cpu: &P::Cpu) {
        match self {
            Self::Counting(barrier) => barrier.submitted(cpu).await,
            Self::Custom(barrier) => barrier.submitted(cpu).await,
        }
    }

    pub(crate) async fn leave(&self, cpu: &P::Cpu) {
        match self {
            Self::Counting(barrier) => barrier.leave(cpu).await,
            Self::Custom(barrier) => barrier.leave(cpu).await,
        }
    }

    pub(crate) async fn raise(&self, cpu: &P::Cpu, force: bool) {
        match self {
            Self::Counting(barrier) => barrier.raise(cpu, force).await,
            Self::Custom(barrier) => barrier.raise(cpu, force).await,
        }
    }

    pub(crate) async fn lower(&self, cpu: &P::Cpu) {
        match self {
            Self::Counting(barrier) => barrier.lower(cpu).await,
            Self::Custom(barrier) => barrier.lower(cpu).await,
        }
    }
}

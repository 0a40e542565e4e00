//! What cores share on the path of a request, and the strategies that guard it.

pub mod barrier;
mod counting_barrier;
pub mod dispatch;
mod range_claims;
mod suspension;
mod turn;

pub(crate) use range_claims::RangeClaims;
pub(crate) use suspension::Suspension;
pub(crate) use turn::Turn;

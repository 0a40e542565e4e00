//! What cores share on the path of a request, and the strategies that guard it.

pub mod barrier;
mod counting_barrier;
mod range_claims;
mod suspension;

pub(crate) use range_claims::RangeClaims;
pub(crate) use suspension::Suspension;

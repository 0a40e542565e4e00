//! Sectors of members whose content is unknown: a write to them failed, and they could neither be
//! noted in the member's log of bad blocks nor the member be spared. They may hold old or new data,
//! sector by sector, while parity holds the new. Until they are written again they count as lost, so
//! that what is put together from them is never wrong.
//!
//! Kept in memory only. A member that cannot be spared means that others are failed or not filled in,
//! so the array is degraded, and its superblocks call it dirty: since its first write, and from a
//! failed write on until a resync has passed. Parity of such an array is in doubt as a whole, and
//! assembly refuses it unless it is forced. Arrays of bare devices keep no metadata: whoever opens
//! the devices again has to know that a write failed.

use crate::lock::{SpinKind, SpinLock};
use crate::platform::{Label, Ordering, Place, Platform, Word};
use crate::request::Extent;
use crate::units::{MemberIndex, Sector};

/// The sectors in doubt.
pub(super) struct Doubts<P: Platform> {
    /// How many entries the list has; read without the lock.
    count: P::Word,
    list: SpinLock<P, Vec<(MemberIndex, Extent)>>,
}

impl<P: Platform> Doubts<P> {
    pub(super) fn new(platform: &P, kind: SpinKind) -> Self {
        let label = Label::new("doubts");
        Self {
            count: platform.word(label, Place::Alone, 0),
            list: SpinLock::new(platform, label, kind, Place::Alone, Vec::new()),
        }
    }

    /// Whether no sector is in doubt.
    pub(super) async fn is_empty(&self, cpu: &P::Cpu) -> bool {
        self.count.load(cpu, Ordering::Acquire).await == 0
    }

    /// Adds sectors of a member.
    pub(super) async fn add(&self, cpu: &P::Cpu, member: MemberIndex, extent: Extent) {
        let add = async |list: &mut Vec<(MemberIndex, Extent)>| {
            list.push((member, extent));
            self.count.store(cpu, list.len() as u64, Ordering::Release).await;
        };
        self.list.with(cpu, add).await;
    }

    /// Takes sectors out that have been written.
    pub(super) async fn clear(&self, cpu: &P::Cpu, member: MemberIndex, written: Extent) {
        if self.is_empty(cpu).await {
            return;
        }
        let clear = async |list: &mut Vec<(MemberIndex, Extent)>| {
            let rest = |(of, extent): (MemberIndex, Extent)| {
                let keep = if of == member { without(extent, written) } else { vec![extent] };
                keep.into_iter().map(move |extent| (of, extent))
            };
            *list = std::mem::take(list).into_iter().flat_map(rest).collect();
            self.count.store(cpu, list.len() as u64, Ordering::Release).await;
        };
        self.list.with(cpu, clear).await;
    }

    /// The parts of `extent` that are in doubt.
    pub(super) async fn within(
        &self,
        cpu: &P::Cpu,
        member: MemberIndex,
        extent: Extent,
    ) -> Vec<Extent> {
        if self.count.load(cpu, Ordering::Acquire).await == 0 {
            return Vec::new();
        }
        let find = async |list: &mut Vec<(MemberIndex, Extent)>| {
            let of_member = list.iter().filter(|(of, _)| *of == member);
            of_member.filter_map(|(_, doubtful)| shared(*doubtful, extent)).collect()
        };
        self.list.with(cpu, find).await
    }
}

fn between(start: Sector, end: Sector) -> Option<Extent> {
    (start < end).then(|| Extent { at: start, length: end - start })
}

fn shared(one: Extent, other: Extent) -> Option<Extent> {
    between(one.at.max(other.at), one.end().min(other.end()))
}

/// What is left of `extent`.
fn without(extent: Extent, hole: Extent) -> Vec<Extent> {
    if !extent.overlaps(hole) {
        return vec![extent];
    }
    let parts = [between(extent.at, hole.at), between(hole.end(), extent.end())];
    parts.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Sectors;

    fn check(extent: (u64, u64), hole: (u64, u64), expected: &[(u64, u64)]) {
        let of = |(at, length)| Extent { at: Sector(at), length: Sectors(length) };
        let left = without(of(extent), of(hole));
        assert_eq!(left, expected.iter().map(|part| of(*part)).collect::<Vec<_>>());
    }

    #[test]
    fn a_hole_leaves_what_is_before_and_behind() {
        check((10, 10), (0, 10), &[(10, 10)]);
        check((10, 10), (5, 8), &[(13, 7)]);
        check((10, 10), (12, 3), &[(10, 2), (15, 5)]);
        check((10, 10), (0, 50), &[]);
    }
}

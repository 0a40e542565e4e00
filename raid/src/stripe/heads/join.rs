//! Batches: a head that has become full follows the head of the row before it, if that is full too
//! and nobody carries it out yet. The first of a chunk leads.

use super::add::Adding;
use super::content::{Content, Membership, RowPlace};
use super::{HeadId, Heads};
use crate::platform::{Ordering, Platform, Word};

impl<P: Platform> Adding<'_, P> {
    /// A head has become full.
    pub(super) async fn join_batch(&mut self, id: HeadId, place: RowPlace) {
        let (heads, cpu) = (self.heads, self.cpu);
        if place.start.0 != 0 {
            match self.last {
                Some((last, row)) if row + 1 == place.row => {
                    heads.follow(cpu, last, id, self.data_count()).await;
                }
                _ => {
                    if let Some(before) = heads.find(cpu, place.row - 1).await {
                        heads.follow(cpu, before, id, self.data_count()).await;
                        self.array.let_head_go(cpu, heads, before).await;
                    }
                }
            }
        }
        if heads.lookup.keeps_last() {
            heads.head(id).count.fetch_add(cpu, 1, Ordering::AcqRel).await;
            if let Some((last, _)) = self.last.replace((id, place.row)) {
                self.array.let_head_go(cpu, heads, last).await;
            }
        }
    }
}

impl<P: Platform> Heads<P> {
    /// Has `id`, which is counted, follow in the batch of `before`, which is counted too, if it can.
    /// A head that follows is counted once more until its batch has been carried out.
    async fn follow(&self, cpu: &P::Cpu, before: HeadId, id: HeadId, data_count: u32) {
        let lead_of = async |content: &mut Content<P>| match content.membership {
            _ if !content.can_batch(data_count) => None,
            Membership::Follows(lead) => Some(lead),
            Membership::Alone | Membership::Lead(_) => Some(before),
        };
        let lead = self.head(before).content.with(cpu, lead_of).await;
        let Some(lead) = lead else { return };
        let follow = async |leads: &mut Content<P>| {
            // Since it was looked at it may have been carried out, and be another's head now.
            if !leads.can_batch(data_count) {
                return;
            }
            let (last, count) = match &leads.membership {
                Membership::Alone => (lead, 1),
                Membership::Lead(others) => {
                    (*others.last().expect("a batch is two at least"), 1 + others.len() as u64)
                }
                Membership::Follows(_) => return,
            };
            if last != before || count >= self.batch_heads_max {
                return;
            }
            let durability = leads.durability();
            let join = async |joins: &mut Content<P>| {
                let joining = joins.can_batch(data_count)
                    && matches!(joins.membership, Membership::Alone)
                    && joins.durability() == durability;
                if joining {
                    joins.membership = Membership::Follows(lead);
                    self.head(id).count.fetch_add(cpu, 1, Ordering::AcqRel).await;
                }
                joining
            };
            if self.head(id).content.with(cpu, join).await {
                match &mut leads.membership {
                    Membership::Lead(others) => others.push(id),
                    alone => *alone = Membership::Lead(vec![id]),
                }
            }
        };
        self.head(lead).content.with(cpu, follow).await;
    }
}

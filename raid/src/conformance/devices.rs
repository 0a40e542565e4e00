//! Devices that store what is written.

use super::{on_all_cores, participants};
use crate::buffer::{Buffer, SharedBuffer};
use crate::device::{Device, Durability, Io, IoDone, IoError};
use crate::platform::{Cpu, Platform};
use crate::units::{Sector, Sectors};
use std::sync::Arc;

/// Requests under way at once in the check that asks for many.
const DEPTH: u64 = 128;
/// Blocks of its own that each core writes in the check that uses all cores.
const BLOCKS_PER_CORE: u64 = 8;

/// Everything that a device promises short of a power cut. Overwrites it.
///
/// # Panics
/// If the device breaks its contract, or holds fewer than 256 logical blocks.
pub async fn device<P: Platform>(cpu: &P::Cpu, device: &Arc<P::Device>) {
    let drive = Drive::<P> { cpu, device };
    assert!(drive.blocks() >= 256, "the suite needs a larger device");
    drive.reads_return_what_was_written().await;
    drive.durable_writes_and_flushes_are_done().await;
    drive.requests_beyond_the_end_touch_nothing().await;
    drive.pieces_of_a_buffer_are_independent().await;
    drive.many_requests_are_under_way_at_once().await;
    drive.abandoned_requests_harm_nobody().await;
    drive.discarded_blocks_can_be_written_again().await;
    all_cores_use_the_device::<P>(cpu, device).await;
}

/// A device as one core uses it, in units of its blocks.
struct Drive<'a, P: Platform> {
    cpu: &'a P::Cpu,
    device: &'a Arc<P::Device>,
}

impl<P: Platform> Drive<'_, P> {
    fn block_bytes(&self) -> usize {
        self.device.logical_block_bytes() as usize
    }

    fn blocks(&self) -> u64 {
        self.device.size().bytes() / self.block_bytes() as u64
    }

    fn at(&self, block: u64) -> Sector {
        Sector(Sectors::from_bytes_rounded_down(block * self.block_bytes() as u64).0)
    }

    /// Bytes that differ from block to block and from generation to generation.
    fn pattern(&self, block: u64, blocks: u64, generation: u64) -> Buffer {
        let mut buffer = Buffer::zeroed(blocks as usize * self.block_bytes());
        let words = self.block_bytes() as u64 / 8;
        for (index, bytes) in (0..).zip(buffer.chunks_exact_mut(8)) {
            let word = (block * words + index) ^ generation << 48;
            bytes.copy_from_slice(&word.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes());
        }
        buffer
    }

    async fn submit(&self, io: Io) -> <P::Device as Device<P>>::Completion {
        self.device.submit(self.cpu, io).await
    }

    async fn submit_read(&self, block: u64, blocks: u64) -> <P::Device as Device<P>>::Completion {
        let into = Buffer::zeroed(blocks as usize * self.block_bytes());
        self.submit(Io::Read { at: self.at(block), into }).await
    }

    async fn submit_write(
        &self,
        block: u64,
        data: SharedBuffer,
        durability: Durability,
    ) -> <P::Device as Device<P>>::Completion {
        self.submit(Io::Write { at: self.at(block), data, durability }).await
    }

    async fn write(&self, block: u64, blocks: u64, generation: u64) {
        let data = self.pattern(block, blocks, generation).into_shared();
        let done = self.submit_write(block, data, Durability::Cached).await.await;
        assert_eq!(done.result, Ok(()), "write of {blocks} blocks at {block}");
    }

    async fn expect(&self, block: u64, blocks: u64, generation: u64) {
        let done = self.submit_read(block, blocks).await.await;
        self.expect_read(done, block, blocks, generation);
    }

    fn expect_read(&self, done: IoDone, block: u64, blocks: u64, generation: u64) {
        assert_eq!(done.result, Ok(()), "read of {blocks} blocks at {block}");
        let found = done.buffer.expect("a read gives its buffer back");
        let same = *found == *self.pattern(block, blocks, generation);
        assert!(same, "{blocks} blocks at {block} are not what was written");
    }

    async fn reads_return_what_was_written(&self) {
        for (block, blocks) in [(0, 1), (1, 3), (7, 64), (self.blocks() - 1, 1), (100, 150)] {
            self.write(block, blocks, 1).await;
            self.expect(block, blocks, 1).await;
        }
        // A part of a longer write is replaced, the rest stays.
        self.write(110, 2, 2).await;
        self.expect(100, 10, 1).await;
        self.expect(110, 2, 2).await;
        self.expect(112, 138, 1).await;
    }

    async fn durable_writes_and_flushes_are_done(&self) {
        let data = self.pattern(20, 4, 3).into_shared();
        let done = self.submit_write(20, data, Durability::Fua).await.await;
        assert_eq!(done.result, Ok(()), "a write through");
        self.expect(20, 4, 3).await;
        let done = self.submit(Io::Flush).await.await;
        assert_eq!(done.result, Ok(()), "a flush");
        self.write(20, 4, 4).await;
        self.expect(20, 4, 4).await;
    }

    async fn requests_beyond_the_end_touch_nothing(&self) {
        let last = self.blocks() - 1;
        self.write(last, 1, 5).await;
        for (block, blocks) in [(last, 2), (last + 1, 1), (1 << 50, 1)] {
            let length = Sectors(self.at(blocks).0);
            let expected =
                Err(IoError::OutOfRange { at: self.at(block), length, size: self.device.size() });
            let done = self.submit_read(block, blocks).await.await;
            assert_eq!(done.result, expected, "read of {blocks} blocks at {block}");
            let buffer = done.buffer.expect("a read gives its buffer back in failure too");
            assert_eq!(buffer.len(), blocks as usize * self.block_bytes());
            let data = self.pattern(block, blocks, 6).into_shared();
            let done = self.submit_write(block, data, Durability::Cached).await.await;
            assert_eq!(done.result, expected, "write of {blocks} blocks at {block}");
        }
        self.expect(last, 1, 5).await;
    }

    async fn pieces_of_a_buffer_are_independent(&self) {
        let data = self.pattern(30, 4, 7).into_shared();
        let half = 2 * self.block_bytes();
        let front = self.submit_write(30, data.slice(0..half), Durability::Cached).await;
        let back = self.submit_write(32, data.slice(half..2 * half), Durability::Cached).await;
        assert_eq!((front.await.result, back.await.result), (Ok(()), Ok(())));
        let (front, back) = Buffer::zeroed(2 * half).split_at(half);
        let front = self.submit(Io::Read { at: self.at(30), into: front }).await;
        let back = self.submit(Io::Read { at: self.at(32), into: back }).await;
        let (back, front) = (back.await, front.await);
        assert_eq!((front.result, back.result), (Ok(()), Ok(())));
        let pieces = (front.buffer.expect("given back"), back.buffer.expect("given back"));
        assert!(*pieces.0.join(pieces.1) == *data, "a split read differs from what was written");
    }

    async fn many_requests_are_under_way_at_once(&self) {
        let mut writes = Vec::new();
        for block in 0..DEPTH {
            let data = self.pattern(block, 1, 8).into_shared();
            writes.push(self.submit_write(block, data, Durability::Cached).await);
        }
        // Waited for in another order than they were submitted.
        for write in writes.into_iter().rev() {
            assert_eq!(write.await.result, Ok(()));
        }
        let mut reads = Vec::new();
        for block in 0..DEPTH {
            reads.push((block, self.submit_read(block, 1).await));
        }
        for (block, read) in reads.into_iter().rev() {
            self.expect_read(read.await, block, 1, 8);
        }
    }

    async fn abandoned_requests_harm_nobody(&self) {
        self.write(40, 8, 9).await;
        for _ in 0..16 {
            drop(self.submit_read(40, 8).await);
            let data = self.pattern(40, 8, 9).into_shared();
            drop(self.submit_write(40, data, Durability::Cached).await);
            self.expect(40, 8, 9).await;
        }
    }

    async fn discarded_blocks_can_be_written_again(&self) {
        self.write(50, 6, 10).await;
        let length = Sectors(self.at(2).0);
        let done = self.submit(Io::Discard { at: self.at(52), length }).await.await;
        let unsupported = Err(IoError::Unsupported { operation: "discard" });
        assert!(done.result == Ok(()) || done.result == unsupported, "{:?}", done.result);
        self.expect(50, 2, 10).await;
        self.expect(54, 2, 10).await;
        self.write(52, 2, 11).await;
        self.expect(52, 2, 11).await;
    }
}

/// Each core writes blocks of its own and reads them, and then those of the next core.
async fn all_cores_use_the_device<P: Platform>(cpu: &P::Cpu, device: &Arc<P::Device>) {
    let shared = device.clone();
    on_all_cores::<P, _>(cpu, 1, move |cpu, number| {
        let device = shared.clone();
        async move {
            let drive = Drive::<P> { cpu: &cpu, device: &device };
            let first = u64::from(number) * BLOCKS_PER_CORE;
            for block in first..first + BLOCKS_PER_CORE {
                drive.write(block, 1, 12).await;
                drive.expect(block, 1, 12).await;
            }
        }
    })
    .await;
    let written = participants(cpu.platform()).count() as u64 * BLOCKS_PER_CORE;
    Drive::<P> { cpu, device }.expect(0, written, 12).await;
}

//! Copies an array's content out, and content in: several MiB under way at once, in order at the
//! file's end. Bytes need not begin or end at a block.

use super::interrupt::Interrupt;
use super::opening::OpenArray;
use super::pipeline::Pipeline;
use super::source::Source;
use super::target_file::TargetFile;
use crate::report::progress::Progress;
use anyhow::{Context, Result, bail, ensure};
use backends::RealPlatform;
use raid::buffer::Buffer;
use raid::device::Durability;
use raid::platform::Label;
use raid::units::{CpuId, SECTOR_BYTES, Sector};
use raid::{Array, ReadDone};
use std::ops::Range;
use std::sync::Arc;

/// Bytes that all requests under way hold together, about.
const UNDER_WAY_BYTES: u64 = 16 << 20;

/// A range of bytes cut into pieces that end at multiples of the piece.
struct Pieces {
    rest: Range<u64>,
    piece_bytes: u64,
}

impl Iterator for Pieces {
    type Item = Range<u64>;
    fn next(&mut self) -> Option<Range<u64>> {
        let start = self.rest.start;
        let end = self.rest.end.min((start / self.piece_bytes + 1) * self.piece_bytes);
        self.rest.start = end;
        (start < end).then_some(start..end)
    }
}

/// The whole blocks that some bytes lie in.
fn blocks_around(bytes: &Range<u64>, block_bytes: u64) -> Range<u64> {
    bytes.start / block_bytes * block_bytes..bytes.end.next_multiple_of(block_bytes)
}

fn requests_under_way(piece_bytes: u64) -> usize {
    (UNDER_WAY_BYTES / piece_bytes).clamp(2, 32) as usize
}

/// What becomes of bytes that the array cannot give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// The copy ends there.
    Refused,
    /// Zeros take their place.
    Skipped,
}

/// Copies bytes of the array to the target. Which of them the array could not give, in whole blocks,
/// neighbours joined; the target has zeros there.
///
/// # Errors
/// What the array cannot give, if that is refused; what the target does not take, or an
/// interruption.
pub fn copy_out(
    open: &OpenArray,
    bytes: Range<u64>,
    unreadable: Unreadable,
    mut target: TargetFile,
    interrupt: &Interrupt,
) -> Result<Vec<Range<u64>>> {
    let block_bytes = u64::from(open.assembled.logical_block_bytes());
    let piece_bytes = open.survey.piece().bytes();
    let progress = Progress::of_bytes("copying out", Some(bytes.end - bytes.start));
    let mut pieces = Pieces { rest: bytes, piece_bytes };
    let mut wanted = std::collections::VecDeque::new();
    let mut pipeline: Pipeline<'_, ReadDone> = Pipeline::new(&open.machine);
    let mut spare: Vec<Buffer> = Vec::new();
    let mut skipped = Vec::new();
    loop {
        while pipeline.len() < requests_under_way(piece_bytes) {
            let Some(piece) = pieces.next() else { break };
            let blocks = blocks_around(&piece, block_bytes);
            let length = (blocks.end - blocks.start) as usize;
            let fits = spare.iter().position(|buffer| buffer.len() == length);
            let into = match fits {
                Some(index) => spare.swap_remove(index),
                None => Buffer::zeroed(length),
            };
            let (assembled, at) =
                (Arc::clone(&open.assembled), Sector(blocks.start / SECTOR_BYTES));
            pipeline.start(Label::new("copy out"), move |cpu| async move {
                assembled.read(&cpu, at, into).await
            });
            wanted.push_back((piece, blocks.start));
        }
        let Some(done) = pipeline.fetch() else { break };
        let (piece, start) = wanted.pop_front().expect("a piece for each request");
        interrupt.check("the target is not whole")?;
        let mut buffer = done.buffer;
        match (done.result, unreadable) {
            (Ok(()), _) => {}
            (Err(error), Unreadable::Refused) => {
                let refused = format!("the array cannot give bytes {piece:?}");
                return Err(anyhow::Error::new(error).context(refused));
            }
            (Err(_), Unreadable::Skipped) => {
                let blocks = start..start + buffer.len() as u64;
                let mut bisection =
                    Bisection { open, block_bytes, interrupt, skipped: &mut skipped };
                bisection.read(blocks, &mut buffer)?;
            }
        }
        target.write(&buffer[(piece.start - start) as usize..(piece.end - start) as usize])?;
        progress.advance(piece.end - piece.start);
        spare.push(buffer);
    }
    target.finish()?;
    Ok(skipped)
}

/// Reads around blocks that the array cannot give.
struct Bisection<'of> {
    open: &'of OpenArray,
    block_bytes: u64,
    interrupt: &'of Interrupt,
    /// Blocks that could not be read, in ascending order, neighbours joined.
    skipped: &'of mut Vec<Range<u64>>,
}

impl Bisection<'_> {
    /// Fills the buffer with blocks of the array of which some cannot be read: these with zeros.
    fn read(&mut self, blocks: Range<u64>, into: &mut [u8]) -> Result<()> {
        let count = (blocks.end - blocks.start) / self.block_bytes;
        if count <= 1 {
            into.fill(0);
            join(self.skipped, blocks);
            return Ok(());
        }
        let middle = blocks.start + count / 2 * self.block_bytes;
        let (left, right) = into.split_at_mut((middle - blocks.start) as usize);
        for (half, into) in [(blocks.start..middle, left), (middle..blocks.end, right)] {
            self.interrupt.check("the target is not whole")?;
            let (assembled, at) =
                (Arc::clone(&self.open.assembled), Sector(half.start / SECTOR_BYTES));
            let buffer = Buffer::zeroed(into.len());
            let done = self.open.machine.block_on(CpuId(0), move |cpu| async move {
                assembled.read(&cpu, at, buffer).await
            });
            match done.result {
                Ok(()) => into.copy_from_slice(&done.buffer),
                Err(_) => self.read(half, into)?,
            }
        }
        Ok(())
    }
}

/// Adds a range behind the others.
fn join(ranges: &mut Vec<Range<u64>>, range: Range<u64>) {
    match ranges.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        _ => ranges.push(range),
    }
}

/// Refuses a source that is known to be longer than what the array has behind the offset. How many
/// bytes it has there.
///
/// # Errors
/// Says by how much.
pub fn check_fits(open: &OpenArray, source: &Source, offset_bytes: u64) -> Result<u64> {
    let capacity = open.assembled.capacity().bytes();
    ensure!(
        offset_bytes <= capacity,
        "--offset of {offset_bytes} bytes lies beyond the array's {capacity}"
    );
    let length = source.length_bytes().unwrap_or(0);
    ensure!(
        length <= capacity - offset_bytes,
        "{}: {length} bytes from byte {offset_bytes} on are more than the array's {capacity}",
        source.name()
    );
    Ok(capacity - offset_bytes)
}

/// Copies the source into the array, from a byte on, and makes it durable. How many bytes it was.
///
/// # Errors
/// What the source does not give, what the array does not take, a source that holds more than the
/// array, or an interruption.
pub fn copy_in(
    open: &OpenArray,
    source: &mut Source,
    offset_bytes: u64,
    interrupt: &Interrupt,
) -> Result<u64> {
    let array = open.whole()?;
    let capacity_bytes = array.capacity().bytes();
    let room = check_fits(open, source, offset_bytes)?;
    let progress = Progress::of_bytes("copying in", source.length_bytes());
    let piece_bytes = open.survey.piece().bytes();
    let mut pipeline: Pipeline<'_, Result<u64, raid::ArrayError>> = Pipeline::new(&open.machine);
    let mut copied = 0;
    let finish = |done: Result<u64, raid::ArrayError>| -> Result<()> {
        progress.advance(done.context("the array does not take the data")?);
        Ok(())
    };
    for piece in (Pieces { rest: offset_bytes..capacity_bytes, piece_bytes }) {
        let (start, data) = read_piece(open, &array, source, &piece)?;
        let Some(data) = data else { break };
        let filled = data.filled;
        copied += filled;
        let (array, at) = (Arc::clone(&array), Sector(start / SECTOR_BYTES));
        pipeline.start(Label::new("copy in"), move |cpu| async move {
            let data = data.buffer.into_shared();
            array.write(&cpu, at, data, Durability::Cached).await.map(|()| filled)
        });
        while pipeline.len() >= requests_under_way(piece_bytes) {
            finish(pipeline.fetch().expect("requests are under way"))?;
        }
        if let Err(interrupted) = interrupt.check("a part of the data is in the array") {
            drain(&mut pipeline);
            return Err(interrupted.into());
        }
        if filled < piece.end - piece.start {
            break;
        }
    }
    while let Some(done) = pipeline.fetch() {
        finish(done)?;
    }
    open.machine
        .block_on(CpuId(0), move |cpu| async move { array.flush(&cpu).await })
        .context("the array does not make the data durable")?;
    if copied == room && source.fill(&mut [0])? > 0 {
        bail!(
            "{}: holds more than the array; the first {copied} bytes of it are in the array",
            source.name()
        );
    }
    Ok(copied)
}

/// Waits for what is under way, whatever comes of it.
fn drain<Done: Send + 'static>(pipeline: &mut Pipeline<'_, Done>) {
    while pipeline.fetch().is_some() {}
}

/// Whole blocks, and how many bytes of them are the source's.
struct Piece {
    buffer: Buffer,
    filled: u64,
}

/// The next bytes of the source in whole blocks: what is not the source's is what the array holds
/// there. None at the end. Before it, the byte of the array that the blocks begin at.
fn read_piece(
    open: &OpenArray,
    array: &Arc<Array<RealPlatform>>,
    source: &mut Source,
    piece: &Range<u64>,
) -> Result<(u64, Option<Piece>)> {
    let block_bytes = u64::from(array.logical_block_bytes());
    let mut bytes = vec![0; (piece.end - piece.start) as usize];
    let filled = source.fill(&mut bytes)?;
    if filled == 0 {
        return Ok((piece.start, None));
    }
    bytes.truncate(filled);
    let written = piece.start..piece.start + filled as u64;
    let blocks = blocks_around(&written, block_bytes);
    let mut buffer = Buffer::zeroed((blocks.end - blocks.start) as usize);
    let edges = [blocks.start..written.start, written.end..blocks.end];
    for edge in edges.into_iter().filter(|edge| !edge.is_empty()) {
        let block = blocks_around(&edge, block_bytes);
        let (array, at) = (Arc::clone(array), Sector(block.start / SECTOR_BYTES));
        let done = open.machine.block_on(CpuId(0), move |cpu| async move {
            array.read(&cpu, at, Buffer::zeroed(block_bytes as usize)).await
        });
        done.result.with_context(|| format!("the array cannot give bytes {block:?}"))?;
        let place = (block.start - blocks.start) as usize;
        buffer[place..place + block_bytes as usize].copy_from_slice(&done.buffer);
    }
    let place = (written.start - blocks.start) as usize;
    buffer[place..place + filled].copy_from_slice(&bytes);
    Ok((blocks.start, Some(Piece { buffer, filled: filled as u64 })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: Range<u64>, piece_bytes: u64, expected: &[Range<u64>]) {
        let pieces: Vec<_> = Pieces { rest: bytes, piece_bytes }.collect();
        assert_eq!(pieces, expected);
    }

    #[test]
    fn pieces_end_at_multiples() {
        check(0..10, 4, &[0..4, 4..8, 8..10]);
        check(3..5, 4, &[3..4, 4..5]);
        check(5..5, 4, &[]);
    }

    #[test]
    fn blocks_hold_all_bytes() {
        assert_eq!(blocks_around(&(513..1024), 512), 512..1024);
        assert_eq!(blocks_around(&(0..1), 4096), 0..4096);
    }
}

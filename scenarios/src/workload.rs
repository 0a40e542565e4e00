//! What a benchmark does, in fio's words, and which block it visits next. Pure: the same workload
//! runs simulated and on real drives, and two runs with one seed visit the same blocks.

use raid::units::{Sector, Sectors};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::str::FromStr;

/// Order and direction of the requests, fio's `rw`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Reads in order.
    Read,
    /// Writes in order.
    Write,
    /// Reads and writes, mixed, in order.
    ReadWrite,
    /// Reads anywhere.
    RandomRead,
    /// Writes anywhere.
    RandomWrite,
    /// Reads and writes, mixed, anywhere.
    RandomReadWrite,
}

impl Pattern {
    /// Whether any request is a write.
    pub fn writes(self) -> bool {
        !matches!(self, Pattern::Read | Pattern::RandomRead)
    }

    /// Whether any request is a read.
    pub fn reads(self) -> bool {
        !matches!(self, Pattern::Write | Pattern::RandomWrite)
    }

    /// Whether blocks are visited in random order.
    pub fn is_random(self) -> bool {
        matches!(self, Pattern::RandomRead | Pattern::RandomWrite | Pattern::RandomReadWrite)
    }

    /// fio's word for it.
    pub fn word(self) -> &'static str {
        match self {
            Pattern::Read => "read",
            Pattern::Write => "write",
            Pattern::ReadWrite => "readwrite",
            Pattern::RandomRead => "randread",
            Pattern::RandomWrite => "randwrite",
            Pattern::RandomReadWrite => "randrw",
        }
    }
}

impl FromStr for Pattern {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "read" => Pattern::Read,
            "write" => Pattern::Write,
            "readwrite" | "rw" => Pattern::ReadWrite,
            "randread" => Pattern::RandomRead,
            "randwrite" => Pattern::RandomWrite,
            "randrw" => Pattern::RandomReadWrite,
            _ => {
                return Err(
                    "it is one of read, write, readwrite, randread, randwrite, randrw".to_owned()
                );
            }
        })
    }
}

/// A benchmark.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Order and direction.
    pub pattern: Pattern,
    /// Reads in a hundred requests of a mixed pattern.
    pub read_percent: u8,
    /// Length of a request, fio's `bs`.
    pub block: Sectors,
    /// Requests that each job keeps under way.
    pub io_depth: u32,
    /// Jobs, fio's `numjobs`.
    pub jobs: u32,
    /// fio's `randseed`.
    pub random_seed: u64,
    /// The part of the target that is used, from its start.
    pub extent: Sectors,
    /// Whether blocks carry a pattern that is checked when they are read.
    pub verify: bool,
    /// When the jobs start, count and end.
    pub schedule: Schedule,
}

/// When the jobs count what they do and when they end, on the clock of their core.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// Requests that complete before this are not counted.
    pub measure_from_ns: u64,
    /// No request starts at or after this, and those that complete later are not counted.
    pub end_ns: u64,
    /// Each job ends after so many requests, if that is sooner.
    pub ios_per_job: Option<u64>,
}

impl Schedule {
    /// Whether a request that completes now is counted.
    pub fn counts(&self, now_ns: u64) -> bool {
        self.measure_from_ns <= now_ns && now_ns < self.end_ns
    }
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The direction.
    pub is_write: bool,
    /// Counted in blocks from the start of the target.
    pub block_index: u64,
}

/// The blocks of the target that one job visits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRange {
    /// The first.
    pub first: u64,
    /// How many; at least one.
    pub count: u64,
}

impl Workload {
    /// How many whole blocks the extent has.
    pub fn block_count(&self) -> u64 {
        self.extent.0 / self.block.0
    }

    /// Where a block starts.
    pub fn sector_of(&self, block_index: u64) -> Sector {
        Sector(block_index * self.block.0)
    }

    /// The blocks that job `job` may visit: all of them, or, when content is verified, a share of
    /// its own, so that each job knows what it must read.
    ///
    /// # Panics
    /// If there are fewer blocks than jobs.
    pub fn blocks_of(&self, job: u32) -> BlockRange {
        assert!(job < self.jobs, "job {job} of {}", self.jobs);
        let count = self.block_count();
        assert!(count >= u64::from(self.jobs), "{count} blocks for {} jobs", self.jobs);
        if !self.verify {
            return BlockRange { first: 0, count };
        }
        let share = count / u64::from(self.jobs);
        BlockRange { first: share * u64::from(job), count: share }
    }
}

/// Draws a job's requests. Each job has a random stream of its own, so that what one visits does
/// not depend on how fast another is.
pub struct AccessGenerator {
    pattern: Pattern,
    read_percent: u8,
    range: BlockRange,
    next_offset: u64,
    random: ChaCha8Rng,
}

impl AccessGenerator {
    /// The requests of job `job`. A sequential job starts at its share of the extent and wraps
    /// around, so that several do not read the same blocks at the same time.
    pub fn new(workload: &Workload, job: u32) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(workload.random_seed);
        random.set_stream(u64::from(job));
        let range = workload.blocks_of(job);
        let next_offset = match workload.verify {
            true => 0,
            false => range.count / u64::from(workload.jobs) * u64::from(job),
        };
        let (pattern, read_percent) = (workload.pattern, workload.read_percent);
        Self { pattern, read_percent, range, next_offset, random }
    }

    /// The next request.
    pub fn next_access(&mut self) -> Access {
        let is_write = match (self.pattern.reads(), self.pattern.writes()) {
            (true, true) => self.draw_below(100) >= u64::from(self.read_percent),
            (_, writes) => writes,
        };
        let offset = if self.pattern.is_random() {
            self.draw_below(self.range.count)
        } else {
            let offset = self.next_offset;
            self.next_offset = (offset + 1) % self.range.count;
            offset
        };
        Access { is_write, block_index: self.range.first + offset }
    }

    /// Uniform in `0..bound`, up to a bias of `bound` in 2^64.
    fn draw_below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.random.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(pattern: Pattern, verify: bool) -> Workload {
        let schedule = Schedule { measure_from_ns: 0, end_ns: u64::MAX, ios_per_job: Some(1000) };
        Workload {
            pattern,
            read_percent: 70,
            block: Sectors(8),
            io_depth: 1,
            jobs: 4,
            random_seed: 2022,
            extent: Sectors(8 * 100 + 3),
            verify,
            schedule,
        }
    }

    fn draw(workload: &Workload, job: u32, count: usize) -> Vec<Access> {
        let mut generator = AccessGenerator::new(workload, job);
        (0..count).map(|_| generator.next_access()).collect()
    }

    #[test]
    fn one_seed_visits_the_same_blocks_and_jobs_differ() {
        let workload = workload(Pattern::RandomRead, false);
        assert_eq!(draw(&workload, 1, 50), draw(&workload, 1, 50));
        assert_ne!(draw(&workload, 1, 50), draw(&workload, 2, 50));
    }

    #[test]
    fn random_blocks_cover_the_extent_and_nothing_else() {
        let mut seen: Vec<u64> = draw(&workload(Pattern::RandomRead, false), 0, 2000)
            .into_iter()
            .map(|access| access.block_index)
            .collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, (0..100).collect::<Vec<u64>>());
    }

    #[test]
    fn a_mix_has_the_asked_share_of_reads() {
        let accesses = draw(&workload(Pattern::RandomReadWrite, false), 0, 10_000);
        let reads = accesses.iter().filter(|access| !access.is_write).count();
        assert!((6_800..7_200).contains(&reads), "{reads} reads of 10000");
    }

    #[test]
    fn sequential_jobs_start_apart_and_wrap() {
        let blocks: Vec<u64> = draw(&workload(Pattern::Read, false), 3, 30)
            .into_iter()
            .map(|access| access.block_index)
            .collect();
        assert_eq!((blocks[0], blocks[24], blocks[25]), (75, 99, 0));
    }

    #[test]
    fn verified_jobs_keep_to_shares_of_their_own() {
        let workload = workload(Pattern::RandomReadWrite, true);
        for job in 0..4 {
            let own = 25 * u64::from(job)..25 * u64::from(job) + 25;
            assert!(
                draw(&workload, job, 500).iter().all(|access| own.contains(&access.block_index))
            );
        }
    }

    #[test]
    fn every_pattern_is_understood_by_its_word() {
        for word in ["read", "write", "readwrite", "randread", "randwrite", "randrw"] {
            assert_eq!(word.parse::<Pattern>().map(Pattern::word), Ok(word));
        }
        assert!("random".parse::<Pattern>().is_err());
    }
}

//! A set of cores.

/// The cores that have a copy of a line.
#[derive(Clone, Debug)]
pub(crate) struct CpuSet {
    words: Box<[u64]>,
    count: u32,
}

impl CpuSet {
    pub(crate) fn new(cpu_count: u32) -> Self {
        Self { words: vec![0; cpu_count.div_ceil(64) as usize].into(), count: 0 }
    }

    #[inline]
    pub(crate) fn contains(&self, cpu: u32) -> bool {
        self.words[(cpu / 64) as usize] & (1 << (cpu % 64)) != 0
    }

    pub(crate) fn insert(&mut self, cpu: u32) {
        if !self.contains(cpu) {
            self.words[(cpu / 64) as usize] |= 1 << (cpu % 64);
            self.count += 1;
        }
    }

    /// Leaves just this core.
    pub(crate) fn reset_to(&mut self, cpu: u32) {
        self.words.fill(0);
        self.words[(cpu / 64) as usize] = 1 << (cpu % 64);
        self.count = 1;
    }

    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.count
    }

    /// Calls `visit` with each core, ascending.
    #[inline]
    pub(crate) fn for_each(&self, mut visit: impl FnMut(u32)) {
        for (index, word) in self.words.iter().enumerate() {
            let mut bits = *word;
            while bits != 0 {
                visit(index as u32 * 64 + bits.trailing_zeros());
                bits &= bits - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(set: &CpuSet) -> Vec<u32> {
        let mut cpus = Vec::new();
        set.for_each(|cpu| cpus.push(cpu));
        cpus
    }

    #[test]
    fn holds_what_was_inserted_ascending() {
        let mut set = CpuSet::new(130);
        for cpu in [129, 3, 64, 3] {
            set.insert(cpu);
        }
        assert_eq!(list(&set), [3, 64, 129]);
        assert_eq!(set.len(), 3);
        set.reset_to(64);
        assert_eq!(list(&set), [64]);
        assert!(!set.contains(3));
    }
}

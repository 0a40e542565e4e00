//! How far a long run is, on a terminal's stderr, once it has lasted two seconds. Nothing is shown
//! when stderr is no terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::{Duration, Instant};

const SHOWN_AFTER: Duration = Duration::from_secs(2);

/// Counts finished steps, from any thread.
pub struct Progress {
    bar: ProgressBar,
    begun: Instant,
}

impl Progress {
    /// Nothing of `steps` is done yet. `what` is shown before the bar.
    pub fn new(what: &'static str, steps: u64) -> Self {
        let style = ProgressStyle::with_template("{prefix} {bar:30} {pos}/{len}, {eta} left")
            .expect("the template is sound");
        let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::hidden())
            .with_style(style)
            .with_prefix(what);
        Self { bar, begun: Instant::now() }
    }

    /// Nothing of so many bytes is done yet; `None` where nobody knows how many there are. Rate and
    /// time left are shown beside the bar.
    pub fn of_bytes(what: &'static str, bytes: Option<u64>) -> Self {
        let template = match bytes {
            Some(_) => {
                "{prefix} {bar:30} {binary_bytes}/{binary_total_bytes}, \
                 {binary_bytes_per_sec}, {eta} left"
            }
            None => "{prefix} {binary_bytes}, {binary_bytes_per_sec}, {elapsed}",
        };
        let style = ProgressStyle::with_template(template).expect("the template is sound");
        let bar = ProgressBar::with_draw_target(bytes, ProgressDrawTarget::hidden())
            .with_style(style)
            .with_prefix(what);
        Self { bar, begun: Instant::now() }
    }

    /// So many more steps, or bytes, are done.
    pub fn advance(&self, steps: u64) {
        if self.bar.is_hidden() && self.begun.elapsed() >= SHOWN_AFTER {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.inc(steps);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_run_shows_nothing() {
        let progress = Progress::new("sampling", 2);
        progress.advance(2);
        assert!(progress.bar.is_hidden());
        assert_eq!(progress.bar.position(), 2);
    }
}

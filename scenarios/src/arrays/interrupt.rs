//! What Ctrl-C does to work that must be ended in order: the first one asks it to end, the second
//! one ends the program at once.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The exit code of a program that was interrupted, as shells have it.
pub const EXIT_INTERRUPTED: u8 = 130;

/// The work was ended because somebody asked for it.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("interrupted; {0}")]
pub struct Interrupted(pub &'static str);

/// Whether somebody has asked the program to end.
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on the first interrupt or termination signal is only taken note of.
    ///
    /// # Errors
    /// If the system lets no handler be set.
    pub fn watch() -> io::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first signal sets the flag, the second finds it set.
            flag::register_conditional_shutdown(
                signal,
                i32::from(EXIT_INTERRUPTED),
                Arc::clone(&asked),
            )?;
            flag::register(signal, Arc::clone(&asked))?;
        }
        Ok(Self(asked))
    }

    /// Ends the work if somebody has asked for it. `left` says what is left behind.
    ///
    /// # Errors
    /// [`Interrupted`].
    pub fn check(&self, left: &'static str) -> Result<(), Interrupted> {
        if self.0.load(Ordering::Relaxed) { Err(Interrupted(left)) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_to_end_is_kept() {
        let interrupt = Interrupt(Arc::default());
        assert!(interrupt.check("nothing").is_ok());
        interrupt.0.store(true, Ordering::Relaxed);
        let error = interrupt.check("nothing was written").expect_err("asked");
        assert_eq!(error.to_string(), "interrupted; nothing was written");
    }
}

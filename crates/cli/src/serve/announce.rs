//! How does a user hear that requests are welcome? A front end that only speaks.

use std::io::Write as _;
use tandem_live::Done;
use tandem_live::front::{Front, FrontContext};
use tandem_live::uring::Finished;

/// Prints a text on stdout once the engine is ready.
pub struct Announce {
    text: String,
}

impl Announce {
    /// Will print this.
    pub fn new(text: String) -> Announce {
        Announce { text }
    }
}

impl Front for Announce {
    fn begin(&mut self, _context: &mut FrontContext<'_>) {
        // nobody has to listen: a server whose stdout is closed serves all the same
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(self.text.as_bytes()).and_then(|()| out.flush());
    }

    fn finished(&mut self, _done: Finished, _context: &mut FrontContext<'_>) {}

    fn completed(&mut self, _cookie: u64, _done: &Done, _context: &mut FrontContext<'_>) {}

    fn turn_ends(&mut self, _context: &mut FrontContext<'_>) {}

    fn room(&mut self, _context: &mut FrontContext<'_>) {}

    fn stop(&mut self, _context: &mut FrontContext<'_>) {}

    fn is_quiet(&self) -> bool {
        true
    }
}

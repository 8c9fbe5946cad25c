//! The logs of a test, and what must not be in them.

use std::cell::RefCell;
use std::io::{self, Write};

thread_local! {
    static LOGS: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Collects the logs of each thread, and so of each test.
struct Logs;

impl Write for Logs {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOGS.with_borrow_mut(|logs| logs.extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Records the logs of all levels.
pub(crate) fn record() {
    // A subscriber of this thread alone would miss events that another thread reached first.
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(|| Logs)
        .finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();
    tracing::callsite::rebuild_interest_cache();
}

/// Returns the logs of this thread.
pub(crate) fn recorded() -> String {
    String::from_utf8(LOGS.take()).unwrap()
}

pub(crate) fn assert_private(text: &str, private: &[&str]) {
    for private in private {
        assert!(!text.contains(private), "{private} in {text}");
    }
}

//! When a checkpoint may pass a row. A checkpoint is an id of a partition that is sorted by time: all rows up
//! to it are counted. The deliveries of a scope have a checkpoint, and so do its events.

/// A row is late if it is inserted this long, in milliseconds, after the time in its id, or later. A
/// checkpoint may have passed the id of a late row, so such a row is counted in another way. The time is above
/// two minutes because the event of an expired charge has the time of the expiry, which the scheduler may write
/// up to two minutes later.
pub const LATE_MS: i64 = 150_000;

/// A checkpoint may pass an id that is this old, in milliseconds. It is a minute more than [`LATE_MS`]. No
/// insert takes a minute, so a checkpoint never passes the id of a row that is not late before the insert.
pub const PASSED_AFTER_MS: i64 = 210_000;

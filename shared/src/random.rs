//! Random numbers from the operating system. The crate `domain` does no I/O, so its functions receive random
//! bytes as arguments.

use crate::store::StoreError;

/// Returns random bytes that are suitable for secrets.
/// Errors: [`StoreError::Unavailable`] when the operating system returns none.
pub fn bytes<const N: usize>() -> Result<[u8; N], StoreError> {
    let mut bytes = [0; N];
    let filled = getrandom::fill(&mut bytes);
    filled.map_err(|error| StoreError::Unavailable(format!("no random bytes: {error}")))?;
    Ok(bytes)
}

/// Returns a random number below `bound`, for delays. Returns 0 if `bound` is 0 or the operating system
/// returns no random bytes.
pub fn below(bound: u64) -> u64 {
    bytes().map(u64::from_le_bytes).ok().and_then(|number| number.checked_rem(bound)).unwrap_or_default()
}

//! Random numbers from the operating system. The crate `domain` does no I/O, so its functions receive random
//! bytes as arguments.

/// The operating system returned no random bytes.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the operating system returned no random bytes: {0}")]
pub struct RandomError(getrandom::Error);

/// Returns random bytes that are suitable for secrets.
pub fn bytes<const N: usize>() -> Result<[u8; N], RandomError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(RandomError)?;
    Ok(bytes)
}

/// Returns a random number below `bound`, for delays. Returns 0 if `bound` is 0 or the operating system
/// returns no random bytes.
pub fn below(bound: u64) -> u64 {
    bytes().map(u64::from_le_bytes).ok().and_then(|number| number.checked_rem(bound)).unwrap_or_default()
}

//! Randomness from the operating system, at the edges; the domain takes it as an argument.

/// The operating system has no randomness to give.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("no randomness: {0}")]
pub struct RandomError(getrandom::Error);

/// Random bytes, good for secrets.
pub fn bytes<const N: usize>() -> Result<[u8; N], RandomError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(RandomError)?;
    Ok(bytes)
}

/// A random number below `bound`, for jitter; 0 when `bound` is 0 or there is no randomness.
pub fn below(bound: u64) -> u64 {
    bytes().map(u64::from_le_bytes).ok().and_then(|number| number.checked_rem(bound)).unwrap_or_default()
}

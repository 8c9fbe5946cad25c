//! The nouns that money moves through: charges with their payments and customers, refunds, wallets with the
//! ledger, payouts, and MED cases with their evidence. Each module contains the noun's requests, responses, reads
//! and writes. The rules, which need no I/O, are in the crate [`domain`]; what spans several nouns is in `services`.
#![cfg_attr(
    test,
    allow(clippy::arithmetic_side_effects, clippy::needless_pass_by_value, reason = "of tests")
)]

pub mod charge;
mod errors;
pub mod extract;
pub mod med;
pub mod payment_link;
pub mod payout;
pub mod refund;
pub mod report;
#[cfg(test)]
mod testing;
pub mod wallet;

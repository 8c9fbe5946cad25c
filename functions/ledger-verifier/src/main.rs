use ledger_verifier::LedgerVerifier;
use serde_json::Value;

shared::event_main!(
    |aws, clock, var| LedgerVerifier::from_vars(aws, clock, var)?,
    |verifier, _event: Value| verifier.run().await?,
);

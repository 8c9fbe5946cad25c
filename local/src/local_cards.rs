//! Starts the stand-ins of Stripe, at which the first account takes cards and other methods. `docs/laptop.md` describes
//! them.

use std::path::Path;
use std::sync::Arc;

use domain::payment_method::PaymentMethod;
use shared::clock::Clock;
use stripe_stand_in::{Options, Stripe};

use crate::error::Result;
use crate::seed::Seed;
use crate::stored_port;

/// An account at Stripe, whose country decides which methods it takes.
pub(crate) struct StripeAccount {
    /// Of the connection and of the stand-in's files.
    pub(crate) name: &'static str,
    country: &'static str,
    pub(crate) methods: &'static [PaymentMethod],
    /// The file that says that the connection was configured.
    pub(crate) marker: &'static str,
}

pub(crate) const CARDS: StripeAccount = StripeAccount {
    name: "cards",
    country: "BR",
    methods: &[PaymentMethod::CreditCard, PaymentMethod::Boleto],
    marker: "cards-seeded",
};

pub(crate) const EUROPE: StripeAccount = StripeAccount {
    name: "europe",
    country: "PT",
    methods: &[PaymentMethod::Multibanco, PaymentMethod::Mbway],
    marker: "europe-seeded",
};

pub(crate) async fn start(
    of: &StripeAccount,
    directory: Option<&Path>,
    seed: &Seed,
    clock: &Clock,
) -> Result<Stripe> {
    let clock = clock.clone();
    let options = Options {
        file: directory.map(|directory| directory.join(format!("{}.jsonl", of.name))),
        country: of.country.to_owned(),
        ..Options::new(Arc::new(move || clock.now().millis()), &seed.card_key)
    };
    let start = async |listen| Stripe::start(Options { listen, ..options.clone() }).await;
    stored_port::start("a stand-in of Stripe", directory, &format!("{}.port", of.name), start).await
}

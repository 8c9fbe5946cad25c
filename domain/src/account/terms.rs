//! Fees and hold periods of an account by payment method. The terms of a payment are fixed when it settles.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::calendar::Day;
use crate::money::{Amount, MinorUnits, MoneyError};
use crate::payment_method::PaymentMethod;
use crate::time::Timestamp;

const WHOLE_BASIS_POINTS: i128 = 10_000;

pub const MAX_HOLD_DAYS: u16 = 366;

/// A fee for one payment: a fixed part plus a share of the amount.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Fee {
    /// Fixed part in minor units of the payment's currency.
    pub fixed: i64,
    /// Share of the amount in hundredths of a percent: 0 to 10,000.
    pub basis_points: u16,
}

impl Fee {
    /// No fee.
    pub const NONE: Self = Self { fixed: 0, basis_points: 0 };

    /// Fails with a sentence that names the part that is out of range.
    pub fn new(fixed: i64, basis_points: u16) -> Result<Self, &'static str> {
        if !(0..=Amount::MAX.minor()).contains(&fixed) {
            return Err("the fixed part must be from 0 to 999999999999");
        }
        if i128::from(basis_points) > WHOLE_BASIS_POINTS {
            return Err("the basis points must be from 0 to 10000");
        }
        Ok(Self { fixed, basis_points })
    }

    /// Rounded half-up, and at most the amount.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "no operand has more than 64 bits, so the results fit 128"
    )]
    fn on(self, amount: Amount) -> i64 {
        let twice = i128::from(amount.minor()) * i128::from(self.basis_points) * 2;
        let part = (twice + WHOLE_BASIS_POINTS).div_euclid(WHOLE_BASIS_POINTS * 2);
        let fee = (part + i128::from(self.fixed)).clamp(0, amount.minor().into());
        i64::try_from(fee).unwrap_or(amount.minor())
    }
}

/// Whether a refund returns the fees of its payment.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, IntoStaticStr, PartialEq, Serialize, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum FeesOnRefund {
    /// Fees are returned to the merchant, pro rata.
    #[default]
    Return,
    /// The platform and the acquirer keep the fees.
    Keep,
}

/// The terms of one method. Rows store them as a list without names, because the row of each API key has a copy
/// and must stay small.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(from = "TermsRow", into = "TermsRow")]
pub struct MethodTerms {
    pub acquirer_fee: Fee,
    pub platform_fee: Fee,
    /// Calendar days in São Paulo from settlement until the net becomes available. 0: at once.
    pub hold_days: u16,
    /// Whether a refund returns the fees of a payment that settled on these terms.
    pub fees_on_refund: FeesOnRefund,
}

type TermsRow = (i64, u16, i64, u16, u16, FeesOnRefund);

impl From<TermsRow> for MethodTerms {
    fn from(row: TermsRow) -> Self {
        let (acquirer_fixed, acquirer_points, platform_fixed, platform_points, hold_days, fees_on_refund) =
            row;
        Self {
            acquirer_fee: Fee { fixed: acquirer_fixed, basis_points: acquirer_points },
            platform_fee: Fee { fixed: platform_fixed, basis_points: platform_points },
            hold_days,
            fees_on_refund,
        }
    }
}

impl From<MethodTerms> for TermsRow {
    fn from(terms: MethodTerms) -> Self {
        let (acquirer, platform) = (terms.acquirer_fee, terms.platform_fee);
        (
            acquirer.fixed,
            acquirer.basis_points,
            platform.fixed,
            platform.basis_points,
            terms.hold_days,
            terms.fees_on_refund,
        )
    }
}

/// The fees of one payment, each from −[`Amount::MAX`] to [`Amount::MAX`]. So their sum, and its difference to
/// an amount, fit 64 bits. Fees computed by [`MethodTerms::fees`] never exceed the amount.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(try_from = "FeesRow")]
pub struct Fees {
    #[serde(skip_serializing_if = "MinorUnits::is_zero")]
    acquirer: MinorUnits,
    #[serde(skip_serializing_if = "MinorUnits::is_zero")]
    platform: MinorUnits,
}

#[derive(Deserialize)]
struct FeesRow {
    #[serde(default)]
    acquirer: MinorUnits,
    #[serde(default)]
    platform: MinorUnits,
}

impl TryFrom<FeesRow> for Fees {
    type Error = MoneyError;

    fn try_from(row: FeesRow) -> Result<Self, MoneyError> {
        Self::new(row.acquirer, row.platform)
    }
}

impl Fees {
    /// Fails when the absolute value of a fee is above [`Amount::MAX`].
    pub fn new(acquirer: MinorUnits, platform: MinorUnits) -> Result<Self, MoneyError> {
        let bounds = Amount::MAX.negated()..=Amount::MAX.into();
        if bounds.contains(&acquirer) && bounds.contains(&platform) {
            Ok(Self { acquirer, platform })
        } else {
            Err(MoneyError::Overflow)
        }
    }

    /// Returns the acquirer's fee (`providerFee` on the wire).
    pub fn acquirer(self) -> MinorUnits {
        self.acquirer
    }

    /// Returns the platform's fee (`platformFee` on the wire).
    pub fn platform(self) -> MinorUnits {
        self.platform
    }

    #[expect(clippy::arithmetic_side_effects, reason = "`new` bounds both")]
    pub fn total(self) -> MinorUnits {
        MinorUnits::new(self.acquirer.get() + self.platform.get())
    }

    /// Returns the net of an amount: the amount minus both fees.
    #[expect(clippy::arithmetic_side_effects, reason = "`Amount::parse` and `new` bound them")]
    pub fn net_of(self, amount: Amount) -> MinorUnits {
        MinorUnits::new(amount.minor() - self.total().get())
    }

    /// Returns how much the sum of both fees exceeds an amount; 0 when it does not.
    #[expect(clippy::arithmetic_side_effects, reason = "`Amount::parse` and `new` bound them")]
    pub fn above(self, amount: Amount) -> MinorUnits {
        MinorUnits::new(self.total().get() - amount.minor()).max(MinorUnits::ZERO)
    }
}

impl MethodTerms {
    /// `charged`: what the acquirer took. `None`: what the plan says. The acquirer deducts its fee before it
    /// forwards the money. So when both fees exceed the amount, the platform's is reduced.
    #[expect(clippy::arithmetic_side_effects, reason = "both fees are from 0 to the amount")]
    pub fn fees(&self, amount: Amount, charged: Option<MinorUnits>) -> Fees {
        let planned = || self.acquirer_fee.on(amount);
        let acquirer = charged.map_or_else(planned, |fee| fee.get().clamp(0, amount.minor()));
        let platform = self.platform_fee.on(amount).min(amount.minor() - acquirer);
        Fees { acquirer: MinorUnits::new(acquirer), platform: MinorUnits::new(platform) }
    }

    /// The money becomes available at the start of that day. `None`: at once.
    pub fn release(&self, settled_at: Timestamp) -> Option<Day> {
        (self.hold_days > 0).then(|| Day::of(settled_at).plus_days(u64::from(self.hold_days)))
    }
}

/// An account's terms by payment method. A method without an entry has no fees and no hold.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Terms(pub BTreeMap<PaymentMethod, MethodTerms>);

impl Terms {
    pub fn for_method(&self, method: PaymentMethod) -> MethodTerms {
        self.0.get(&method).copied().unwrap_or_default()
    }

    /// Whether the shares of both fees are together at most the amount, by each method.
    pub fn are_within_amount(&self) -> bool {
        self.0.values().all(|terms| {
            let [acquirer, platform] = [terms.acquirer_fee, terms.platform_fee].map(|fee| fee.basis_points);
            i128::from(acquirer.saturating_add(platform)) <= WHOLE_BASIS_POINTS
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn amount(minor: i64) -> Amount {
        Amount::parse(minor).unwrap()
    }

    fn terms(acquirer: (i64, u16), platform: (i64, u16), hold_days: u16) -> MethodTerms {
        MethodTerms {
            acquirer_fee: Fee::new(acquirer.0, acquirer.1).unwrap(),
            platform_fee: Fee::new(platform.0, platform.1).unwrap(),
            hold_days,
            fees_on_refund: FeesOnRefund::Return,
        }
    }

    #[test]
    fn a_fee_is_rounded_half_up() {
        // The cases are 1% of 1050 = 10.5, 0.99% of 1000 = 9.9, 1% of 1049 = 10.49, and amounts of 1.
        for (minor, points, expected) in
            [(1050, 100, 11), (1000, 99, 10), (1049, 100, 10), (1, 1, 0), (1, 5000, 1)]
        {
            assert_eq!(Fee::new(0, points).unwrap().on(amount(minor)), expected, "{points} of {minor}");
        }
        assert_eq!(Fee::new(25, 99).unwrap().on(amount(1000)), 35);
    }

    #[test]
    fn a_fee_out_of_range_is_refused() {
        assert!(Fee::new(-1, 0).is_err());
        assert!(Fee::new(1_000_000_000_000, 0).is_err());
        assert!(Fee::new(0, 10_001).is_err());
        assert!(Fee::new(999_999_999_999, 10_000).is_ok());
    }

    #[test]
    fn the_shares_of_both_fees_are_at_most_the_amount() {
        let are_within = |acquirer, platform| {
            Terms([(PaymentMethod::Pix, terms((0, acquirer), (0, platform), 0))].into()).are_within_amount()
        };
        assert!(are_within(4_000, 6_000));
        assert!(!are_within(4_000, 6_001) && !are_within(10_000, 10_000));
    }

    #[test]
    fn fees_are_capped_at_the_amount_and_the_acquirer_has_priority() {
        let fees =
            |acquirer, platform| Fees::new(MinorUnits::new(acquirer), MinorUnits::new(platform)).unwrap();
        assert_eq!(terms((30, 0), (90, 0), 0).fees(amount(100), None), fees(30, 70));
        assert_eq!(terms((500, 0), (90, 0), 0).fees(amount(100), None), fees(100, 0));
    }

    #[test]
    fn fees_beyond_the_largest_amount_are_refused() {
        let read = serde_json::from_str::<Fees>;
        let greatest = read(r#"{"acquirer":999999999999,"platform":999999999999}"#).unwrap();
        assert_eq!(greatest.total(), 1_999_999_999_998);
        assert_eq!(greatest.net_of(amount(1)), -1_999_999_999_997);
        assert_eq!(greatest.above(amount(1)), 1_999_999_999_997);
        assert!(read(r#"{"acquirer":1000000000000}"#).is_err());
        assert!(read(r#"{"platform":-1000000000000}"#).is_err());
        assert_eq!(read("{}").unwrap(), Fees::default());
        assert_eq!(serde_json::to_string(&Fees::default()).unwrap(), "{}");
    }

    #[test]
    fn money_is_held_until_a_day_begins_in_sao_paulo() {
        let at = |text: &str| Timestamp::parse_floor(text).unwrap();
        let release = |hold, text: &str| terms((0, 0), (0, 0), hold).release(at(text)).map(Day::starts_at);
        assert_eq!(release(0, "2026-11-21T12:00:00Z"), None);
        // The last millisecond of the 20th in São Paulo, and the first of the 21st.
        assert_eq!(release(1, "2026-11-21T02:59:59.999Z"), Some(at("2026-11-21T03:00:00Z")));
        assert_eq!(release(1, "2026-11-21T03:00:00Z"), Some(at("2026-11-22T03:00:00Z")));
    }

    #[test]
    fn terms_are_stored_compactly() {
        let mut all = Terms::default();
        all.0.insert(PaymentMethod::Pix, terms((10, 99), (0, 50), 2));
        let text = serde_json::to_string(&all).unwrap();
        insta::assert_snapshot!(text, @r#"{"pix":[10,99,0,50,2,"return"]}"#);
        assert_eq!(serde_json::from_str::<Terms>(&text).unwrap(), all);
    }

    proptest! {
        #[test]
        fn the_net_is_never_negative(
            minor in 1_i64..=999_999_999_999,
            acquirer in (0_i64..=999_999_999_999, 0_u16..=10_000),
            platform in (0_i64..=999_999_999_999, 0_u16..=10_000),
        ) {
            let fees = terms(acquirer, platform, 0).fees(amount(minor), None);
            prop_assert!(!fees.acquirer().is_negative() && !fees.platform().is_negative());
            prop_assert!(!fees.net_of(amount(minor)).is_negative());
        }
    }
}

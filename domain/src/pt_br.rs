//! Formats money and times in Brazilian Portuguese notation.

use chrono::NaiveDateTime;

use crate::calendar::Day;
use crate::money::{Amount, Currency, Money};
use crate::time::{SAO_PAULO_BEHIND_SECONDS, Timestamp};

const GROUP_DIGITS: usize = 3;

/// Formats an amount as `R$ 1.234,56`. Currencies other than the real show their code: `EUR 1.234,56`.
pub fn format_amount(amount: Amount, currency: Currency) -> String {
    format_money(amount.in_currency(currency))
}

/// Like [`format_amount`], also for zero and for sums below it: `-R$ 0,50`.
pub fn format_money(money: Money) -> String {
    let (decimal, currency) = (money.decimal(), money.currency);
    let (sign, decimal) = decimal.strip_prefix('-').map_or(("", decimal.as_str()), |rest| ("-", rest));
    let (whole, fraction) = decimal.split_once('.').unwrap_or((decimal, ""));
    let groups = whole.as_bytes().rchunks(GROUP_DIGITS).rev();
    let groups: Vec<&str> = groups.filter_map(|digits| std::str::from_utf8(digits).ok()).collect();
    let symbol = if currency == Currency::BRL { "R$" } else { currency.as_str() };
    let comma = if fraction.is_empty() { "" } else { "," };
    format!("{sign}{symbol} {}{comma}{fraction}", groups.join("."))
}

/// Formats a time in Brasília to the minute: `21/11/2026 às 15:04`. Seconds are dropped, so that a displayed
/// deadline is never later than the real one.
pub fn format_minute(at: Timestamp) -> String {
    in_brasilia(at, "%d/%m/%Y às %H:%M")
}

/// Formats a time in Brasília to the minute without words: `21/11/2026 15:04`.
pub fn format_short_minute(at: Timestamp) -> String {
    in_brasilia(at, "%d/%m/%Y %H:%M")
}

/// Formats the time of day in Brasília: `15:04`.
pub fn format_time_of_day(at: Timestamp) -> String {
    in_brasilia(at, "%H:%M")
}

/// Formats a time in Brasília to the second: `21/11/2026 15:04:05`.
pub fn format_second(at: Timestamp) -> String {
    in_brasilia(at, "%d/%m/%Y %H:%M:%S")
}

/// Formats a day: `21/11/2026`.
pub fn format_day(day: Day) -> String {
    day.date().format("%d/%m/%Y").to_string()
}

/// What a clock in Brasília shows, without a zone.
pub fn brasilia_time(at: Timestamp) -> NaiveDateTime {
    // Subtraction fails only for the first three hours of 1970. The fallback shows them in UTC.
    at.plus_seconds(-SAO_PAULO_BEHIND_SECONDS).unwrap_or(at).to_chrono().naive_utc()
}

fn in_brasilia(at: Timestamp, format: &str) -> String {
    brasilia_time(at).format(format).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::money::MinorUnits;

    #[test]
    fn an_amount_has_points_between_thousands_and_a_comma() {
        for (minor, currency, expected) in [
            (1, Currency::BRL, "R$ 0,01"),
            (99_999, Currency::BRL, "R$ 999,99"),
            (123_456, Currency::BRL, "R$ 1.234,56"),
            (100_000_000, Currency::BRL, "R$ 1.000.000,00"),
            (999_999_999_999_i64, Currency::BRL, "R$ 9.999.999.999,99"),
            (123_456, Currency::EUR, "EUR 1.234,56"),
            (123_456, Currency::JPY, "JPY 123.456"),
        ] {
            assert_eq!(format_amount(Amount::parse(minor).unwrap(), currency), expected);
        }
    }

    #[test]
    fn a_sum_below_zero_has_its_sign_first() {
        for (minor, expected) in [(-50, "-R$ 0,50"), (0, "R$ 0,00"), (-123_456, "-R$ 1.234,56")] {
            let money = Money { minor: MinorUnits::new(minor), currency: Currency::BRL };
            assert_eq!(format_money(money), expected);
        }
    }

    #[test]
    fn a_second_is_shown_in_brasilia() {
        assert_eq!(format_second("2026-11-21T01:02:03.004Z".parse().unwrap()), "20/11/2026 22:02:03");
    }

    #[test]
    fn a_minute_is_shown_in_brasilia_and_not_rounded_up() {
        for (at, expected) in [
            ("2026-11-21T18:04:59.999Z", "21/11/2026 às 15:04"),
            ("2027-01-01T02:59:00Z", "31/12/2026 às 23:59"),
            ("2027-01-01T03:00:00Z", "01/01/2027 às 00:00"),
            ("2026-07-01T12:00:00Z", "01/07/2026 às 09:00"),
        ] {
            assert_eq!(format_minute(at.parse().unwrap()), expected);
        }
    }
}

//! Exact decimal numbers: integers of a currency's smallest unit.

/// The smallest units of 1 BTC.
pub(crate) const SATOSHIS: i128 = 100_000_000;
/// The decimals of a bitcoin amount.
pub(crate) const BTC: u32 = 8;
/// The longest part before or after the decimal point. With it, no product of an amount and a rate overflows.
const DIGITS_MAX: usize = 18;

/// Returns how many decimals amounts of a currency have.
pub(crate) fn places(currency: &str) -> u32 {
    match currency {
        "BTC" => BTC,
        "CLP" | "ISK" | "JPY" | "KRW" | "PYG" | "VND" => 0,
        _ => 2,
    }
}

/// Reads a decimal text as an integer of the smallest unit, rounded half up. `None` if it is no decimal or too long.
pub(crate) fn parse(text: &str, places: u32) -> Option<i128> {
    let (is_negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let is_number =
        |part: &str| (1..=DIGITS_MAX).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let places = usize::try_from(places).ok()?;
    let fraction: String =
        fraction.chars().chain(std::iter::repeat('0')).take(places.saturating_add(1)).collect();
    // With one digit more than needed, by which it is rounded.
    let tenths: i128 = format!("{whole}{fraction}").parse().ok()?;
    let units = tenths.checked_add(5)?.checked_div(10)?;
    Some(if is_negative { units.saturating_neg() } else { units })
}

/// Writes an integer of the smallest unit as a decimal text with all decimals.
pub(crate) fn text(units: i128, places: u32) -> String {
    let sign = if units < 0 { "-" } else { "" };
    let width = usize::try_from(places).unwrap_or_default();
    let digits = format!("{:0>1$}", units.unsigned_abs(), width.saturating_add(1));
    let (whole, fraction) = digits.split_at(digits.len().saturating_sub(width));
    if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

pub(crate) fn btc(satoshis: i128) -> String {
    text(satoshis, BTC)
}

/// Returns `amount · factor / divisor`, rounded down after `addend / divisor` is added.
pub(crate) fn divide(amount: i128, factor: i128, divisor: i128, addend: i128) -> i128 {
    amount.saturating_mul(factor).saturating_add(addend).checked_div_euclid(divisor).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_read_and_written_exactly() {
        for (read, places, units, written) in [
            ("100", 2, 10_000, "100.00"),
            ("0.1", 2, 10, "0.10"),
            ("-0.005", 2, -1, "-0.01"),
            ("1.004", 2, 100, "1.00"),
            ("500.5", 0, 501, "501"),
            ("0.00028572", 8, 28_572, "0.00028572"),
            (
                "999999999999999999.99999999",
                8,
                99_999_999_999_999_999_999_999_999,
                "999999999999999999.99999999",
            ),
        ] {
            assert_eq!(parse(read, places), Some(units), "{read}");
            assert_eq!(text(units, places), written, "{read}");
        }
        for bad in ["", "-", ".5", "1.", "1,5", "1e3", "+1", " 1", "--1", "1.2.3", "1000000000000000000"] {
            assert_eq!(parse(bad, 2), None, "{bad}");
        }
    }
}

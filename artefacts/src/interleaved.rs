//! Interleaved 2 of 5: the barcode symbology of a boleto.
//!
//! An element is a bar or a space. Bars and spaces alternate, and the first and the last element are bars.
//! Each digit has five elements, two of them wide. Digits are encoded in pairs: the elements of the first
//! digit are bars, and those of the second are the spaces after each of these bars.
//!
//! Widths are in modules. A module is the width of a narrow element. On a boleto a wide element has three
//! modules.
//!
//! Source: ISO/IEC 16390.

use crate::digits::Digits;

pub(crate) const NARROW: u8 = 1;
pub(crate) const WIDE: u8 = 3;
/// The width of 44 digits, in modules, without the quiet zones of ten modules that readers need on both
/// sides.
pub(crate) const MODULES: u16 = 405;

const START: [u8; 4] = [NARROW, NARROW, NARROW, NARROW];
const STOP: [u8; 3] = [WIDE, NARROW, NARROW];

const PATTERNS: [[u8; 5]; 10] = [
    [NARROW, NARROW, WIDE, WIDE, NARROW],
    [WIDE, NARROW, NARROW, NARROW, WIDE],
    [NARROW, WIDE, NARROW, NARROW, WIDE],
    [WIDE, WIDE, NARROW, NARROW, NARROW],
    [NARROW, NARROW, WIDE, NARROW, WIDE],
    [WIDE, NARROW, WIDE, NARROW, NARROW],
    [NARROW, WIDE, WIDE, NARROW, NARROW],
    [NARROW, NARROW, NARROW, WIDE, WIDE],
    [WIDE, NARROW, NARROW, WIDE, NARROW],
    [NARROW, WIDE, NARROW, WIDE, NARROW],
];

/// Returns the widths of 227 alternating bars and spaces, in modules, each [`NARROW`] or [`WIDE`].
pub(crate) fn widths(barcode: &Digits<44>) -> Vec<u8> {
    let values: Vec<u8> = barcode.values().collect();
    let (pairs, _) = values.as_chunks::<2>();
    let elements = pairs.iter().flat_map(|[bars, spaces]| {
        pattern(*bars).into_iter().zip(pattern(*spaces)).flat_map(|(bar, space)| [bar, space])
    });
    START.into_iter().chain(elements).chain(STOP).collect()
}

fn pattern(digit: u8) -> [u8; 5] {
    // A digit is below 10, so the fallback is never taken.
    PATTERNS.get(usize::from(digit)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Decodes a digit: the sum of its wide elements' weights, where 11 stands for 0.
    fn digit(elements: &[u8]) -> char {
        let wide = elements.iter().zip([1, 2, 4, 7, 0]).filter(|(width, _)| **width == WIDE);
        let weights: Vec<u32> = wide.map(|(_, weight)| weight).collect();
        assert_eq!(weights.len(), 2);
        let sum = weights[0] + weights[1];
        char::from_digit(if sum == 11 { 0 } else { sum }, 10).unwrap()
    }

    fn decode(widths: &[u8]) -> String {
        let elements = widths.strip_prefix(&[1, 1, 1, 1]).unwrap().strip_suffix(&[3, 1, 1]).unwrap();
        let mut text = String::new();
        for pair in elements.chunks(10) {
            let bars: Vec<u8> = pair.iter().step_by(2).copied().collect();
            let spaces: Vec<u8> = pair.iter().skip(1).step_by(2).copied().collect();
            text.push(digit(&bars));
            text.push(digit(&spaces));
        }
        text
    }

    proptest! {
        #[test]
        fn encoded_bars_are_decoded_back(text in "[0-9]{44}") {
            let widths = widths(&Digits::parse(&text).unwrap());
            prop_assert_eq!(decode(&widths), text);
            prop_assert_eq!(widths.len(), 227);
            prop_assert_eq!(widths.iter().map(|width| u16::from(*width)).sum::<u16>(), MODULES);
        }
    }
}

//! Encodes, measures and wraps the texts of a page, in `WinAnsi` encoding.
//!
//! Sources: PDF 32000-1, annex D (`WinAnsi`); Adobe's metrics of the core fonts, from `ReportLab`.

use crate::text::ascii;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Font {
    Regular,
    Bold,
}

/// The most characters of a text that are read.
const MAX_CHARS_READ: usize = 4_000;

const ELLIPSIS: u8 = 0x85;

/// Encodes a text on one line as Windows-1252. A character without such a spelling becomes `?`.
pub fn encode(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for character in text.trim().chars().take(MAX_CHARS_READ) {
        match character {
            _ if character.is_whitespace() => {
                if bytes.last() != Some(&b' ') {
                    bytes.push(b' ');
                }
            }
            _ => match winansi(character) {
                Some(byte) => bytes.push(byte),
                None => bytes.extend(ascii(character).map_or_else(|| b"?".to_vec(), String::into_bytes)),
            },
        }
    }
    bytes
}

/// The characters of the bytes 0x80 to 0x9F. A space is a byte without a character.
const TYPOGRAPHIC: &str = "€ ‚ƒ„…†‡ˆ‰Š‹Œ Ž  ‘’“”•–—˜™š›œ žŸ";

/// `WinAnsi` equals ISO 8859-1, except for the bytes 0x80 to 0x9F, which are control characters in ISO
/// 8859-1. It shows a soft hyphen, which is invisible elsewhere, so that has no byte here.
fn winansi(character: char) -> Option<u8> {
    match character {
        ' '..='~' | '\u{a1}'..='\u{ac}' | '\u{ae}'..='\u{ff}' => u8::try_from(character).ok(),
        _ => (0x80..)
            .zip(TYPOGRAPHIC.chars())
            .find_map(|(byte, of_byte)| (of_byte == character).then_some(byte)),
    }
}

pub(super) fn width(font: Font, text: &[u8]) -> u32 {
    text.iter().fold(0, |sum, byte| sum.saturating_add(advance(font, *byte).into()))
}

/// Wraps a text into lines of at most `max_width` thousandths of the font size.
pub(super) fn wrap(font: Font, text: &[u8], max_width: u32, lines: usize) -> Vec<Vec<u8>> {
    let mut wrapped = Vec::new();
    let mut rest = text.trim_ascii();
    while !rest.is_empty() && wrapped.len() < lines {
        let fits = fitting(font, rest, max_width);
        let is_last = wrapped.len().saturating_add(1) == lines;
        if is_last && fits < rest.len() {
            wrapped.push(truncate(font, rest, max_width));
            break;
        }
        let (line, after) = rest.split_at_checked(line_end(rest, fits)).unwrap_or((rest, &[]));
        wrapped.push(line.trim_ascii_end().to_vec());
        rest = after.trim_ascii_start();
    }
    wrapped
}

/// Returns how many bytes fit into a width; at least one, so that wrapping terminates.
fn fitting(font: Font, text: &[u8], max_width: u32) -> usize {
    let mut used = 0_u32;
    let fits = text.iter().take_while(|byte| {
        used = used.saturating_add(advance(font, **byte).into());
        used <= max_width
    });
    fits.count().max(1)
}

/// Returns the index at which a line of at most `fits` bytes ends: after its last complete word, or after
/// `fits` bytes when no word is complete.
fn line_end(text: &[u8], fits: usize) -> usize {
    if text.get(fits).is_none_or(|next| *next == b' ') {
        return fits;
    }
    let line = text.get(..fits).unwrap_or(text);
    line.iter().rposition(|byte| *byte == b' ').unwrap_or(fits)
}

fn truncate(font: Font, text: &[u8], max_width: u32) -> Vec<u8> {
    let text_width = max_width.saturating_sub(advance(font, ELLIPSIS).into());
    let line = text.get(..fitting(font, text, text_width)).unwrap_or_default();
    let mut line = line.trim_ascii_end().to_vec();
    line.push(ELLIPSIS);
    line
}

fn advance(font: Font, byte: u8) -> u16 {
    let widths = match font {
        Font::Regular => &REGULAR,
        Font::Bold => &BOLD,
    };
    // `encode` produces no byte below 32.
    widths.get(usize::from(byte).saturating_sub(FIRST)).copied().unwrap_or_default()
}

const FIRST: usize = 32;

#[rustfmt::skip]
const REGULAR: [u16; 224] = [
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278,
    556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556,
    1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778,
    667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556,
    333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556,
    556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584, 350,
    556, 350, 222, 556, 333, 1000, 556, 556, 333, 1000, 667, 333, 1000, 350, 611, 350,
    350, 222, 222, 333, 333, 350, 556, 1000, 333, 1000, 500, 333, 944, 350, 500, 667,
    278, 333, 556, 556, 556, 556, 260, 556, 333, 737, 370, 556, 584, 333, 737, 333,
    400, 584, 333, 333, 333, 556, 537, 278, 333, 333, 365, 556, 834, 834, 834, 611,
    667, 667, 667, 667, 667, 667, 1000, 722, 667, 667, 667, 667, 278, 278, 278, 278,
    722, 722, 778, 778, 778, 778, 778, 584, 778, 722, 722, 722, 722, 667, 667, 611,
    556, 556, 556, 556, 556, 556, 889, 500, 556, 556, 556, 556, 278, 278, 278, 278,
    556, 556, 556, 556, 556, 556, 556, 584, 611, 556, 556, 556, 556, 500, 556, 500,
];

#[rustfmt::skip]
const BOLD: [u16; 224] = [
    278, 333, 474, 556, 556, 889, 722, 238, 333, 333, 389, 584, 278, 333, 278, 278,
    556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 333, 333, 584, 584, 584, 611,
    975, 722, 722, 722, 722, 667, 611, 778, 722, 278, 556, 722, 611, 833, 722, 778,
    667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 333, 278, 333, 584, 556,
    333, 556, 611, 556, 611, 556, 333, 611, 611, 278, 278, 556, 278, 889, 611, 611,
    611, 611, 389, 556, 333, 611, 556, 778, 556, 556, 500, 389, 280, 389, 584, 350,
    556, 350, 278, 556, 500, 1000, 556, 556, 333, 1000, 667, 333, 1000, 350, 611, 350,
    350, 278, 278, 500, 500, 350, 556, 1000, 333, 1000, 556, 333, 944, 350, 500, 667,
    278, 333, 556, 556, 556, 556, 280, 556, 333, 737, 370, 556, 584, 333, 737, 333,
    400, 584, 333, 333, 333, 611, 556, 278, 333, 333, 365, 556, 834, 834, 834, 611,
    722, 722, 722, 722, 722, 722, 1000, 722, 667, 667, 667, 667, 278, 278, 278, 278,
    722, 722, 778, 778, 778, 778, 778, 584, 778, 722, 722, 722, 722, 667, 667, 611,
    556, 556, 556, 556, 556, 556, 889, 556, 556, 556, 556, 556, 278, 278, 278, 278,
    611, 611, 611, 611, 611, 611, 611, 584, 611, 611, 611, 611, 611, 556, 611, 556,
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wrapped(text: &str, max_width: u32, lines: usize) -> Vec<String> {
        let lines = wrap(Font::Regular, &encode(text), max_width, lines);
        lines
            .iter()
            .map(|line| line.iter().map(|b| if *b == ELLIPSIS { '…' } else { char::from(*b) }).collect())
            .collect()
    }

    #[test]
    fn accents_of_winansi_are_preserved_and_other_characters_are_spelt_in_ascii_or_become_question_marks() {
        for (text, expected) in [
            ("Padaria São João & Cia", b"Padaria S\xe3o Jo\xe3o & Cia".as_slice()),
            ("€ – “ÇÃ”…", b"\x80 \x96 \x93\xc7\xc3\x94\x85"),
            ("Cafe\u{301}", b"Cafe"),
            ("  a\t\n\u{a0} b\r", b"a b"),
            ("a\0\u{7f}\u{85}b\u{9d}", b"a b"),
            ("Łódź, Søren ﬁ ≠", b"L\xf3dz, S\xf8ren fi ?"),
            ("Zé\u{ad}\u{200b}\u{202e}\u{fe0f}", b"Z\xe9"),
            ("日本 🍦 Ω", b"?? ? ?"),
            ("", b""),
        ] {
            assert_eq!(encode(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_width_is_the_sum_of_the_fonts_metrics() {
        assert_eq!(width(Font::Regular, b"Wi 0."), 944 + 222 + 278 + 556 + 278);
        assert_eq!(width(Font::Bold, b"Wi 0."), 944 + 278 + 278 + 556 + 278);
        assert_eq!(width(Font::Regular, &[0xe7, 0xff]), 500 + 500);
    }

    #[test]
    fn lines_break_at_spaces_and_the_last_ends_in_an_ellipsis() {
        // A digit is 556 wide, a space 278.
        assert_eq!(wrapped("00 00 00", 4 * 556 + 278, 3), ["00 00", "00"]);
        assert_eq!(wrapped("00 00 00", 2 * 556, 3), ["00", "00", "00"]);
        assert_eq!(wrapped("00 00 00", 4 * 556 + 278, 1), ["00…"]);
        assert_eq!(wrapped("0000000", 3 * 556, 9), ["000", "000", "0"]);
        assert_eq!(wrapped("0 000000", 3 * 556, 2), ["0", "0…"]);
        assert_eq!(wrapped("00", 2 * 556, 1), ["00"]);
        assert_eq!(wrapped("00", 0, 0), [""; 0]);
    }

    proptest! {
        #[test]
        fn wrapped_text_respects_width_and_number_of_lines(
            text in ".{0,300}", max_width in 2_000_u32..20_000, lines in 0_usize..6
        ) {
            let wrapped = wrap(Font::Bold, &encode(&text), max_width, lines);
            prop_assert!(wrapped.len() <= lines);
            for line in wrapped {
                prop_assert!(width(Font::Bold, &line) <= max_width && !line.is_empty());
            }
        }
    }
}

//! Spells names in the characters that a BR Code and a PDF can show.

use icu_normalizer::DecomposingNormalizerBorrowed;

/// Checks whether a character is displayed as nothing: a control character, or one without a glyph.
pub fn is_invisible(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{e0000}'..='\u{e0fff}'
        )
}

/// Combining marks and invisible characters become an empty text. `None`: the character has no such spelling.
pub(crate) fn ascii(character: char) -> Option<String> {
    // Unicode's compatibility decomposition splits letters and their diacritics, ligatures and wide forms.
    let parts = DecomposingNormalizerBorrowed::new_nfkd().normalize_iter(std::iter::once(character));
    let mut spelling = String::new();
    for part in parts {
        match part {
            ' '..='~' => spelling.push(part),
            // Without the strokes through a sign between them: `≠` must not become `=`.
            '\u{300}'..='\u{333}' | '\u{339}'..='\u{36f}' => {}
            _ if is_invisible(part) => {}
            _ => spelling.push_str(undecomposed(part)?),
        }
    }
    Some(spelling)
}

/// The text in lower case, and without the accents of Latin letters, as it is compared with what a person types.
pub fn folded(text: &str) -> String {
    let spelt = text.chars().map(|character| ascii(character).unwrap_or_else(|| character.to_string()));
    spelt.collect::<String>().to_lowercase()
}

/// Spells the letters and signs that Unicode does not decompose.
fn undecomposed(character: char) -> Option<&'static str> {
    Some(match character {
        'Ł' => "L",
        'ł' => "l",
        'Đ' | 'Ð' => "D",
        'đ' | 'ð' => "d",
        'Ø' => "O",
        'ø' => "o",
        'Æ' => "AE",
        'æ' => "ae",
        'Œ' => "OE",
        'œ' => "oe",
        'ß' => "ss",
        'ẞ' => "SS",
        'Þ' => "Th",
        'þ' => "th",
        'Ħ' => "H",
        'ħ' => "h",
        'ı' => "i",
        'ȷ' => "j",
        'ĸ' => "k",
        'Ŋ' => "N",
        'ŋ' => "n",
        'Ŧ' => "T",
        'ŧ' => "t",
        'Ə' => "E",
        'ə' => "e",
        'ƒ' => "f",
        '‘' | '’' | '‚' | '‛' => "'",
        '“' | '”' | '„' | '‟' => "\"",
        '‐' | '–' | '—' | '−' => "-",
        '⁄' => "/",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_letter_is_spelt_by_its_base_letter() {
        for (text, spelling) in [
            ("Łódź", "Lodz"),
            ("Đặng Thị Hương", "Dang Thi Huong"),
            ("Søren Ærø", "Soren AEro"),
            ("İstanbul ığdır", "Istanbul igdir"),
            ("Þór Straße ẞ", "Thor Strasse SS"),
            ("Žižkov Šimůnek Őrség", "Zizkov Simunek Orseg"),
            ("ﬁlial ＡＢＣ Nº 1ª…", "filial ABC No 1a..."),
            ("“D’Ávila” – ½", "\"D'Avila\" - 1/2"),
            ("Zé\u{200b}\u{ad}\u{202e}\u{fe0f}\0", "Ze"),
        ] {
            let spelt: String = text.chars().map(|character| ascii(character).unwrap()).collect();
            assert_eq!(spelt, spelling);
        }
        for character in ['日', '≠', 'Ω', 'Ж', '한', '🍦', '€'] {
            assert_eq!(ascii(character), None, "{character}");
        }
    }

    proptest! {
        #[test]
        fn a_spelling_is_printable_ascii(character: char) {
            let spelling = ascii(character).unwrap_or_default();
            prop_assert!(spelling.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{:?}", spelling);
        }
    }
}

//! The name and the mark of the product on the pages, which an operator may replace. The pages of all functions of a
//! process have the same, so they are not handed through each page.

use std::sync::OnceLock;

use crate::config::{ConfigError, Vars};
use crate::language::{Language, Word};

/// In characters. A longer name does not fit beside the shop's in the header.
const MAX_NAME_CHARS: usize = 30;

/// In bytes. Each page has the mark.
const MAX_MARK_BYTES: usize = 1_000;

const NAME: Word = Word { pt: "Serviço de pagamento", en: "Payment service", es: "Servicio de pago" };

/// A tick in a square with round corners.
const MARK: &str = "M6 0h12a6 6 0 0 1 6 6v12a6 6 0 0 1-6 6H6a6 6 0 0 1-6-6V6a6 6 0 0 1 6-6zM4.9 12.8l5.7 5.7 9-10.8-2.3-1.9-6.9 8.3-3.4-3.4z";

static PRODUCT: OnceLock<Product> = OnceLock::new();

static DEFAULT: Product = Product { name: None, mark: None };

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Product {
    name: Option<String>,
    mark: Option<String>,
}

impl Product {
    /// Reads `PRODUCT_NAME` and `PRODUCT_MARK`; without one, the default is shown.
    /// Errors: When a value is not valid.
    pub fn from_vars(var: Vars<'_>) -> Result<Self, ConfigError> {
        let text = |name| var(name).filter(|value| !value.is_empty());
        let (name, mark) = (text("PRODUCT_NAME"), text("PRODUCT_MARK"));
        if name.as_ref().is_some_and(|name| name.chars().count() > MAX_NAME_CHARS) {
            let error = format!("PRODUCT_NAME must have at most {MAX_NAME_CHARS} characters");
            return Err(ConfigError::new(error));
        }
        let is_of_path = |c: char| c.is_ascii_digit() || "MLHVCSQTAZmlhvcsqtaz., +-".contains(c);
        if mark.as_ref().is_some_and(|mark| mark.len() > MAX_MARK_BYTES || !mark.chars().all(is_of_path)) {
            let error =
                format!("PRODUCT_MARK must be the data of one SVG path, of at most {MAX_MARK_BYTES} bytes");
            return Err(ConfigError::new(error));
        }
        Ok(Self { name, mark })
    }

    /// The pages of this process show it from now on. Another one that comes later is not shown.
    pub fn show(self) {
        PRODUCT.get_or_init(|| self);
    }

    pub fn shown() -> &'static Self {
        PRODUCT.get().unwrap_or(&DEFAULT)
    }

    pub fn name(&self, language: Language) -> &str {
        self.name.as_deref().unwrap_or(language.say(NAME))
    }

    /// The data of one SVG path, which is filled by the rule `evenodd` in a box of 24 × 24.
    pub fn mark(&self) -> &str {
        self.mark.as_deref().unwrap_or(MARK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product(name: &str, mark: &str) -> Result<Product, String> {
        let value = |of: &str| if of == "PRODUCT_NAME" { name } else { mark };
        Product::from_vars(&|of| Some(value(of).to_owned())).map_err(|error| error.to_string())
    }

    #[test]
    fn a_name_and_a_mark_replace_the_defaults_if_they_are_valid() {
        let own = product("Loja Pay", "M0 0h24v24H0z").unwrap();
        assert_eq!((own.name(Language::English), own.mark()), ("Loja Pay", "M0 0h24v24H0z"));
        let default = product("", "").unwrap();
        assert_eq!((default.name(Language::English), default.mark()), ("Payment service", MARK));
        assert!(product(&"x".repeat(31), "").unwrap_err().contains("at most 30 characters"));
        for mark in ["<svg>", "M0 0\"/>", "url(#a)", &"M0 0".repeat(251)] {
            assert!(product("", mark).unwrap_err().contains("one SVG path"), "{mark}");
        }
    }
}

use acquirer_kit::{KitError, Result};

use crate::connector::PixBank;
use crate::pix::{PixPage, PixQuery};

/// The most pages of a query. A query with more must be split into shorter periods.
const MAX_PAGES: u32 = 1_000;

/// How often the pages of a query are read at most, because the number of its Pix changed meanwhile.
const MAX_PASSES: u32 = 3;

/// The pages of a query. If the number of its Pix changes while the pages are read, a page may have shifted.
/// Then all pages are read again, so a Pix can be on several of the returned pages.
#[derive(Debug)]
pub struct PixPages<'a> {
    bank: &'a PixBank,
    query: PixQuery,
    passes: u32,
    /// The numbers of Pix and of pages, as the first page of this pass reported them.
    sizes: Option<(Option<u64>, u32)>,
    is_stable: bool,
    is_done: bool,
}

impl<'a> PixPages<'a> {
    pub(super) fn new(bank: &'a PixBank, query: PixQuery) -> Self {
        let query = PixQuery { page: 0, ..query };
        Self { bank, query, passes: 1, sizes: None, is_stable: true, is_done: false }
    }

    /// Reads the next page. `None`: all pages are read.
    pub async fn next(&mut self) -> Result<Option<PixPage>> {
        if self.is_done {
            return Ok(None);
        }
        if self.query.page >= MAX_PAGES {
            return Err(KitError::Unavailable(format!(
                "the bank lists more than {MAX_PAGES} pages; set a shorter maximum period of the acquirer"
            )));
        }
        let page = self.bank.list(&self.query).await?;
        let sizes = (page.total, page.pages);
        self.is_stable = self.is_stable && *self.sizes.get_or_insert(sizes) == sizes;
        let next = self.query.page.saturating_add(1);
        if next < page.pages {
            self.query.page = next;
        } else if self.is_stable || self.passes >= MAX_PASSES {
            self.is_done = true;
        } else {
            self.query.page = 0;
            (self.passes, self.sizes, self.is_stable) = (self.passes.saturating_add(1), None, true);
        }
        Ok(Some(page))
    }

    /// Whether all pages are read, and their number of Pix never stayed the same from the first page to the
    /// last. Then a Pix may be on none of them.
    pub fn kept_changing(&self) -> bool {
        self.is_done && !self.is_stable
    }
}

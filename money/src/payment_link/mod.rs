//! Payment links: requests, responses, reads and writes, and the charges that payers make at them. The rules are in
//! [`domain::payment_link`].

mod repository;
pub mod request;
mod view;

pub use repository::{PaymentLinks, Standing};
pub use view::{PaymentLinkListView, PaymentLinkView};

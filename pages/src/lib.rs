//! What the HTML pages share: layout, components, style sheet, script, words in three languages, and the headers of
//! a page. A page is HTML that works without the script. The script and the style sheet are files with a hash in
//! their URL, so that the content security policy allows nothing inline.

mod access;
pub mod assets;
mod components;
mod done;
mod fields;
pub mod forms;
mod icons;
pub mod kept;
mod layout;
pub mod pay;
mod receipt;
mod response;
mod sent;
pub mod upload;
pub mod words;

pub use access::{Access, code_field, email_field, password_field};
pub use assets::accent;
pub use components::{
    Bar, Cell, Chart, Tone, alert, announced, chips, choice, code_block, copy_button, empty, facts, hidden,
    masked_payer, money, product, qr_picture, table, tag, time,
};
pub use domain::masking::without_documents;
pub use done::done_words;
pub use fields::field_word;
pub use icons::Icon;
pub use layout::{Document, Shell, icon_of};
pub use receipt::{ReceiptDetails, receipt};
pub use response::{connecting_to, errors_as_pages, html, path_with, safe_path};
pub use sent::{ASK, CONFIRMED, SentForm};
pub use shared::language::{Language, Word};
pub use shared::{translate, words};

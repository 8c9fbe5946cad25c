//! What an acquirer makes and tells: the code that a payer pays, and its picture.

pub mod brcode;
pub mod qr;

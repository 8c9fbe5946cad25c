//! Encoders for the artefacts that a payer pays with or receives: BR Code, QR code, boleto, Multibanco
//! reference, crypto address, and PDF documents.
//!
//! This is the lowest crate of the workspace: it depends on none of the others. Its functions are pure: the
//! same arguments return the same bytes. It does no I/O, and it has no types for charges, money, HTTP or AWS.
//! Amounts are integers of the smallest unit, which is part of the parameter's name (`amount_centavos`,
//! `amount_cents`). The functions of [`pdf`] receive amounts and times as formatted text.
//!
//! | module | encodes | specification |
//! | --- | --- | --- |
//! | [`brcode`] | the text of a Pix charge | Central Bank of Brazil, over EMV QR Code |
//! | [`qr`] | that text as a QR code in a PNG | ISO/IEC 18004 |
//! | [`boleto`] | a bank slip's barcode number and digitable line | Febraban |
//! | [`interleaved`] | the barcode number as bars | ISO/IEC 16390 |
//! | [`multibanco`] | a payment reference with its check digits | SIBS |
//! | [`crypto`] | addresses on TRON and Bitcoin's test networks | base58check, BIP-173 |
//! | [`digits`] | nothing: the type of the digits in boletos and references | none |
//! | [`text`] | nothing: names in the characters that codes and documents can show | Unicode, NFKD |
//! | [`logo`] | nothing: checks the file of a shop's logo | ISO/IEC 15948 |
//! | [`pdf`] | the boleto, the payment receipt and reports as PDF | PDF 1.7, Banco do Brasil's layout |
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that fails may panic"))]

pub mod boleto;
pub mod brcode;
pub mod crypto;
pub mod digits;
pub mod interleaved;
pub mod logo;
pub mod multibanco;
pub mod pdf;
pub mod qr;
pub mod text;

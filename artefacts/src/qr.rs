//! Encodes a payment code, such as a BR Code, as a QR code in a PNG.
//!
//! Most charge responses include this image, so encoding must be cheap. One of the standard's eight masks is
//! used for all codes: readers accept every mask, and choosing the best one would take thirty times the
//! instructions of encoding. The parts that do not depend on the content (patterns, mask, placement order of
//! the bits) are computed once per size and cached. The `qrcode` crate encodes the bits and their error
//! correction; the module `png` writes the file.
//!
//! Source: ISO/IEC 18004, byte mode, error correction M.

mod png;

use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use qrcode::bits::Bits;
use qrcode::canvas::{Canvas, MaskPattern, Module};
use qrcode::{EcLevel, Version, ec};

/// The error correction level. Level M recovers up to 15 % of the codewords: enough for a scratched screen,
/// at a moderate size.
const LEVEL: EcLevel = EcLevel::M;

const MASK: MaskPattern = MaskPattern::Checkerboard;

/// The maximum length of a code in bytes: that of a `pixCopiaECola` in API Pix.
const MAX_LEN: usize = 512;

/// The versions (sizes) in use. The largest has a capacity of 560 bytes at level M.
const VERSIONS: [i16; 18] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18];

/// The reason why a code can't be encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QrError {
    /// The code is empty or longer than 512 bytes.
    #[error("the code must have 1 to 512 bytes")]
    Length,
    /// The `qrcode` crate rejected data that is within its limits.
    #[error("the code could not be encoded")]
    Encoder,
}

/// Encodes a code of 1 to 512 bytes as a PNG: black on white, one bit per pixel, six pixels per module, with
/// the quiet zone of four modules that readers need. The image of a typical code (181 to 213 bytes) has 390 ×
/// 390 pixels in 1.3 kB.
pub fn png(code: &str) -> Result<Vec<u8>, QrError> {
    let symbol = Symbol::new(code.as_bytes())?;
    Ok(png::encode(symbol.width, &symbol.modules))
}

/// Encodes a code as [`png()`] does, and returns the file in base64 (RFC 4648, with padding).
pub fn png_base64(code: &str) -> Result<String, QrError> {
    png(code).map(|file| STANDARD.encode(file))
}

/// A QR code. Its modules are listed row by row, with 1 for a dark module.
struct Symbol {
    width: usize,
    modules: Vec<u8>,
}

impl Symbol {
    fn new(data: &[u8]) -> Result<Self, QrError> {
        if data.is_empty() || data.len() > MAX_LEN {
            return Err(QrError::Length);
        }
        let (bits, layout) = encode(data)?;
        let (codewords, corrections) = ec::construct_codewords(&bits.into_bytes(), layout.version, LEVEL)
            .map_err(|_| QrError::Encoder)?;
        let mut modules = layout.blank.clone();
        // The positions after the last codeword hold the remainder bits, which are zero.
        for (positions, codeword) in layout.positions.chunks(8).zip(codewords.iter().chain(&corrections)) {
            let mut codeword = *codeword;
            for position in positions {
                codeword = codeword.rotate_left(1);
                if let Some(module) = modules.get_mut(usize::from(*position)) {
                    *module ^= codeword & 1;
                }
            }
        }
        Ok(Self { width: layout.width, modules })
    }
}

/// Encodes the data bits for the smallest version that has the capacity for them.
fn encode(data: &[u8]) -> Result<(Bits, &'static Layout), QrError> {
    static LAYOUTS: [OnceLock<Layout>; VERSIONS.len()] = [const { OnceLock::new() }; VERSIONS.len()];
    for (number, layout) in VERSIONS.iter().zip(&LAYOUTS) {
        let version = Version::Normal(*number);
        let mut bits = Bits::new(version);
        let capacity = bits.max_len(LEVEL).map_err(|_| QrError::Encoder)?;
        // Skips a version whose capacity is below the data alone. The result `fits` also considers the mode
        // and length, which need up to 20 bits more.
        if capacity.div_euclid(8) < data.len() {
            continue;
        }
        let fits = bits.push_byte_data(data).and_then(|()| bits.push_terminator(LEVEL));
        if fits.is_ok() {
            return Ok((bits, layout.get_or_init(|| Layout::new(version))));
        }
    }
    Err(QrError::Encoder)
}

/// The parts that all codes of one version share.
struct Layout {
    version: Version,
    width: usize,
    /// The modules of a masked code whose data bits are all zero.
    blank: Vec<u8>,
    /// The index of each data bit's module, in placement order.
    positions: Vec<u16>,
}

impl Layout {
    fn new(version: Version) -> Self {
        let side = version.width();
        let mut canvas = Canvas::new(version, LEVEL);
        canvas.draw_all_functional_patterns();

        // Bits are placed in pairs of columns, from the right, alternately upwards and downwards. The column
        // of the timing pattern is skipped.
        let columns: Vec<i16> = (0..side).rev().filter(|x| *x != 6).collect();
        let mut positions = Vec::new();
        let mut upwards = true;
        for pair in columns.chunks(2) {
            for row in 0..side {
                let y = if upwards { side.saturating_sub(row).saturating_sub(1) } else { row };
                let free = pair.iter().filter(|x| canvas.get(**x, y) == Module::Empty);
                // An index is below 89², because version 18 has a width of 89 modules. So it fits in 16 bits.
                positions
                    .extend(free.filter_map(|x| u16::try_from(y.checked_mul(side)?.checked_add(*x)?).ok()));
            }
            upwards = !upwards;
        }

        canvas.apply_mask(MASK);
        let blank = canvas.into_colors().into_iter().map(|color| color.select(1, 0)).collect();
        Self { version, width: usize::from(side.unsigned_abs()), blank, positions }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use qrcode::Color;

    use super::*;
    use crate::brcode::DynamicBrCode;

    const MARGIN: usize = 4;
    const SCALE: usize = 6;

    struct Picture {
        side: usize,
        /// 0 for black, 255 for white.
        pixels: Vec<u8>,
    }

    /// Decodes the file with the `png` crate, an implementation that is independent of the encoder.
    fn open(file: &[u8]) -> Picture {
        let mut decoder = ::png::Decoder::new(std::io::Cursor::new(file));
        decoder.set_transformations(::png::Transformations::EXPAND);
        let mut reader = decoder.read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((info.width, info.color_type), (info.height, ::png::ColorType::Grayscale));
        reader.finish().unwrap();
        Picture { side: info.width.try_into().unwrap(), pixels }
    }

    /// Detects and decodes the QR code in the picture, as a camera's software does.
    fn scan(picture: &Picture) -> String {
        let (side, pixels) = (picture.side, &picture.pixels);
        let rows: Vec<&[u8]> = pixels.chunks(side).collect();
        let mut image = rqrr::PreparedImage::prepare_from_greyscale(side, side, |x, y| rows[y][x]);
        let grids = image.detect_grids();
        assert_eq!(grids.len(), 1);
        let (meta, content) = grids[0].decode().unwrap();
        assert_eq!(meta.ecc_level, 0, "the level is M");
        content
    }

    fn typical_code() -> String {
        let code = DynamicBrCode {
            location: "api.payments.example.com/pix/v1/cob/01m7xszsqwk549s9y2zxghq9p9",
            amount_centavos: Some(12_345),
            merchant_name: "Loja de Exemplo do Brasil",
            merchant_city: "São Paulo",
        };
        code.encode().unwrap()
    }

    #[test]
    fn a_typical_code_is_scanned_back_from_its_image() {
        let code = typical_code();
        let file = png(&code).unwrap();
        let picture = open(&file);
        assert_eq!(scan(&picture), code);
        assert_eq!(picture.side, 390);
        assert!(file.len() < 1_500, "{}", file.len());
        assert_eq!(STANDARD.decode(png_base64(&code).unwrap()).unwrap(), file);
    }

    #[test]
    fn a_code_of_each_version_is_scanned_back_from_its_image() {
        for length in
            [1, 14, 15, 26, 42, 62, 84, 106, 122, 152, 180, 181, 213, 251, 287, 331, 362, 412, 450, 504, 512]
        {
            let code: String = typical_code().chars().cycle().take(length).collect();
            assert_eq!(scan(&open(&png(&code).unwrap())), code, "{length}");
        }
    }

    #[test]
    fn each_module_is_a_square_of_six_pixels_inside_a_white_margin() {
        let code = typical_code();
        let symbol = Symbol::new(code.as_bytes()).unwrap();
        let picture = open(&png(&code).unwrap());
        assert_eq!(picture.side, (symbol.width + 2 * MARGIN) * SCALE);
        for (at, pixel) in picture.pixels.iter().enumerate() {
            let (x, y) = (
                (at % picture.side / SCALE).checked_sub(MARGIN),
                (at / picture.side / SCALE).checked_sub(MARGIN),
            );
            let dark = match (x, y) {
                (Some(x), Some(y)) if x < symbol.width && y < symbol.width => {
                    symbol.modules[y * symbol.width + x] == 1
                }
                _ => false,
            };
            assert_eq!(*pixel, if dark { 0 } else { 255 }, "{x:?} {y:?}");
        }
    }

    #[test]
    fn an_empty_or_too_long_code_is_rejected() {
        assert_eq!(png(""), Err(QrError::Length));
        assert_eq!(png(&"a".repeat(513)), Err(QrError::Length));
        assert_eq!(png_base64(&"é".repeat(257)), Err(QrError::Length));
    }

    /// Places the modules with the `qrcode` crate's own functions, for the same version.
    fn placed_by_the_crate(data: &[u8], version: Version) -> Vec<u8> {
        let mut bits = Bits::new(version);
        bits.push_byte_data(data).unwrap();
        bits.push_terminator(LEVEL).unwrap();
        let (codewords, corrections) = ec::construct_codewords(&bits.into_bytes(), version, LEVEL).unwrap();
        let mut canvas = Canvas::new(version, LEVEL);
        canvas.draw_all_functional_patterns();
        canvas.draw_data(&codewords, &corrections);
        canvas.apply_mask(MASK);
        canvas.into_colors().into_iter().map(|color| u8::from(color == Color::Dark)).collect()
    }

    proptest! {
        #[test]
        fn modules_are_placed_as_the_crate_places_them(data in proptest::collection::vec(any::<u8>(), 1..=MAX_LEN)) {
            let (_, layout) = encode(&data).unwrap();
            prop_assert_eq!(Symbol::new(&data).unwrap().modules, placed_by_the_crate(&data, layout.version));
        }
    }

    proptest! {
        // Fewer cases than the default, because a scan takes milliseconds.
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn any_code_is_scanned_back_from_its_image(code in "[ -~]{1,300}") {
            prop_assert_eq!(scan(&open(&png(&code).unwrap())), code);
        }
    }
}

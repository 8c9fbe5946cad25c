//! Encodes a payment code, such as a BR Code, as a QR code in a PNG.
//!
//! Most charge responses include this image, so encoding must be cheap. One of the standard's eight masks is
//! used for all codes: readers accept every mask, and choosing the best one would take many times as long as
//! all else.
//!
//! Source: ISO/IEC 18004, byte mode, error correction M.

use std::fmt::Write as _;
use std::iter;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use png::{BitDepth, ColorType, Compression, Encoder, Filter};
use qrcode::bits::Bits;
use qrcode::canvas::{Canvas, MaskPattern};
use qrcode::{Color, EcLevel, QrResult, Version, ec};

/// Level M recovers up to 15 % of the codewords: enough for a scratched screen, at a moderate size.
const LEVEL: EcLevel = EcLevel::M;

const MASK: MaskPattern = MaskPattern::Checkerboard;

/// The maximum length of a code in bytes: that of a `pixCopiaECola` in API Pix.
const MAX_LEN: usize = 512;

/// The largest version (size) in use. It has a capacity of 560 bytes at level M.
const LARGEST: i16 = 18;

/// ISO/IEC 18004 requires four.
const MARGIN: usize = 4;

/// With six, four modules fill exactly three bytes.
const SCALE: usize = 6;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QrError {
    /// The code is empty or longer than 512 bytes.
    #[error("the code must have 1 to 512 bytes")]
    Length,
    #[error("the code could not be encoded")]
    Encoder,
}

/// Encodes a code of 1 to 512 bytes as a PNG: black on white, one bit per pixel, six pixels per module, with
/// the quiet zone of four modules that readers need. The image of a typical code (181 to 213 bytes) has 390 ×
/// 390 pixels in about 3 kB.
pub fn png(code: &str) -> Result<Vec<u8>, QrError> {
    let (width, modules) = symbol(code.as_bytes())?;
    let blank = vec![Color::Light; width];
    let margin = iter::repeat_n(&*blank, MARGIN);
    let mut pixels = Vec::new();
    for row in margin.clone().chain(modules.chunks(width)).chain(margin) {
        pixels.extend(row_of_pixels(row).repeat(SCALE));
    }

    let side = u32::try_from(width.saturating_add(2 * MARGIN).saturating_mul(SCALE)).unwrap_or(u32::MAX);
    let mut file = Vec::with_capacity(4096);
    let mut encoder = Encoder::new(&mut file, side, side);
    encoder.set_color(ColorType::Grayscale);
    encoder.set_depth(BitDepth::One);
    // A tenth of the time of a charge went to a file of a third of the size: rows that repeat are zeros after the
    // filter, which the fast method handles well.
    encoder.set_compression(Compression::Fast);
    encoder.set_filter(Filter::Up);
    let written = encoder.write_header().and_then(|mut png| png.write_image_data(&pixels));
    written.map(|()| file).map_err(|_| QrError::Encoder)
}

/// Encodes a code as [`png()`] does, and returns the file in base64 (RFC 4648, with padding).
pub fn png_base64(code: &str) -> Result<String, QrError> {
    png(code).map(|file| STANDARD.encode(file))
}

/// Encodes a code for an SVG in a page: the side, with the quiet zone, and the path of the black modules. A secret is
/// drawn so, because an image has a URL of its own.
pub fn svg_path(code: &str) -> Result<(usize, String), QrError> {
    let (width, modules) = symbol(code.as_bytes())?;
    let mut path = String::new();
    for (y, row) in modules.chunks(width).enumerate() {
        for (x, _) in row.iter().enumerate().filter(|(_, module)| **module == Color::Dark) {
            // Writing to a string never fails.
            let _ = write!(path, "M{} {}h1v1h-1z", x.saturating_add(MARGIN), y.saturating_add(MARGIN));
        }
    }
    Ok((width.saturating_add(2 * MARGIN), path))
}

/// A pixel has one bit, which is 0 for black.
fn row_of_pixels(row: &[Color]) -> Vec<u8> {
    // The width of a code is a multiple of four, plus one. So three more modules complete the last group.
    let margin = |modules| iter::repeat_n(Color::Light, modules);
    let modules: Vec<Color> = margin(MARGIN).chain(row.iter().copied()).chain(margin(MARGIN + 3)).collect();
    let mut pixels = Vec::with_capacity(modules.len());
    for group in modules.chunks(4) {
        let bits = group.iter().fold(0_u32, |bits, module| bits << SCALE | module.select(0, 0b11_1111));
        let [_, bytes @ ..] = bits.to_be_bytes();
        pixels.extend(bytes);
    }
    // Of the last three bytes, the row needs one: the last module and padding.
    pixels.truncate(pixels.len().saturating_sub(2));
    pixels
}

fn symbol(data: &[u8]) -> Result<(usize, Vec<Color>), QrError> {
    if data.is_empty() || data.len() > MAX_LEN {
        return Err(QrError::Length);
    }
    let (version, bits) = (1..=LARGEST)
        .map(Version::Normal)
        .find_map(|version| Some((version, encode(data, version).ok()?)))
        .ok_or(QrError::Encoder)?;
    let codewords = ec::construct_codewords(&bits.into_bytes(), version, LEVEL);
    let (codewords, corrections) = codewords.map_err(|_| QrError::Encoder)?;
    let mut canvas = Canvas::new(version, LEVEL);
    canvas.draw_all_functional_patterns();
    canvas.draw_data(&codewords, &corrections);
    canvas.apply_mask(MASK);
    Ok((usize::from(version.width().unsigned_abs()), canvas.into_colors()))
}

fn encode(data: &[u8], version: Version) -> QrResult<Bits> {
    let mut bits = Bits::new(version);
    bits.push_byte_data(data)?;
    bits.push_terminator(LEVEL)?;
    Ok(bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brcode::DynamicBrCode;

    struct Picture {
        side: usize,
        /// 0 for black, 255 for white.
        pixels: Vec<u8>,
    }

    /// Decodes the file.
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
        assert!(file.len() < 3_500, "{}", file.len());
        assert_eq!(STANDARD.decode(png_base64(&code).unwrap()).unwrap(), file);
    }

    #[test]
    fn a_code_is_scanned_back_from_its_svg() {
        const SCALE: usize = 4;
        let code =
            "otpauth://totp/Loja:ana%40loja.example?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=Loja";
        let (modules, path) = svg_path(code).unwrap();
        let side = modules * SCALE;
        let mut pixels = vec![255; side * side];
        for module in path.split_terminator("h1v1h-1z") {
            let (x, y) = module.strip_prefix('M').unwrap().split_once(' ').unwrap();
            let (x, y): (usize, usize) = (x.parse().unwrap(), y.parse().unwrap());
            for row in y * SCALE..(y + 1) * SCALE {
                pixels[row * side + x * SCALE..][..SCALE].fill(0);
            }
        }
        assert_eq!(scan(&Picture { side, pixels }), code);
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
    fn an_empty_or_too_long_code_is_rejected() {
        assert_eq!(png(""), Err(QrError::Length));
        assert_eq!(png(&"a".repeat(513)), Err(QrError::Length));
        assert_eq!(png_base64(&"é".repeat(257)), Err(QrError::Length));
    }
}

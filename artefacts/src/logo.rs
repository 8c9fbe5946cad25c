//! Checks the file of a shop's logo.

use std::io::Cursor;

use png::{Decoder, Limits};

/// The longest side in pixels. It bounds the memory for decoding: 8 MiB at 8 bytes a pixel.
const MAX_SIDE: u32 = 1_024;

/// The memory that the decoder may take besides the image, in bytes.
const DECODER_BYTES: usize = 1024 * 1024;

/// Whether the bytes are a PNG (ISO/IEC 15948) of one image without animation, of 1 to 1,024 pixels a side, which can
/// be decoded to its end, and nothing else.
pub fn is_logo(file: &[u8]) -> bool {
    decode(file).is_some() && bytes_after_end(file) == Some(0)
}

/// The number of bytes after the last chunk, which decoders ignore. They could be another file, which the logo's public
/// URL would serve.
fn bytes_after_end(file: &[u8]) -> Option<usize> {
    let mut rest = file.get(8..)?;
    loop {
        let (length, kind) = (rest.first_chunk::<4>()?, rest.get(4..8)?);
        // The content has a length and a kind before it, and a checksum after it.
        let next = usize::try_from(u32::from_be_bytes(*length)).ok()?.checked_add(12)?;
        rest = rest.get(next..)?;
        if kind == b"IEND" {
            return Some(rest.len());
        }
    }
}

fn decode(file: &[u8]) -> Option<()> {
    let limits = Limits { bytes: DECODER_BYTES };
    let mut reader = Decoder::new_with_limits(Cursor::new(file), limits).read_info().ok()?;
    let info = reader.info();
    // Before the image is decoded: a small file may claim to be huge.
    let is_bounded = info.width <= MAX_SIDE && info.height <= MAX_SIDE && info.animation_control.is_none();
    let mut image = vec![0; reader.output_buffer_size().filter(|_| is_bounded)?];
    reader.next_frame(&mut image).ok()?;
    reader.finish().ok()
}

#[cfg(test)]
mod tests {
    use png::{BitDepth, ColorType, Encoder};

    use super::*;

    fn encoded(width: u32, height: u32, frames: u32) -> Vec<u8> {
        encoded_as((ColorType::Grayscale, BitDepth::One), width, height, frames)
    }

    fn encoded_as((color, depth): (ColorType, BitDepth), width: u32, height: u32, frames: u32) -> Vec<u8> {
        let mut file = Vec::new();
        let mut encoder = Encoder::new(&mut file, width, height);
        encoder.set_color(color);
        encoder.set_depth(depth);
        if frames > 1 {
            encoder.set_animated(frames, 0).unwrap();
        }
        let mut writer = encoder.write_header().unwrap();
        let bits = if depth == BitDepth::One { 1 } else { 64 };
        let row = usize::try_from((width * bits).div_ceil(8)).unwrap();
        for _ in 0..frames {
            writer.write_image_data(&vec![0; row * usize::try_from(height).unwrap()]).unwrap();
        }
        writer.finish().unwrap();
        file
    }

    #[test]
    fn only_a_whole_png_of_bounded_size_is_a_logo() {
        let logo = encoded(1_024, 300, 1);
        let largest = encoded_as((ColorType::Rgba, BitDepth::Sixteen), 1_024, 1_024, 1);
        assert!(is_logo(&logo) && is_logo(&encoded(1, 1, 1)) && is_logo(&largest));
        for (what, file) in [
            ("empty", vec![]),
            ("a JPEG", b"\xff\xd8\xff\xe0\0\x10JFIF".to_vec()),
            ("HTML", b"\x89PNG\r\n\x1a\n<script>alert(1)</script>".to_vec()),
            ("too wide", encoded(1_025, 1, 1)),
            ("a small file of a huge image", encoded(30_000, 30_000, 1)),
            ("animated", encoded(8, 8, 2)),
            ("cut off", logo[..logo.len() - 20].to_vec()),
            ("followed by a page", [logo.as_slice(), b"<script>alert(1)</script>"].concat()),
            ("two files", [logo.as_slice(), &logo].concat()),
            (
                "damaged",
                logo.iter().enumerate().map(|(at, byte)| if at == 50 { !byte } else { *byte }).collect(),
            ),
        ] {
            assert!(!is_logo(&file), "{what}");
        }
    }
}

//! The file of a shop's logo.

use std::io::Cursor;

use png::{Compression, Decoder, Encoder, Info, Limits};

/// The longest side in pixels. It bounds the memory for decoding: 8 MiB at 8 bytes a pixel.
const MAX_SIDE: u32 = 1_024;

/// The memory that the decoder may take besides the image, in bytes.
const DECODER_BYTES: usize = 1024 * 1024;

/// Encodes the image of a PNG (ISO/IEC 15948) anew, so that the logo's public URL serves its pixels and nothing else of
/// the file: no metadata, no text, no other file. `None`: it is not one image without animation, of 1 to 1,024 pixels
/// a side, which can be decoded to its end.
pub fn logo(file: &[u8]) -> Option<Vec<u8>> {
    let limits = Limits { bytes: DECODER_BYTES };
    let mut decoder = Decoder::new_with_limits(Cursor::new(file), limits);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    let mut reader = decoder.read_info().ok()?;
    let read = reader.info();
    // Before the image is decoded: a small file may claim to be huge.
    let is_bounded = read.width <= MAX_SIDE && read.height <= MAX_SIDE && read.animation_control.is_none();
    let mut info = Info::with_size(read.width, read.height);
    (info.color_type, info.bit_depth) = (read.color_type, read.bit_depth);
    (info.palette, info.trns) = (read.palette.clone(), read.trns.clone());
    let mut image = vec![0; reader.output_buffer_size().filter(|_| is_bounded)?];
    reader.next_frame(&mut image).ok()?;
    reader.finish().ok()?;
    let mut png = Vec::new();
    let mut encoder = Encoder::with_info(&mut png, info).ok()?;
    encoder.set_compression(Compression::High);
    let mut writer = encoder.write_header().ok()?;
    writer.write_image_data(&image).ok()?;
    writer.finish().ok()?;
    Some(png)
}

#[cfg(test)]
mod tests {
    use png::{BitDepth, ColorType};

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
        for file in [&logo, &encoded(1, 1, 1), &largest] {
            assert!(super::logo(file).is_some_and(|again| again.len() <= file.len() + 100));
        }
        for (what, file) in [
            ("empty", vec![]),
            ("a JPEG", b"\xff\xd8\xff\xe0\0\x10JFIF".to_vec()),
            ("HTML", b"\x89PNG\r\n\x1a\n<script>alert(1)</script>".to_vec()),
            ("too wide", encoded(1_025, 1, 1)),
            ("a small file of a huge image", encoded(30_000, 30_000, 1)),
            ("animated", encoded(8, 8, 2)),
            ("cut off", logo[..logo.len() - 20].to_vec()),
            (
                "damaged",
                logo.iter().enumerate().map(|(at, byte)| if at == 50 { !byte } else { *byte }).collect(),
            ),
        ] {
            assert_eq!(super::logo(&file), None, "{what}");
        }
    }

    #[test]
    fn a_logo_is_its_pixels_and_nothing_else_of_the_file() {
        let mut file = Vec::new();
        let mut encoder = Encoder::new(&mut file, 2, 2);
        encoder.set_color(ColorType::Indexed);
        encoder.set_palette(vec![1, 2, 3, 4, 5, 6]);
        encoder.set_trns(vec![7]);
        encoder.add_text_chunk("Author".to_owned(), "Maria".to_owned()).unwrap();
        encoder.add_itxt_chunk("Comment".to_owned(), "<script>".to_owned()).unwrap();
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(&[0, 1, 1, 0]).unwrap();
        writer.finish().unwrap();
        file.extend(b"<script>alert(1)</script>");
        let logo = logo(&file).unwrap();
        for removed in ["Maria", "script", "tEXt", "iTXt"] {
            assert!(!logo.windows(removed.len()).any(|part| part == removed.as_bytes()), "{removed}");
        }
        let pixels = |file: &[u8]| {
            let mut reader = Decoder::new(Cursor::new(file)).read_info().unwrap();
            let mut image = vec![0; reader.output_buffer_size().unwrap()];
            reader.next_frame(&mut image).unwrap();
            let info = reader.info();
            (image, info.palette.clone().unwrap().into_owned(), info.trns.clone().unwrap().into_owned())
        };
        assert_eq!(pixels(&logo), pixels(&file));
    }
}

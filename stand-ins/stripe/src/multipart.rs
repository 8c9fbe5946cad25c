//! Reads `multipart/form-data`.

use hyper::body::Bytes;

/// The fields, and the name and content of the field `file`.
pub(crate) type Parts = (Vec<(String, String)>, Option<(String, Bytes)>);

/// `None` if the body is malformed.
pub(crate) fn parse(content_type: &str, body: &Bytes) -> Option<Parts> {
    let boundary = content_type.split(';').find_map(|part| part.trim().strip_prefix("boundary="))?;
    let delimiter = format!("\r\n--{}", boundary.trim_matches('"'));
    let mut rest = body.strip_prefix(delimiter.trim_start().as_bytes())?;
    let (mut pairs, mut file) = (Vec::new(), None);
    while let Some(part) = rest.strip_prefix(b"\r\n") {
        let (part, following) = split_at(part, delimiter.as_bytes())?;
        rest = following;
        let (head, content) = split_at(part, b"\r\n\r\n")?;
        let mut quoted =
            std::str::from_utf8(head).ok()?.split("name=\"").skip(1).map(|text| text.split('"').next());
        match (quoted.next()??, quoted.next().flatten()) {
            ("file", Some(filename)) => file = Some((filename.to_owned(), Bytes::copy_from_slice(content))),
            (name, None) => pairs.push((name.to_owned(), std::str::from_utf8(content).ok()?.to_owned())),
            _ => return None,
        }
    }
    rest.starts_with(b"--").then_some((pairs, file))
}

fn split_at<'a>(bytes: &'a [u8], separator: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = bytes.windows(separator.len()).position(|window| window == separator)?;
    let (before, after) = bytes.split_at_checked(at)?;
    Some((before, after.strip_prefix(separator)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_the_file_are_read() {
        let body = "--x\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\ndispute_evidence\r\n\
                    --x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.pdf\"\r\n\
                    Content-Type: application/pdf\r\n\r\n%PDF-\r\n\r\n1\r\n--x--\r\n";
        let read = |length| {
            let body = Bytes::copy_from_slice(&body.as_bytes()[..length]);
            parse("multipart/form-data; boundary=\"x\"", &body)
        };
        let parts = read(body.len()).unwrap();
        assert_eq!(parts.0, [("purpose".to_owned(), "dispute_evidence".to_owned())]);
        assert_eq!(parts.1, Some(("a.pdf".to_owned(), Bytes::from("%PDF-\r\n\r\n1"))));
        for length in [10, 60, body.len() - 6] {
            assert_eq!(read(length), None, "{length}");
        }
    }
}

// The file name in a Content-Disposition header, as RFC 6266 writes it.

/// `filename*`, which has all characters, before `filename`.
pub(crate) fn filename(header: &str) -> Option<String> {
    let mut plain = None;
    for (name, value) in parameters(header) {
        match name.to_ascii_lowercase().as_str() {
            "filename*" => {
                if let Some(name) = extended(&value) {
                    return Some(name);
                }
            }
            "filename" => plain = plain.or(Some(value)),
            _ => {}
        }
    }
    plain
}

/// Behind the first word. A quoted value may have `;` in it.
fn parameters(header: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = header.split_once(';').map_or("", |(_, rest)| rest);
    while let Some((name, behind)) = rest.split_once('=') {
        let name = name.trim_matches([' ', '\t', ';']).to_owned();
        let behind = behind.trim_start();
        let (value, next) = if let Some(text) = behind.strip_prefix('"') {
            quoted(text)
        } else {
            let (value, next) = behind.split_once(';').unwrap_or((behind, ""));
            (value.trim().to_owned(), next)
        };
        found.push((name, value));
        rest = next;
    }
    found
}

fn quoted(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, &text[at + 1..]),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            _ => value.push(character),
        }
    }
    (value, "")
}

/// `UTF-8''%E6%8A%A5.pdf`
fn extended(value: &str) -> Option<String> {
    let (charset, rest) = value.split_once('\'')?;
    let (_, encoded) = rest.split_once('\'')?;
    if !charset.eq_ignore_ascii_case("utf-8") {
        return None;
    }
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut left = encoded.bytes();
    while let Some(byte) = left.next() {
        bytes.push(match byte {
            b'%' => hex(left.next()?)? * 16 + hex(left.next()?)?,
            _ => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

fn hex(digit: u8) -> Option<u8> {
    let value = char::from(digit).to_digit(16)?;
    u8::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::filename;

    #[test]
    fn names() {
        for (header, name) in [
            (r#"attachment; filename="a;b=\"c\".txt""#, Some("a;b=\"c\".txt")),
            (r#"attachment; filename="__.pdf"; filename*=UTF-8''%E6%8A%A5%E5%91%8A.pdf"#, Some("报告.pdf")),
            (r"attachment; filename*=utf-8'en'%zz; FileName=plain.txt", Some("plain.txt")),
            ("inline", None),
            ("attachment; filename=", Some("")),
        ] {
            assert_eq!(filename(header).as_deref(), name, "{header}");
        }
    }
}

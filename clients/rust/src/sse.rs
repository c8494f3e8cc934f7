// Turns bytes into events, in one pass: any line ending, characters and lines cut anywhere. Knows nothing of
// what the data means. Holds one unfinished event, at most 8 MiB of data.

use bytes::{Buf, Bytes};

/// The limit of one event's data.
const MAX_EVENT: usize = 8 << 20;
/// What a line may have besides its data. A comment or a name may not be longer than an event either.
const MAX_LINE: usize = MAX_EVENT + 64;
/// Room for an unfinished line that is kept between events.
const KEPT: usize = 64 << 10;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    pub(crate) data: String,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLarge;

#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// The start of a line whose end has not come.
    line: Vec<u8>,
    data: Option<Vec<u8>>,
    id: Option<String>,
    /// A line ended in CR: a LF that follows belongs to it.
    after_return: bool,
    past_first_line: bool,
}

impl Decoder {
    /// Takes from `input` up to the end of the next event with data, or all of it if there is none.
    pub(crate) fn next(&mut self, input: &mut Bytes) -> Result<Option<Event>, TooLarge> {
        while !input.is_empty() {
            if std::mem::take(&mut self.after_return) && input[0] == b'\n' {
                input.advance(1);
                continue;
            }
            let Some(end) = input.iter().position(|&byte| byte == b'\n' || byte == b'\r') else {
                self.keep(input)?;
                input.clear();
                return Ok(None);
            };
            self.after_return = input[end] == b'\r';
            let event = if self.line.is_empty() {
                self.take_line(&input[..end])?
            } else {
                self.keep(&input[..end])?;
                let mut line = std::mem::take(&mut self.line);
                let event = self.take_line(&line)?;
                line.clear();
                line.shrink_to(KEPT);
                self.line = line;
                event
            };
            input.advance(end + 1);
            if event.is_some() {
                return Ok(event);
            }
        }
        Ok(None)
    }

    fn keep(&mut self, part: &[u8]) -> Result<(), TooLarge> {
        if self.line.len() + part.len() > MAX_LINE {
            return Err(TooLarge);
        }
        self.line.extend_from_slice(part);
        Ok(())
    }

    fn take_line(&mut self, line: &[u8]) -> Result<Option<Event>, TooLarge> {
        let line = match line.strip_prefix(b"\xEF\xBB\xBF") {
            Some(rest) if !self.past_first_line => rest,
            _ => line,
        };
        self.past_first_line = true;
        if line.is_empty() {
            return Ok(self.dispatch());
        }
        let (name, value) = match line.iter().position(|&byte| byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => self.add(value)?,
            b"id" if !value.contains(&0) => self.id = Some(String::from_utf8_lossy(value).into_owned()),
            _ => {}
        }
        Ok(None)
    }

    fn add(&mut self, value: &[u8]) -> Result<(), TooLarge> {
        let before = self.data.as_ref().map_or(0, |data| data.len() + 1);
        if before + value.len() > MAX_EVENT {
            return Err(TooLarge);
        }
        match &mut self.data {
            None => self.data = Some(value.to_vec()),
            Some(data) => {
                data.push(b'\n');
                data.extend_from_slice(value);
            }
        }
        Ok(())
    }

    /// An id belongs only to its own event: an inherited id would make the next event look like a repetition.
    fn dispatch(&mut self) -> Option<Event> {
        let id = self.id.take();
        let data = self.data.take().filter(|data| !data.is_empty())?;
        let data =
            String::from_utf8(data).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        Some(Event { id, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(pieces: impl IntoIterator<Item = Bytes>) -> Result<Vec<Event>, TooLarge> {
        let mut decoder = Decoder::default();
        let mut events = Vec::new();
        for mut piece in pieces {
            while let Some(event) = decoder.next(&mut piece)? {
                events.push(event);
            }
        }
        Ok(events)
    }

    #[test]
    fn a_stream_cut_anywhere_is_the_same_stream() {
        let text = "\u{feff}: hi\r\nid: m:0\rdata: é\ndata:\u{1f600}\n\r\nretry: 1\n\ndata\n\nid\ndata: [DONE]\r\n\r\n";
        let whole = events([Bytes::from(text)]).unwrap();
        let event = |id: &str, data: &str| Event { id: Some(id.into()), data: data.into() };
        assert_eq!(whole, [event("m:0", "é\n\u{1f600}"), event("", "[DONE]")]);
        for first in 0..text.len() {
            for second in first..text.len() {
                let bytes = Bytes::from(text);
                let pieces = [bytes.slice(..first), bytes.slice(first..second), bytes.slice(second..)];
                assert_eq!(events(pieces).unwrap(), whole, "cut at {first} and {second}");
            }
        }
    }

    #[test]
    fn eight_mebibytes_are_an_event_and_one_byte_more_is_not() {
        for (size, fits) in [(MAX_EVENT, true), (MAX_EVENT + 1, false)] {
            let bytes = Bytes::from(format!("data: {}\n\n", "x".repeat(size)));
            let pieces = (0..bytes.len()).step_by(16 << 10).map(|at| bytes.slice(at..bytes.len().min(at + (16 << 10))));
            assert_eq!(events(pieces).map(|events| events[0].data.len()).ok(), fits.then_some(size));
        }
    }

    #[test]
    fn a_line_without_an_end_is_refused() {
        let comment = Bytes::from(vec![b':'; 1 << 20]);
        assert_eq!(events(std::iter::repeat_n(comment, 9)), Err(TooLarge));
    }
}

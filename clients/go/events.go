// Reads server-sent events as they come. One pass over the bytes, however they are cut; nothing is read ahead beyond
// a buffer; an event and a line are at most 8 MiB. Knows nothing of what is in the events.

package tollgate

import (
	"bytes"
	"errors"
	"io"
)

const (
	longestEvent = 8 << 20
	longestLine  = longestEvent + 1024 // the field's name is not the event's
	firstBuffer  = 16 << 10
)

var errLongEvent = errors.New("an event is longer than 8 MiB")

// event is the data of one event, for the caller to keep, and its id, valid until the next.
type event struct {
	id   []byte
	data []byte
}

// events reads from one connection.
//
//	buffer:  [ done │ start … line, looked at up to seen … │ seen … not looked at │ end … free ]
type events struct {
	from             io.Reader
	buffer           []byte
	start, seen, end int
	isBegun          bool // the first line is past, and a byte order mark with it
	skipLF           bool // the last line ended in CR: a LF after it belongs to that end

	id   []byte
	data []byte // nil: there was no such field
}

func newEvents(from io.Reader) *events {
	return &events{from: from, buffer: make([]byte, firstBuffer)}
}

// next gives the next event with data. The error is io.EOF where the input ends, errLongEvent, or the input's own.
func (e *events) next() (event, error) {
	e.id, e.data = e.id[:0], nil
	for {
		line, err := e.line()
		if err != nil {
			return event{}, err
		}
		if len(line) > 0 {
			if err := e.take(line); err != nil {
				return event{}, err
			}
			continue
		}
		if len(e.data) > 0 {
			return event{e.id, e.data}, nil
		}
		e.id, e.data = e.id[:0], nil
	}
}

// take adds a line to the event.
func (e *events) take(line []byte) error {
	name, value, _ := bytes.Cut(line, []byte{':'})
	value = bytes.TrimPrefix(value, []byte{' '})
	switch string(name) {
	case "data":
		if len(e.data)+len(value) > longestEvent {
			return errLongEvent
		}
		if e.data == nil {
			e.data = make([]byte, 0, len(value))
		} else {
			e.data = append(e.data, '\n')
		}
		e.data = append(e.data, value...)
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			e.id = append(e.id[:0], value...)
		}
	}
	return nil
}

// line gives the next line without its end, valid until the next call.
func (e *events) line() ([]byte, error) {
	for {
		if e.skipLF && e.seen < e.end {
			if e.buffer[e.seen] == '\n' {
				e.start++
				e.seen++
			}
			e.skipLF = false
		}
		if at := endOfLine(e.buffer[e.seen:e.end]); at >= 0 {
			line := e.buffer[e.start : e.seen+at]
			e.skipLF = e.buffer[e.seen+at] == '\r'
			e.start = e.seen + at + 1
			e.seen = e.start
			if !e.isBegun {
				e.isBegun = true
				line = bytes.TrimPrefix(line, []byte("\uFEFF"))
			}
			return line, nil
		}
		e.seen = e.end
		if e.end-e.start > longestLine {
			return nil, errLongEvent
		}
		if err := e.fill(); err != nil {
			return nil, err
		}
	}
}

func (e *events) fill() error {
	if e.start == e.end {
		e.start, e.seen, e.end = 0, 0, 0
		if len(e.buffer) > 64*firstBuffer {
			e.buffer = make([]byte, firstBuffer) // one long event must not keep its memory
		}
	}
	if e.end == len(e.buffer) {
		buffer := e.buffer
		if e.end-e.start > len(buffer)/2 {
			buffer = make([]byte, 2*len(buffer))
		}
		e.end = copy(buffer, e.buffer[e.start:e.end])
		e.seen -= e.start
		e.start = 0
		e.buffer = buffer
	}
	n, err := e.from.Read(e.buffer[e.end:])
	e.end += n
	if n > 0 {
		return nil // an error comes again with the next read
	}
	return err
}

// endOfLine finds the first LF or CR; -1: none.
func endOfLine(text []byte) int {
	for at, letter := range text {
		if letter == '\n' || letter == '\r' {
			return at
		}
	}
	return -1
}

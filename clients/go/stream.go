// What all streams do: pull one event after the other, end at the terminal, close when the loop is left. Each kind of stream
// decides what happens when the connection ends too early: see chat.go and resume.go.

package tollgate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"mime"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

const longestText = 8 << 20

var errClosed = errors.New("the stream was closed")

// stream is read by one goroutine at a time; closing, cancelling and asking for what has come so far are for any.
type stream struct {
	core   *core
	ctx    context.Context // of all requests of the stream
	close  context.CancelCauseFunc
	answer *answer
	events *events
	// broken gets the reason why the connection ended, if there is one. It returns no error when it has opened another;
	// io.EOF: the answer is complete.
	broken  func(cause error) error
	isLoose bool  // an event without an id came: there is no place to resume from
	end     error // io.EOF: it ended properly; else the error that ended it; nil: not yet

	// cancels of this reader that may have stopped it.
	cancels atomic.Int32

	mu         sync.Mutex
	text       strings.Builder
	isFull     bool // the text is full
	lastID     []byte
	lastNumber int64 // -1: none
	requestID  string
}

func (s *stream) init(ctx context.Context, core *core) {
	s.core, s.lastNumber = core, -1
	s.ctx, s.close = context.WithCancelCause(ctx)
}

// use continues with an answer, if it is a stream.
func (s *stream) use(a *answer) error {
	kind := a.head.Get("Content-Type")
	if name, _, _ := mime.ParseMediaType(kind); a.status != http.StatusOK || name != eventStream {
		return &Error{Message: fmt.Sprintf("the answer (HTTP %d, %q) is no stream", a.status, s.core.redact(kind))}
	}
	s.answer = a
	s.events = newEvents(a.body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requestID = s.core.redact(a.head.Get("X-Request-Id"))
	return nil
}

// All gives the chunks as they arrive; use it with range. After an error there is no further chunk. Leaving the loop
// closes the stream. No chunk is given twice: a second range continues where the first one ended.
//
// The error is an [*APIError] when the server ended the answer with one, an [*IncompleteStreamError] when its end never
// came, an [*Error] when what came is no stream of chunks, or the context's. A stream that is closed ends without one.
func (s *stream) All() iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		for {
			chunk, err := s.next()
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(Chunk{}, err)
				return
			}
			if !yield(chunk, nil) {
				_ = s.Close()
				return
			}
		}
	}
}

// Close ends reading and closes the connection; whether the answer is still generated depends on the kind of stream. It can
// be called more than once, by any goroutine, and always returns nil.
func (s *stream) Close() error {
	s.close(errClosed)
	return nil
}

// PartialText is the text of choice 0 that has come so far, up to 8 MiB of it.
func (s *stream) PartialText() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// RequestID finds the request in the gateway's log; of a resumed stream, the last request.
func (s *stream) RequestID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requestID
}

// next gives the next chunk; io.EOF: there are no more, and the stream is complete or closed.
func (s *stream) next() (Chunk, error) {
	for s.end == nil {
		if s.ctx.Err() != nil { // although the buffer has more
			s.finish(ended(s.ctx))
			break
		}
		chunk, isChunk, err := s.step()
		if err != nil {
			s.finish(err)
			break
		}
		if isChunk {
			return chunk, nil
		}
	}
	return Chunk{}, s.end
}

func (s *stream) finish(err error) {
	if context.Cause(s.ctx) == errClosed {
		err = io.EOF
	}
	s.end = err
	if s.answer != nil && err == io.EOF {
		s.answer.body.settle()
	}
	s.close(errClosed) // ends the connection, if nothing has yet
}

func (s *stream) step() (Chunk, bool, error) {
	if s.answer == nil {
		return Chunk{}, false, s.broken(nil)
	}
	e, err := s.events.next()
	switch {
	case err == errLongEvent:
		return Chunk{}, false, &Error{Message: err.Error(), PartialText: s.PartialText(), Err: err}
	case err != nil && s.ctx.Err() != nil:
		return Chunk{}, false, ended(s.ctx)
	case err != nil:
		_ = s.answer.body.Close()
		s.answer = nil
		if err == io.EOF {
			err = nil // it only says that the stream ended
		}
		return Chunk{}, false, s.broken(err)
	case len(e.id) == 0:
		s.isLoose = true
	case !s.advance(e.id):
		return Chunk{}, false, nil
	}
	if string(bytes.TrimSpace(e.data)) == "[DONE]" {
		return Chunk{}, false, io.EOF
	}
	return s.read(e.data)
}

// advance notes an event's id; false: the event came before a resume, and is not given again.
func (s *stream) advance(id []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if number, ok := numberOf(id); ok {
		if number <= s.lastNumber {
			return false
		}
		s.lastNumber = number
	}
	s.lastID = append(s.lastID[:0], id...)
	return true
}

// numberOf reads the 17 of msg_…:17.
func numberOf(id []byte) (number int64, ok bool) {
	digits := id[bytes.LastIndexByte(id, ':')+1:]
	for _, digit := range digits {
		if digit < '0' || digit > '9' || number > math.MaxInt64/10-1 {
			return 0, false
		}
		number = 10*number + int64(digit-'0')
	}
	return number, len(digits) > 0
}

// read turns an event's data into a chunk, or into the error that it describes.
func (s *stream) read(data []byte) (Chunk, bool, error) {
	var frame struct {
		Chunk
		Error json.RawMessage `json:"error"`
	}
	if err := decode(data, &frame); err != nil {
		return Chunk{}, false, &Error{Message: "a chunk is no JSON object", PartialText: s.PartialText(), Err: err}
	}
	if isError(frame.Error, data) {
		return Chunk{}, false, s.failure(data)
	}
	s.add(frame.Chunk.Text())
	return frame.Chunk, true, nil
}

// isError reports whether data has a field error that is not null. Package json also takes the field Error for it.
func isError(found, data json.RawMessage) bool {
	if len(found) == 0 || string(found) == "null" {
		return false
	}
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(data, &fields)
	exact, ok := fields["error"]
	return ok && string(exact) != "null"
}

func (s *stream) failure(data []byte) error {
	e := &APIError{PartialText: s.PartialText()}
	s.core.describe(e, data)
	if e.RequestID == "" {
		e.RequestID = s.RequestID()
	}
	if e.family = familyOfType[e.Type]; e.family == nil {
		e.family = ErrAPI
	}
	if e.Code == "message_cancelled" && s.cancels.Load() > 0 {
		return io.EOF
	}
	return e
}

func (s *stream) add(text string) {
	if text == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isFull {
		return
	}
	if free := longestText - s.text.Len(); len(text) > free {
		for free > 0 && !utf8.RuneStart(text[free]) {
			free--
		}
		text, s.isFull = text[:free], true
	}
	s.text.WriteString(text)
}

// incomplete is the error of a stream that broke off.
func (s *stream) incomplete(message string, cause error) error {
	return &IncompleteStreamError{Message: message, PartialText: s.PartialText(), Err: cause}
}

// partial adds the text that came to an error that is met while a stream is resumed.
func (s *stream) partial(err error) error {
	var incomplete *IncompleteStreamError
	var refusal *APIError
	var other *Error
	switch {
	case errors.As(err, &incomplete): // checked before the error that it wraps
		incomplete.PartialText = s.PartialText()
	case errors.As(err, &refusal):
		refusal.PartialText = s.PartialText()
	case errors.As(err, &other):
		other.PartialText = s.PartialText()
	}
	return err
}

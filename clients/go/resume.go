// A message's stream: resumes by itself when its connection ends too early; no chunk is lost or given twice.

package tollgate

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
)

// MessageStream is an answer of a session, as it is generated. Leaving it does not stop the generation: see
// Cancel. It has to be read to its end or closed.
type MessageStream struct {
	stream
	messages      *MessagesService
	sessionID     string
	userMessageID string
	messageID     string // guarded by stream.mu
	isOver        bool   // the server says that nothing more comes
	tries         int
	seen          int64 // number of the last chunk at the last break
	options       []CallOption
}

func (s *MessagesService) newStream(ctx context.Context, sessionID string, options []CallOption) *MessageStream {
	stream := &MessageStream{messages: s, sessionID: sessionID, options: options}
	stream.init(ctx, s.core)
	stream.broken = stream.resume
	return stream
}

// open makes the first request; false: there is nothing to read (204).
func (s *MessageStream) open(r *request) (bool, error) {
	a, err := s.core.call(s.ctx, r)
	if err == nil && a.status == http.StatusNoContent && r.method == http.MethodGet {
		a.body.settle()
		s.isOver = true
		return false, nil
	}
	if err == nil {
		err = s.use(a)
	}
	if err != nil {
		_ = s.Close()
		return false, err
	}
	s.userMessageID = a.head.Get("X-User-Message-Id")
	if id := a.head.Get("X-Message-Id"); id != "" {
		s.messageID = id
	}
	return true, nil
}

// MessageID is the answer's id, with which anyone with the key can read, resume or cancel it; empty until it is known.
func (s *MessageStream) MessageID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.messageID == "" {
		s.messageID = string(s.lastID[:max(bytes.LastIndexByte(s.lastID, ':'), 0)])
	}
	return s.messageID
}

// UserMessageID is the id of the message that is answered; empty where the server did not say.
func (s *MessageStream) UserMessageID() string { return s.userMessageID }

// LastEventID is where the stream is: give it to [MessagesService.Resume] to go on elsewhere. Empty at the start.
func (s *MessageStream) LastEventID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.lastID)
}

// Cancel stops the generation and gives the message as it ended. The loop over the stream then ends without an error,
// after what had been generated until then. Any goroutine may call it.
func (s *MessageStream) Cancel(ctx context.Context, options ...CallOption) (*Message, error) {
	id := s.MessageID()
	if id == "" {
		return nil, &Error{Message: "the stream has not named its message yet"}
	}
	s.cancels.Add(1)
	message, err := s.messages.Cancel(ctx, s.sessionID, id, options...)
	var refusal *APIError
	// A cancel that failed, or whose answer was lost, may have stopped it all the same.
	if errors.As(err, &refusal) && refusal.Status < http.StatusInternalServerError {
		s.cancels.Add(-1)
	}
	return message, err
}

// FinalMessage reads what is left of the stream and then the message: its status, usage and cost. Where reading fails, it
// gives that error; a message whose loop has ended already, however it did, is read as it is now.
func (s *MessageStream) FinalMessage(ctx context.Context, options ...CallOption) (*Message, error) {
	for s.end == nil {
		if _, err := s.next(); err != nil && err != io.EOF {
			return nil, err
		}
	}
	return s.messages.Retrieve(ctx, s.sessionID, s.MessageID(), options...)
}

// resume opens the stream again after the last event.
func (s *MessageStream) resume(cause error) error {
	if s.isOver {
		return s.settled()
	}
	if s.MessageID() == "" || s.isLoose {
		return s.incomplete("the stream ended before its end, and can't be resumed: its events have no ids", cause)
	}
	if s.lastNumber != s.seen {
		s.seen, s.tries = s.lastNumber, 0
	}
	a, err := s.core.resume(s.ctx, s.resumption(s.MessageID()), &s.tries, cause)
	switch {
	case err != nil:
		return s.partial(err)
	case a.status == http.StatusNoContent: // nothing more comes
		a.body.settle()
		return s.settled()
	}
	return s.partial(s.use(a))
}

func (s *MessageStream) resumption(messageID string) *request {
	r := newRequest(s.options, http.MethodGet, "/api/chat/sessions/{}/messages/{}/stream", s.sessionID, messageID)
	r.accept, r.header = eventStream, http.Header{}
	if id := s.LastEventID(); id != "" {
		r.header.Set("Last-Event-ID", id)
	}
	return r
}

// settled reads the message of a stream that has nothing more: only a completed message is a success.
func (s *MessageStream) settled() error {
	message, err := s.messages.Retrieve(s.ctx, s.sessionID, s.MessageID(), s.options...)
	var lost *ConnectionError
	if errors.As(err, &lost) {
		return s.incomplete("how the message ended could not be read", err)
	}
	if err != nil {
		return s.partial(err)
	}
	if message.Status == StatusCompleted || message.Status == StatusCancelled && s.cancels.Load() > 0 {
		return io.EOF
	}
	return s.incomplete("the message ended as "+s.core.redact(message.Status)+", and the stream has nothing more", nil)
}

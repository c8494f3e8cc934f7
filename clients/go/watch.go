// One attempt's clock: ends a request when connecting takes too long, or when no byte comes or goes for too long. It
// starts no goroutine; time in which the caller does not read does not count.

package tollgate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptrace"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

var errSlow = errors.New("too slow")

type watch struct {
	parent  context.Context
	ctx     context.Context
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	connect time.Duration
	idle    time.Duration
	head    time.Duration

	isAsking atomic.Bool // the transport was asked for a connection
	isMade   atomic.Bool // and gave one

	mu     sync.Mutex
	isHere bool  // the answer's head has come; from then on only reads set the timer
	source error // of the request's body
}

// newWatch starts the clock for a request whose answer's head may take this long.
func newWatch(parent context.Context, s *settings, head time.Duration) *watch {
	w := &watch{parent: parent, connect: s.connect, idle: s.idle, head: head}
	w.ctx, w.cancel = context.WithCancelCause(parent)
	w.timer = time.AfterFunc(time.Hour, func() { w.cancel(errSlow) })
	w.allow(head)
	w.ctx = httptrace.WithClientTrace(w.ctx, &httptrace.ClientTrace{
		GetConn: func(string) {
			w.isAsking.Store(true)
			w.allow(w.connect)
		},
		GotConn: func(httptrace.GotConnInfo) {
			w.isMade.Store(true)
			w.allow(w.head)
		},
	})
	return w
}

// allow sets the time limit from now on; 0 or less means no limit.
func (w *watch) allow(limit time.Duration) {
	if limit > 0 {
		w.timer.Reset(limit)
	} else {
		w.timer.Stop()
	}
}

func (w *watch) arrived() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isHere = true
	w.timer.Stop()
}

// allowSending is allow for calls that may come too late: the transport reads a request's body even when the answer is
// already here, and between reads of an answer no timer may run.
func (w *watch) allowSending(limit time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.isHere {
		w.allow(limit)
	}
}

func (w *watch) end() {
	w.timer.Stop()
	w.cancel(context.Canceled)
}

// failure says what ended the attempt: the caller, the clock, or the connection.
func (w *watch) failure(err error) error {
	if w.parent.Err() != nil {
		return ended(w.parent)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.source != nil {
		return &Error{Message: "the file can't be read: " + w.source.Error(), Err: w.source}
	}
	failure := &ConnectionError{
		headless: !w.isHere,
		unmade:   w.isAsking.Load() && !w.isMade.Load(),
	}
	var of *url.Error
	if errors.As(err, &of) {
		err = of.Err
	}
	var limit net.Error
	switch {
	case context.Cause(w.ctx) == errSlow && failure.unmade:
		failure.timeout = true
		failure.Message = fmt.Sprintf("no connection was made in %v", w.connect)
	case context.Cause(w.ctx) == errSlow:
		failure.timeout = true
		failure.Message = "nothing came for too long"
	case errors.As(err, &limit) && limit.Timeout():
		failure.timeout, failure.Err = true, err
		failure.Message = "the connection timed out: " + err.Error()
	default:
		failure.Err = err
		failure.Message = "the connection failed: " + err.Error()
	}
	return failure
}

// ended is the error of a context that is done, with the reason.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return fmt.Errorf("tollgate: %w", cause)
	}
	return fmt.Errorf("tollgate: %w: %w", err, cause)
}

// sending is a request's body with the clock. The transport reads it, sometimes after the call has ended.
type sending struct {
	io.ReadCloser
	watch *watch
}

func (s *sending) Read(into []byte) (int, error) {
	n, err := s.ReadCloser.Read(into)
	switch err {
	case nil:
		s.watch.allowSending(s.watch.idle)
	case io.EOF, errLeft:
		s.watch.allowSending(s.watch.head)
	default:
		s.watch.mu.Lock()
		defer s.watch.mu.Unlock()
		s.watch.source = err
	}
	return n, err
}

// receiving is an answer's body with the clock; it returns errors for the caller.
type receiving struct {
	body  io.ReadCloser
	watch *watch
}

func (r *receiving) Read(into []byte) (int, error) {
	r.watch.allow(r.watch.idle)
	n, err := r.body.Read(into)
	r.watch.timer.Stop()
	if err != nil && err != io.EOF {
		err = r.watch.failure(err)
	}
	return n, err
}

// settle closes an answer that is complete except for its last bytes: it waits a moment for them, so that the connection
// can be used again.
func (r *receiving) settle() {
	r.watch.allow(50 * time.Millisecond)
	_, _ = io.CopyN(io.Discard, r.body, 4096)
	_ = r.Close()
}

// Close ends the attempt.
func (r *receiving) Close() error {
	r.watch.end()
	return r.body.Close()
}

// The life of a call: attempts until one is answered, each with the same idempotency key. An answer that is an error
// becomes an error here; no other file looks at statuses.

package tollgate

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"time"
)

const (
	longestAnswer  = 64 << 20
	longestRefusal = 1 << 20
	longestTelling = 10 * time.Second // the time limit for reading a refusal, even if it comes byte by byte
	longestMessage = 8 << 10
	mostHops       = 5

	eventStream = "text/event-stream"
)

// answer is one whose status is a success.
type answer struct {
	head   http.Header
	status int
	url    *url.URL
	length int64 // -1 if unknown
	body   *receiving
}

// call makes attempts until one succeeds.
func (c *core) call(ctx context.Context, r *request) (*answer, error) {
	s := c.settings.with(r.options)
	if r.isOnce && s.idempotencyKey == "" {
		s.idempotencyKey = newKey()
	}
	if !isVisible(s.idempotencyKey) {
		return nil, &Error{Message: "an idempotency key is of visible ASCII characters"}
	}
	for n := 0; ; n++ {
		a, err := c.attempt(ctx, r, s)
		if err == nil || n >= s.maxRetries || !mayRepeat(err, r.isPaid) || r.body != nil && r.body.once() {
			return a, err
		}
		if err := pause(ctx, err, n); err != nil {
			return nil, err
		}
	}
}

// attempt sends the request once and, if the request allows redirects, follows them.
func (c *core) attempt(ctx context.Context, r *request, s *settings) (*answer, error) {
	if r.err != nil {
		return nil, r.err
	}
	target, err := url.Parse(c.base.String() + r.path)
	if err != nil {
		return nil, &Error{Message: "the base URL can't be used", Err: err}
	}
	target.RawQuery = r.query.Encode()
	for hop := 0; ; hop++ {
		a, err := c.exchange(ctx, r, s, target)
		if err == nil || a == nil || !r.follows || hop == mostHops {
			return a, err
		}
		if target = a.location(); target == nil {
			return a, err
		}
	}
}

// location is the target of a redirect; nil if the answer is none.
func (a *answer) location() *url.URL {
	switch a.status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return nil
	}
	place := a.head.Get("Location")
	target, err := a.url.Parse(place)
	if place == "" || err != nil || target.Scheme != "https" && target.Scheme != "http" {
		return nil
	}
	return target
}

// exchange sends the request to a URL of this origin or, without key and extra headers, of another one.
func (c *core) exchange(ctx context.Context, r *request, s *settings, target *url.URL) (*answer, error) {
	limit := s.idle
	if r.generates && r.accept != eventStream {
		limit = s.answer
	}
	w := newWatch(ctx, s, limit)
	req, err := c.build(w, r, target)
	if err != nil {
		w.end()
		return nil, err
	}
	if target.Scheme == c.base.Scheme && target.Host == c.base.Host {
		c.sign(req.Header, s, r.isOnce)
	}
	if err := checkHeader(req.Header); err != nil {
		w.end()
		return nil, err
	}
	res, err := c.http.Do(req)
	if err != nil {
		defer w.end()
		return nil, w.failure(err)
	}
	w.arrived()
	a := &answer{head: res.Header, status: res.StatusCode, url: target, length: res.ContentLength}
	a.body = &receiving{body: res.Body, watch: w}
	if a.status < 200 || a.status > 299 {
		return a, c.refusal(r, a)
	}
	return a, nil
}

func (c *core) build(w *watch, r *request, target *url.URL) (*http.Request, error) {
	req, err := http.NewRequestWithContext(w.ctx, r.method, target.String(), nil)
	if err != nil {
		return nil, &Error{Message: "the request can't be made: " + err.Error(), Err: err}
	}
	maps.Copy(req.Header, r.header)
	if r.accept == "" {
		req.Header.Set("Accept", "application/json")
	} else {
		req.Header.Set("Accept", r.accept)
		req.Header.Set("Accept-Encoding", "identity") // a compressed answer is delayed, and has another length
	}
	req.Header.Set("User-Agent", "tollgate-gateway-go/"+Version)
	if r.body == nil {
		return req, nil
	}
	open := func() (io.ReadCloser, error) {
		body, err := r.body.open(w.ctx)
		if err != nil {
			return nil, &Error{Message: "the body can't be read: " + err.Error(), Err: err}
		}
		return &sending{body, w}, nil
	}
	req.Header.Set("Content-Type", r.contentType)
	if req.Body, err = open(); err != nil {
		return nil, err
	}
	req.ContentLength = r.body.size()
	if !r.body.once() {
		req.GetBody = open
	}
	return req, nil
}

// sign adds the headers that only the gateway may get.
func (c *core) sign(head http.Header, s *settings, isOnce bool) {
	head.Set("Authorization", c.bearer())
	key := s.idempotencyKey
	for name, values := range s.header {
		switch {
		case name == "Idempotency-Key":
			key = values[0]
		case values[0] != "":
			head[name] = values
		case name == "User-Agent":
			head[name] = []string{""} // otherwise net/http sends its own
		default:
			head.Del(name)
		}
	}
	if isOnce && key != "" {
		// Not by Set: under its canonical name, net/http would itself send a POST again when an old connection ends, and that
		// charges a chat again. In this form net/http repeats only when it can tell that nothing arrived.
		head["idempotency-key"] = []string{key}
	}
}

// refusal reads an answer that is an error, as much of it as comes.
func (c *core) refusal(r *request, a *answer) error {
	defer a.body.Close()
	w := a.body.watch
	limit := longestTelling
	if w.idle > 0 {
		limit = min(w.idle, limit)
	}
	defer time.AfterFunc(limit, w.end).Stop()
	data, _ := io.ReadAll(io.LimitReader(a.body, longestRefusal))
	if w.parent.Err() != nil {
		return ended(w.parent)
	}
	e := &APIError{Status: a.status, family: familyOfStatus(a.status)}
	c.describe(e, data)
	e.passing = e.isPassing(a.head.Get("X-Should-Retry"), r.generates)
	status := fmt.Sprintf("HTTP %d", a.status)
	if name := http.StatusText(a.status); name != "" {
		status += " " + name
	}
	if e.Message == "" {
		e.Message = status
	} else if e.Message[0] == '{' || e.Message[0] == '[' {
		e.Message = status + ": " + e.Message
	}
	if id := a.head.Get("X-Request-Id"); id != "" {
		e.RequestID = c.redact(id)
	}
	e.RetryAfter, e.HasRetry = retryAfter(a.head)
	return e
}

// describe takes the fields of an error's JSON, whatever its shape is.
func (c *core) describe(e *APIError, data []byte) {
	var body struct {
		Error     json.RawMessage `json:"error"`
		RequestID json.RawMessage `json:"request_id"`
	}
	if json.Unmarshal(data, &body) != nil {
		return
	}
	var parts struct {
		Message json.RawMessage `json:"message"`
		Type    json.RawMessage `json:"type"`
		Code    json.RawMessage `json:"code"`
		Param   json.RawMessage `json:"param"`
	}
	if json.Unmarshal(body.Error, &parts) != nil || textOf(parts.Message) == "" {
		parts.Message = body.Error
	}
	shown := func(raw json.RawMessage) string {
		text := c.redact(textOf(raw))
		return text[:min(len(text), longestMessage)]
	}
	e.Message, e.Type, e.Code = shown(parts.Message), shown(parts.Type), shown(parts.Code)
	e.Param, e.RequestID = shown(parts.Param), shown(body.RequestID)
}

// fetch makes a call whose answer is a JSON object, a T.
func fetch[T any](ctx context.Context, core *core, r *request) (*T, error) {
	a, err := core.call(ctx, r)
	if err != nil {
		return nil, err
	}
	defer a.body.Close()
	data, err := io.ReadAll(io.LimitReader(a.body, longestAnswer+1))
	if err != nil {
		return nil, err
	}
	if len(data) > longestAnswer {
		return nil, &Error{Message: "the answer is longer than 64 MiB"}
	}
	value := new(T)
	if err := decode(data, value); err != nil {
		return nil, &Error{Message: fmt.Sprintf("the answer (HTTP %d) is not the API's: %v", a.status, err), Err: err}
	}
	return value, nil
}

// run makes a call whose answer has no content.
func (c *core) run(ctx context.Context, r *request) error {
	a, err := c.call(ctx, r)
	if err == nil {
		a.body.settle()
	}
	return err
}

func newKey() string {
	var bytes [16]byte
	_, _ = rand.Read(bytes[:])
	return fmt.Sprintf("%x", bytes)
}

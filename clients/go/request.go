// The request of a call: made here, sent by call.go.

package tollgate

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// request is one logical call.
type request struct {
	method      string
	path        string // under the base URL, escaped
	query       url.Values
	body        source // nil: none
	contentType string
	header      http.Header
	accept      string // "": JSON
	isOnce      bool   // carries an idempotency key
	isPaid      bool   // each arrival is charged: /v1/chat
	generates   bool   // the backend generates its answer: without a stream it takes long, and after a 504 it is not requested again
	follows     bool   // follows redirects, also to other origins
	options     []CallOption
	err         error // why it can't be sent
}

// newRequest puts the ids into the path, each in the place of a {}: each is one segment, whatever it contains.
func newRequest(options []CallOption, method, path string, ids ...string) *request {
	r := &request{method: method, path: path, options: options}
	for _, id := range ids {
		// Proxies remove segments of dots, escaped or not.
		if id == "" || id == "." || id == ".." {
			r.err = &Error{Message: fmt.Sprintf("%q is no id", id)}
		}
		r.path = strings.Replace(r.path, "{}", url.PathEscape(id), 1)
	}
	return r
}

// withJSON gives the request a body: params, and extra fields, which have priority.
func (r *request) withJSON(params any, extra map[string]any) *request {
	body, err := encode(params, extra)
	if err != nil {
		r.err = err
	}
	r.body, r.contentType = jsonSource(body), "application/json"
	r.isOnce = r.method == http.MethodPost
	return r
}

// source is a request's body, from its start each time it is opened.
type source interface {
	open(ctx context.Context) (io.ReadCloser, error) // for an attempt, until ctx ends
	size() int64                                     // -1: not known
	once() bool                                      // can't be opened again
}

type jsonSource []byte

func (s jsonSource) size() int64 { return int64(len(s)) }
func (s jsonSource) once() bool  { return false }

func (s jsonSource) open(context.Context) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(s)), nil
}

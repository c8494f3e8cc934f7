// A file as it comes: goes on by itself when its connection breaks, if it is certain that it is still the same file.

package tollgate

import (
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
)

// ContentParams choose what of a file is downloaded. All fields may be left out.
type ContentParams struct {
	Start int64  // the first byte wanted: how many there are from an earlier download
	ETag  string // of that download: with Start, the file must still be the same
	// OnProgress is told where the download is, in bytes from the file's beginning, and how many the file has (-1: not
	// known). Read calls it.
	OnProgress func(at, total int64)
}

// Download is a file's content, to be read and closed. Read gives an [*IncompleteStreamError] where the connection broke
// and it can't be told that the file is still the same.
type Download struct {
	ContentType string // what the bytes are
	Filename    string // without any folder; may be empty
	ETag        string // for ContentParams, to go on later
	Size        int64  // of the whole file; -1: not known
	RequestID   string

	core    *core
	ctx     context.Context
	close   context.CancelCauseFunc
	fileID  string
	options []CallOption
	tell    func(at, total int64)
	body    *receiving
	at      int64 // bytes from the file's beginning
	tries   int
	err     error
}

var errDownloadClosed = &Error{Message: "the download is closed"}

// Content downloads a file. The context is for all of it. Where the gateway sends elsewhere, to a signed URL of its store,
// the key is not sent along. Errors: [ErrNotFound], also for a file that has expired; an [*IncompleteStreamError] where
// it is not the file that ETag says.
func (s *FilesService) Content(ctx context.Context, fileID string, params ContentParams, options ...CallOption) (*Download, error) {
	d := &Download{core: s.core, fileID: fileID, options: options, tell: params.OnProgress}
	d.Size = -1
	if params.Start > 0 {
		d.at, d.ETag = params.Start, params.ETag
	}
	d.ctx, d.close = context.WithCancelCause(ctx)
	a, err := s.core.call(d.ctx, d.request())
	if err == nil {
		err = d.begin(a)
	}
	if err != nil {
		d.close(errClosed)
		return nil, err
	}
	return d, nil
}

func (d *Download) request() *request {
	r := newRequest(d.options, http.MethodGet, "/api/files/{}", d.fileID)
	r.accept, r.header, r.follows = "*/*", http.Header{}, true
	if d.at > 0 {
		r.header.Set("Range", fmt.Sprintf("bytes=%d-", d.at))
		if d.ETag != "" {
			r.header.Set("If-Range", d.ETag)
		}
	}
	return r
}

func (d *Download) begin(a *answer) error {
	if err := d.use(a); err != nil {
		return err
	}
	d.ContentType = a.head.Get("Content-Type")
	d.ETag = a.head.Get("ETag")
	d.RequestID = d.core.redact(a.head.Get("X-Request-Id"))
	if _, words, err := mime.ParseMediaType(a.head.Get("Content-Disposition")); err == nil {
		name := words["filename"]
		d.Filename = name[strings.LastIndexAny(name, `/\`)+1:]
	}
	return nil
}

// rangeOf says what of a file an answer has: from which byte on, and the file's size; -1: it does not say.
func rangeOf(a *answer) (from, size int64) {
	if a.status != http.StatusPartialContent {
		return 0, a.length
	}
	var to int64
	switch n, _ := fmt.Sscanf(a.head.Get("Content-Range"), "bytes %d-%d/%d", &from, &to, &size); n {
	case 0:
		return -1, -1
	case 3:
		return from, size
	}
	return from, -1
}

// use reads on from an answer, if it goes on where the file was left.
func (d *Download) use(a *answer) error {
	if packing := a.head.Get("Content-Encoding"); packing != "" && !strings.EqualFold(packing, "identity") {
		_ = a.body.Close()
		return &Error{Message: "the file came packed, which was not asked for"}
	}
	from, size := rangeOf(a)
	tag := a.head.Get("ETag")
	if from != d.at || d.ETag != "" && tag != "" && tag != d.ETag {
		_ = a.body.Close()
		return &IncompleteStreamError{Message: fmt.Sprintf("the download can't go on at byte %d: the file has changed", d.at)}
	}
	d.body = a.body
	if d.Size < 0 {
		d.Size = size
	}
	return nil
}

// Read reads what comes next.
func (d *Download) Read(into []byte) (int, error) {
	for d.err == nil {
		if context.Cause(d.ctx) == errClosed {
			return 0, errDownloadClosed
		}
		n, err := d.body.Read(into)
		if n > 0 {
			d.at += int64(n)
			d.tries = 0
			if d.tell != nil {
				d.tell(d.at, d.Size)
			}
			return n, nil // an error comes again with the next read
		}
		switch {
		case err == nil:
			return 0, nil
		case err == io.EOF && (d.Size < 0 || d.at >= d.Size):
			d.err = io.EOF
			_ = d.body.Close()
		default:
			d.err = d.resume(err)
		}
		if d.err != io.EOF && context.Cause(d.ctx) == errClosed {
			d.err = errDownloadClosed
		}
	}
	return 0, d.err
}

// Close ends the download and closes its connection. It can be called more than once, by any goroutine, and always
// returns nil.
func (d *Download) Close() error {
	d.close(errClosed)
	return nil
}

func (d *Download) resume(cause error) error {
	_ = d.body.Close()
	if d.ctx.Err() != nil {
		return ended(d.ctx)
	}
	if cause == io.EOF {
		cause = io.ErrUnexpectedEOF // else errors.Is takes the error for the end
	}
	if d.ETag == "" || strings.HasPrefix(d.ETag, "W/") {
		return &IncompleteStreamError{Message: "the download broke off; without a strong ETag it can't go on", Err: cause}
	}
	a, err := d.core.resume(d.ctx, d.request(), &d.tries, cause)
	if err != nil {
		return err
	}
	return d.use(a)
}

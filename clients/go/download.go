// A download: continues by itself when its connection breaks, if it is certain that the file is still the same.

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
	Start int64  // the first byte to read: the number of bytes of an earlier download
	ETag  string // the ETag of that download: with Start, the file must still be the same
	// OnProgress gets the position of the download, in bytes from the file's beginning, and the file's size (-1: not
	// known). Read calls it.
	OnProgress func(at, total int64)
}

// Download is a file's content, to be read and closed. Read returns an [*IncompleteStreamError] when the connection broke
// and it is not certain that the file is still the same.
type Download struct {
	ContentType string // the type of the bytes
	Filename    string // without any folder; may be empty
	ETag        string // for ContentParams, to continue later
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

// Content downloads a file. The context covers the whole download. If the gateway redirects to a signed URL of its store,
// the key is not sent there. Errors: [ErrNotFound], also for a file that has expired; an [*IncompleteStreamError] if
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

// rangeOf says which part of a file an answer has: its first byte, and the file's size; -1 if the answer does not say.
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

// use continues with an answer, if the answer begins where the download stopped.
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
		cause = io.ErrUnexpectedEOF // otherwise errors.Is would take the error for the end
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

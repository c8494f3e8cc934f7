// A file in a form, as bytes to send: its length is sent if it is known, and it is read again from its start if that is
// possible. The file is never whole in memory.

package tollgate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
)

var (
	errLeft  = errors.New("the upload is over")
	errShort = errors.New("it ended before its end")
)

type form struct {
	params   UploadParams
	boundary string
	head     []byte // everything before the file
	tail     []byte
	start    int64 // where the file begins; -1: it can't be read twice
	length   int64 // of the file; -1: not known
	told     int64 // progress never falls, whatever is sent again

	mu      sync.Mutex
	current *formReader
}

func newForm(params UploadParams) *form {
	f := &form{params: params, boundary: "tollgate" + newKey(), start: -1, length: -1}
	var head bytes.Buffer
	for _, field := range params.fields() {
		if field[1] != "" {
			fmt.Fprintf(&head, "--%s\r\nContent-Disposition: form-data; name=%q\r\n\r\n%s\r\n", f.boundary, field[0], field[1])
		}
	}
	kind := "application/octet-stream"
	if params.ContentType != "" {
		kind = strings.NewReplacer("\r", "", "\n", "").Replace(params.ContentType)
	}
	// As browsers write it; package mime/multipart would send backslashes, which few servers understand.
	name := strings.NewReplacer(`"`, "%22", "\r", "%0D", "\n", "%0A").Replace(params.Filename)
	fmt.Fprintf(&head, "--%s\r\nContent-Disposition: form-data; name=\"file\"; filename=\"%s\"\r\nContent-Type: %s\r\n\r\n",
		f.boundary, name, kind)
	f.head = head.Bytes()
	f.tail = []byte("\r\n--" + f.boundary + "--\r\n")
	f.measure()
	return f
}

func (f *form) measure() {
	// The Len of other types may count something else.
	if counted, ok := f.params.File.(*bytes.Buffer); ok {
		f.length = int64(counted.Len())
	}
	seeker, ok := f.params.File.(io.Seeker)
	if !ok {
		return
	}
	start, err := seeker.Seek(0, io.SeekCurrent)
	if err != nil {
		return // for example a pipe
	}
	end, err := seeker.Seek(0, io.SeekEnd)
	if err != nil {
		return
	}
	if _, err = seeker.Seek(start, io.SeekStart); err == nil {
		f.start, f.length = start, max(end-start, 0)
	}
}

func (f *form) contentType() string { return "multipart/form-data; boundary=" + f.boundary }

func (f *form) once() bool { return f.start < 0 }

func (f *form) size() int64 {
	if f.length < 0 {
		return -1
	}
	return int64(len(f.head)) + f.length + int64(len(f.tail))
}

func (f *form) open(ctx context.Context) (io.ReadCloser, error) {
	f.leave()
	file := f.params.File
	if !f.once() {
		if _, err := file.(io.Seeker).Seek(f.start, io.SeekStart); err != nil {
			return nil, err
		}
	} else {
		file = &leavable{ctx, file, make([]byte, 32<<10)}
	}
	if f.length >= 0 {
		file = io.LimitReader(file, f.length) // a file that grows meanwhile
	}
	reader := &formReader{}
	reader.from = io.MultiReader(bytes.NewReader(f.head), &counted{form: f, file: file}, bytes.NewReader(f.tail))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.current = reader
	return reader, nil
}

// leave ensures that the file is no longer read and no progress reported: the caller may use it again.
func (f *form) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current != nil {
		_ = f.current.Close()
	}
}

// formReader is read by a goroutine of the transport, sometimes after the call has returned.
type formReader struct {
	from   io.Reader
	mu     sync.Mutex
	isLeft bool
}

func (r *formReader) Read(into []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isLeft {
		return 0, errLeft
	}
	return r.from.Read(into)
}

func (r *formReader) Close() error {
	r.mu.Lock() // until a read that is running has ended
	defer r.mu.Unlock()
	r.isLeft = true
	return nil
}

// leavable is a source whose read may never end, such as a pipe: when ctx ends, that read is left to itself. Otherwise the
// transport would wait for it, longer than any time-out.
type leavable struct {
	ctx    context.Context
	from   io.Reader
	buffer []byte // its own, since the caller may use its buffer again while a read still runs
}

func (l *leavable) Read(into []byte) (int, error) {
	if l.ctx.Err() != nil {
		return 0, errLeft
	}
	into = into[:min(len(into), len(l.buffer))]
	var n int
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		n, err = l.from.Read(l.buffer[:len(into)])
	}()
	select {
	case <-ended:
		return copy(into, l.buffer[:n]), err
	case <-l.ctx.Done():
		return 0, errLeft
	}
}

// counted reports progress.
type counted struct {
	form *form
	file io.Reader
	sent int64
}

func (c *counted) Read(into []byte) (int, error) {
	n, err := c.file.Read(into)
	c.sent += int64(n)
	f := c.form
	if err == io.EOF && c.sent < f.length {
		return n, errShort
	}
	if c.sent > f.told {
		f.told = c.sent
		if f.params.OnProgress != nil {
			f.params.OnProgress(c.sent, f.length)
		}
	}
	return n, err
}

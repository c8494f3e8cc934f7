// Uploads, as far as the conformance cases can't see them: when the file may be used again, and who caused an error.

package tollgate_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	tollgate "tollgate-gateway.example/clients/go"
)

type brokenReader struct{ io.ReadSeeker }

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("the disk is gone") }

func TestASourceThatFailsIsNoConnectionThatFails(t *testing.T) {
	var calls atomic.Int32
	client := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
	})
	_, err := client.Files.Upload(context.Background(), tollgate.UploadParams{
		SessionID: "sess_1", Filename: "a", File: brokenReader{strings.NewReader("hello")},
	})
	var other *tollgate.Error
	if !errors.As(err, &other) || !strings.Contains(err.Error(), "the disk is gone") || calls.Load() > 1 {
		t.Errorf("%d calls, %#v", calls.Load(), err)
	}
}

type reusedReader struct {
	io.ReadSeeker
	isOver atomic.Bool
	late   atomic.Int32
}

func (r *reusedReader) Read(into []byte) (int, error) {
	time.Sleep(time.Millisecond)
	if r.isOver.Load() {
		r.late.Add(1)
	}
	return r.ReadSeeker.Read(into)
}

func TestAFileIsTheCallersAgainAfterItsUpload(t *testing.T) {
	client := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	})
	for range 20 {
		file := &reusedReader{ReadSeeker: bytes.NewReader(make([]byte, 8<<20))}
		told := atomic.Bool{}
		_, err := client.Files.Upload(context.Background(), tollgate.UploadParams{
			SessionID: "sess_1", Filename: "a", File: file,
			OnProgress: func(_, _ int64) { told.Store(file.isOver.Load()) },
		})
		file.isOver.Store(true)
		if err == nil {
			t.Fatal("no error")
		}
		time.Sleep(5 * time.Millisecond)
		if file.late.Load() > 0 || told.Load() {
			t.Fatal("the file was read after the call")
		}
	}
}

// shrunk is longer when it is measured than when it is read.
type shrunk struct{ *strings.Reader }

func (s shrunk) Seek(offset int64, whence int) (int64, error) {
	at, err := s.Reader.Seek(offset, whence)
	if whence == io.SeekEnd {
		at += 1000
	}
	return at, err
}

// buffered has so many bytes ready, and more to come.
type buffered struct{ io.Reader }

func (buffered) Len() int { return 2 }

func TestAFileIsSentWholeOrNotAtAll(t *testing.T) {
	var calls atomic.Int32
	client := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		if data, err := io.ReadAll(r.Body); err == nil && strings.Contains(string(data), "\r\nhello\r\n") {
			_, _ = io.WriteString(w, "{}")
		}
	})
	upload := func(file io.Reader) error {
		_, err := client.Files.Upload(context.Background(), tollgate.UploadParams{
			SessionID: "sess_1", Filename: "a", File: file,
		})
		return err
	}
	for _, file := range []io.Reader{strings.NewReader("hello"), bytes.NewBufferString("hello"), buffered{strings.NewReader("hello")}} {
		if err := upload(file); err != nil {
			t.Errorf("%T: %v", file, err)
		}
	}
	calls.Store(0)
	var other *tollgate.Error
	if err := upload(shrunk{strings.NewReader("hello")}); !errors.As(err, &other) || calls.Load() > 1 {
		t.Errorf("%d calls, %v", calls.Load(), err)
	}
}

func TestAPipeThatSaysNothingHoldsNobody(t *testing.T) {
	client := clientOf(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	var isOver, isLate atomic.Bool
	upload := func(ctx context.Context, limit time.Duration) error {
		isOver.Store(false)
		defer isOver.Store(true)
		from, to := io.Pipe()
		t.Cleanup(func() { _, _ = io.WriteString(to, "hello") })
		_, err := client.Files.Upload(ctx, tollgate.UploadParams{
			SessionID: "sess_1", Filename: "a", File: from,
			OnProgress: func(int64, int64) { isLate.Store(isOver.Load()) },
		}, tollgate.WithIdleTimeout(limit))
		return err
	}
	if err := upload(context.Background(), 50*time.Millisecond); !errors.Is(err, tollgate.ErrTimeout) {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := upload(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if isLate.Load() {
		t.Error("progress was told after the upload")
	}
}

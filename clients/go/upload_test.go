// Uploads, as the conformance cases can't see them: whose file it is, and whose fault.

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

	tollgate "github.com/tollgate/tollgate-go"
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

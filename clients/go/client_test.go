// What the conformance cases can't see: formats, contexts, connections, goroutines.

package tollgate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	tollgate "tollgate-gateway.example/clients/go"
)

const key = "tg_live_secret"

func clientOf(t *testing.T, handler http.HandlerFunc, options ...tollgate.ClientOption) *tollgate.Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	options = append([]tollgate.ClientOption{tollgate.WithAPIKey(key), tollgate.WithBaseURL(server.URL)}, options...)
	client, err := tollgate.NewClient(options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return client
}

func startStream(w http.ResponseWriter, chunks int) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Message-Id", "msg_1")
	for i := range chunks {
		fmt.Fprintf(w, "id: msg_1:%d\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n", i)
	}
	w.(http.Flusher).Flush()
}

func TestACancelledContextEndsWhatHasCome(t *testing.T) {
	client := clientOf(t, func(w http.ResponseWriter, r *http.Request) { startStream(w, 100) })
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream, err := client.Chat.Completions.Stream(ctx, tollgate.ChatParams{Model: "demo"})
	if err != nil {
		t.Fatal(err)
	}
	came := 0
	for _, err = range stream.All() {
		if err != nil {
			break
		}
		if came++; came == 2 {
			cancel()
		}
	}
	if came != 2 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d chunks, then %v", came, err)
	}
}

func TestACancelThatWasNeverSentIsNone(t *testing.T) {
	client := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"error\":{\"type\":\"cancelled_error\",\"code\":\"message_cancelled\"}}\n\n")
	})
	stream, err := client.Messages.Create(context.Background(), "sess_1", tollgate.Text("Hi"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Cancel(context.Background()); !errors.Is(err, tollgate.ErrTollgate) {
		t.Errorf("a stream that has no name was cancelled: %v", err)
	}
	for _, err = range stream.All() {
	}
	var refusal *tollgate.APIError
	if !errors.As(err, &refusal) || refusal.Code != "message_cancelled" {
		t.Errorf("somebody else's cancel: %v", err)
	}
}

func TestNoFormatShowsTheKey(t *testing.T) {
	option := tollgate.WithAPIKey(key)
	client, err := tollgate.NewClient(option, tollgate.WithBaseURL("http://gate.test"), tollgate.WithHeader("X-Secret", key))
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []any{client, *client, option, client.Sessions, *client.Sessions, []any{client, option}} {
		for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			if text := fmt.Sprintf(format, value); strings.Contains(text, key) || strings.Contains(text, fmt.Sprintf("%x", key)) {
				t.Errorf("%s of %T shows the key", format, value)
			}
		}
		if text, _ := json.Marshal(value); bytes.Contains(text, []byte(key)) {
			t.Errorf("the JSON of %T shows the key", value)
		}
	}
}

func TestAStreamThatRepeatsTheKeyIsShownWithoutIt(t *testing.T) {
	client := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			w.Header().Set("X-Request-Id", r.Header.Get("Authorization"))
			startStream(w, 1)
			fmt.Fprint(w, "id: msg_1:1\ndata: {\"error\":{}}\n\n")
		case strings.HasSuffix(r.URL.Path, "/stream"):
			w.WriteHeader(http.StatusNoContent)
		default:
			fmt.Fprintf(w, `{"status":%q}`, r.Header.Get("Authorization"))
		}
	})
	failed, err := client.Messages.Create(context.Background(), "sess_1", tollgate.Text("Hi"))
	if err != nil {
		t.Fatal(err)
	}
	over, err := client.Messages.Resume(context.Background(), "sess_1", "msg_1", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, stream := range []*tollgate.MessageStream{failed, over} {
		for _, err = range stream.All() {
		}
		if err == nil || strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err)+stream.RequestID(), key) {
			t.Errorf("%#v", err)
		}
	}
}

func TestTheContextsOwnErrorComesBack(t *testing.T) {
	client := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			startStream(w, 1)
		}
		<-r.Context().Done()
	})
	late, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := client.Billing.Balance(late); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, tollgate.ErrTollgate) {
		t.Errorf("a call: %v", err)
	}
	why := errors.New("the user left")
	ctx, leave := context.WithCancelCause(context.Background())
	defer leave(nil)
	stream, err := client.Messages.Create(ctx, "sess_1", tollgate.Text("Hi"))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	for _, err = range stream.All() {
		leave(why)
	}
	if !errors.Is(err, context.Canceled) || !errors.Is(err, why) {
		t.Errorf("a stream: %v", err)
	}
}

// net/http itself repeats requests that it takes for idempotent, when a reused connection ends.
func TestAChatIsNotRepeatedOnAnOldConnection(t *testing.T) {
	var chats atomic.Int32
	client := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprint(w, `{"object":"list","data":[]}`)
			return
		}
		chats.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		connection, _, _ := w.(http.Hijacker).Hijack()
		_ = connection.Close()
	})
	if _, err := client.Models.List(context.Background()).First(); err != nil {
		t.Fatal(err)
	}
	_, err := client.Chat.Completions.Create(context.Background(), tollgate.ChatParams{Model: "demo"})
	if !errors.Is(err, tollgate.ErrConnection) || chats.Load() != 1 {
		t.Errorf("%d chats, %v", chats.Load(), err)
	}
}

func TestAReaderMayTakeItsTime(t *testing.T) {
	var calls atomic.Int32
	goOn := make(chan struct{})
	client := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		startStream(w, 1)
		<-goOn
		fmt.Fprint(w, "id: msg_1:1\ndata: [DONE]\n\n")
	}, tollgate.WithIdleTimeout(500*time.Millisecond))
	stream, err := client.Messages.Create(context.Background(), "sess_1", tollgate.Text("Hi"))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	for _, err := range stream.All() {
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(600 * time.Millisecond)
		close(goOn)
	}
	if calls.Load() != 1 {
		t.Errorf("%d calls", calls.Load())
	}
}

func TestConnectionsAreUsedAgainAndNothingIsLeftRunning(t *testing.T) {
	var mu sync.Mutex
	peers := map[string]bool{}
	client := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		peers[r.RemoteAddr] = true
		mu.Unlock()
		startStream(w, 2)
		fmt.Fprint(w, "id: msg_1:2\ndata: [DONE]\n\n")
		w.(http.Flusher).Flush()
		time.Sleep(5 * time.Millisecond) // the end of the HTTP body comes after the end of the stream
	})
	before := runtime.NumGoroutine()
	for range 10 {
		stream, err := client.Messages.Create(context.Background(), "sess_1", tollgate.Text("Hi"))
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range stream.All() {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 10 {
		stream, err := client.Messages.Create(context.Background(), "sess_1", tollgate.Text("Hi"))
		if err != nil {
			t.Fatal(err)
		}
		for range stream.All() {
			break
		}
	}
	mu.Lock()
	if len(peers) > 16 { // one for all streams that were read to the end, on a machine that keeps up; each stream that was left closes its own
		t.Errorf("%d connections", len(peers))
	}
	mu.Unlock()
	client.CloseIdleConnections()
	for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}

func TestAnyGoroutineMayCancelAndClose(t *testing.T) {
	cancelled := make(chan struct{})
	client := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/cancel") {
			close(cancelled)
			fmt.Fprint(w, `{"id":"msg_1","status":"cancelled"}`)
			return
		}
		startStream(w, 1000)
		<-cancelled
		fmt.Fprint(w, "id: msg_1:1000\ndata: {\"error\":{\"type\":\"cancelled_error\",\"code\":\"message_cancelled\"}}\n\n")
	})
	stream, err := client.Messages.Create(context.Background(), "sess_1", tollgate.Text("Hi"))
	if err != nil {
		t.Fatal(err)
	}
	var others sync.WaitGroup
	others.Add(2)
	go func() {
		defer others.Done()
		message, err := stream.Cancel(context.Background())
		if err != nil || message.Status != tollgate.StatusCancelled {
			t.Errorf("%v, %v", message, err)
		}
	}()
	go func() {
		defer others.Done()
		_, _, _ = stream.PartialText(), stream.LastEventID(), stream.RequestID()
	}()
	for _, err := range stream.All() {
		if err != nil {
			t.Error(err)
		}
	}
	others.Wait()
	_ = stream.Close()
}

func TestAClientOfTheCallersKeepsItsPolicyToItself(t *testing.T) {
	own := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return nil, errors.New("dialled by the caller's")
	}}}
	client := clientOf(t, nil, tollgate.WithHTTPClient(own), tollgate.WithMaxRetries(0))
	_, err := client.Billing.Balance(context.Background())
	if err == nil || !strings.Contains(err.Error(), "dialled by the caller's") || own.CheckRedirect != nil {
		t.Error(err)
	}
}

func TestADownloadThatBreaksOffIsNotAtItsEnd(t *testing.T) {
	client := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		connection, out, _ := w.(http.Hijacker).Hijack()
		defer connection.Close()
		_, _ = out.WriteString("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-4/5\r\nConnection: close\r\n\r\nhe")
		_ = out.Flush()
	})
	file, err := client.Files.Content(context.Background(), "file_1", tollgate.ContentParams{})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	data, err := io.ReadAll(file)
	if string(data) != "he" || !errors.Is(err, tollgate.ErrIncompleteStream) || errors.Is(err, io.EOF) {
		t.Errorf("%q, %v", data, err)
	}
}

func TestAnyGoroutineMayCloseADownload(t *testing.T) {
	client := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	file, err := client.Files.Content(context.Background(), "file_1", tollgate.ContentParams{})
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(20*time.Millisecond, func() { _ = file.Close() })
	_, err = file.Read(make([]byte, 1))
	if !errors.Is(err, tollgate.ErrTollgate) || errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestHeadersAreNotForStrangers(t *testing.T) {
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Secret")+r.Header.Get("Authorization") != "" || r.Header.Get("Range") == "" {
			t.Errorf("it was told %v", r.Header)
		}
		w.Header().Set("Content-Range", "bytes 1-1/2")
		w.WriteHeader(http.StatusPartialContent)
		_, _ = io.WriteString(w, "i")
	}))
	defer stranger.Close()
	client := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, stranger.URL, http.StatusFound)
	}, tollgate.WithHeader("X-Secret", "hidden"))
	file, err := client.Files.Content(context.Background(), "file_1", tollgate.ContentParams{Start: 1})
	if err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(file); string(data) != "i" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
}

func TestAHeaderThatCanNotBeSentIsNoConnectionThatFails(t *testing.T) {
	client := clientOf(t, func(w http.ResponseWriter, r *http.Request) { t.Error("it was sent") })
	_, err := client.Billing.Balance(context.Background(), tollgate.WithHeader("X-Secret", "hidden\nX: y"))
	if errors.Is(err, tollgate.ErrConnection) || !errors.Is(err, tollgate.ErrTollgate) || strings.Contains(err.Error(), "hidden") {
		t.Error(err)
	}
}

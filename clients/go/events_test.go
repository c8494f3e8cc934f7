// Compares the reader of events with one that has the whole text at once, however the text is cut; and how fast it is.

package tollgate

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
)

// expected reads as the HTML standard says, in the simplest way.
func expected(text string) (found []string) {
	text = strings.TrimPrefix(text, "\uFEFF")
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	var data []string
	lines := strings.Split(text, "\n")
	for _, line := range lines[:len(lines)-1] {
		name, value, _ := strings.Cut(line, ":")
		switch {
		case line == "":
			if all := strings.Join(data, "\n"); all != "" {
				found = append(found, all)
			}
			data = nil
		case name == "data":
			data = append(data, strings.TrimPrefix(value, " "))
		}
	}
	return found
}

func came(from io.Reader) (found []string) {
	events := newEvents(from)
	for {
		e, err := events.next()
		if err != nil {
			return found
		}
		found = append(found, string(e.data))
	}
}

func FuzzEvents(f *testing.F) {
	for _, text := range []string{
		"data: a\n\ndata: b\r\n\r\n", "\uFEFFdata:a\rdata: b\r\r", ":\n:\r\nid: 1\ndata\ndata: \n\n", "data: a\n\n\ndata: b\n", "\r\n\n\r",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for name, from := range map[string]io.Reader{
			"whole": strings.NewReader(text), "by bytes": iotest.OneByteReader(strings.NewReader(text)),
			"with its end": iotest.DataErrReader(strings.NewReader(text)),
		} {
			if a, b := came(from), expected(text); fmt.Sprintf("%q", a) != fmt.Sprintf("%q", b) {
				t.Errorf("%s: %q, not %q", name, a, b)
			}
		}
	})
}

type endless struct{ block []byte }

func (e *endless) Read(into []byte) (int, error) { return copy(into, e.block), nil }
func (e *endless) Close() error                  { return nil }

func BenchmarkChunks(b *testing.B) {
	block := []byte("id: msg_01a1fcca51f6753b935bcece115dc55f:1\ndata: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\"," +
		"\"created\":1795200000,\"model\":\"demo\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hello\"},\"finish_reason\":null}]}\n\n")
	block = bytes.ReplaceAll(block, []byte(":1\n"), []byte("\n"))
	core := &core{redact: func(text string) string { return text }}
	s := &MessageStream{}
	s.init(context.Background(), core)
	body := &receiving{body: &endless{bytes.Repeat(block, 64)}, watch: newWatch(s.ctx, &settings{}, 0)}
	head := http.Header{"Content-Type": {eventStream}}
	if err := s.use(&answer{status: http.StatusOK, head: head, body: body}); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(block)))
	b.ReportAllocs()
	count := 0
	for _, err := range s.All() {
		if err != nil {
			b.Fatal(err)
		}
		if count++; count >= b.N {
			break
		}
	}
}

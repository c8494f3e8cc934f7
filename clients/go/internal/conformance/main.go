// The conformance driver: reads cases from standard input, one JSON object a line, acts through the package's public API,
// and reports what it saw. See clients/conformance/README.md. It never waits: it records how long it would have waited.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	tollgate "tollgate-gateway.example/clients/go"
	"tollgate-gateway.example/clients/go/internal/pace"
)

type line struct {
	Client struct {
		BaseURL        *string `json:"base_url"`
		APIKey         *string `json:"api_key"`
		MaxRetries     *int    `json:"max_retries"`
		ConnectTimeout *int    `json:"connect_timeout_ms"`
		IdleTimeout    *int    `json:"idle_timeout_ms"`
	} `json:"client"`
	Steps []step `json:"steps"`
}

type result map[string]any

type saw struct {
	Steps []result  `json:"steps"`
	Waits []float64 `json:"waits"`
	Shown []string  `json:"shown"`
}

// driver executes one line.
type driver struct {
	ctx    context.Context
	client *tollgate.Client
	saw    *saw
}

func main() {
	in := bufio.NewReader(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for {
		text, err := in.ReadBytes('\n')
		if err == io.EOF {
			return
		}
		fail(err)
		var told line
		fail(json.Unmarshal(text, &told))
		fail(out.Encode(act(told)))
	}
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func act(told line) *saw {
	d := &driver{saw: &saw{Steps: []result{}, Waits: []float64{}, Shown: []string{}}}
	d.ctx = pace.With(context.Background(), func(ctx context.Context, wait time.Duration) error {
		d.saw.Waits = append(d.saw.Waits, float64(wait)/float64(time.Millisecond))
		return ctx.Err()
	})
	client, err := tollgate.NewClient(options(told)...)
	if err != nil {
		d.saw.Steps = append(d.saw.Steps, result{"error": d.described(err, nil)})
		return d.saw
	}
	defer client.CloseIdleConnections()
	d.client = client
	d.show(client)
	d.show(*client)
	for _, s := range told.Steps {
		d.saw.Steps = append(d.saw.Steps, d.run(s))
	}
	return d.saw
}

func options(told line) []tollgate.ClientOption {
	var given []tollgate.ClientOption
	c := told.Client
	if c.BaseURL != nil {
		given = append(given, tollgate.WithBaseURL(*c.BaseURL))
	}
	if c.APIKey != nil {
		given = append(given, tollgate.WithAPIKey(*c.APIKey))
	}
	if c.MaxRetries != nil {
		given = append(given, tollgate.WithMaxRetries(*c.MaxRetries))
	}
	if c.ConnectTimeout != nil {
		given = append(given, tollgate.WithConnectTimeout(time.Duration(*c.ConnectTimeout)*time.Millisecond))
	}
	if c.IdleTimeout != nil {
		given = append(given, tollgate.WithIdleTimeout(time.Duration(*c.IdleTimeout)*time.Millisecond))
	}
	return given
}

// show writes a value in each way in which a user could print it.
func (d *driver) show(value any) {
	d.saw.Shown = append(d.saw.Shown, fmt.Sprintf("%v\n%+v\n%#v\n%s\n%q", value, value, value, value, value))
	if text, err := json.Marshal(value); err == nil {
		d.saw.Shown = append(d.saw.Shown, string(text))
	}
}

func (d *driver) run(s step) result {
	value, err := d.perform(s)
	if err != nil {
		return result{"error": d.described(err, nil)}
	}
	if streamed, ok := value.(result); ok {
		return streamed
	}
	return result{"ok": value}
}

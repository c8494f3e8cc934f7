// Values as JSON in both directions: what came is kept as it came, what this version does not know is sent as it was given.

package tollgate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// UnixTime is a time in seconds since 1970; 0 if there is none.
type UnixTime int64

// Time converts it to package time; the zero Time if there is none.
func (t UnixTime) Time() time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.Unix(int64(t), 0)
}

// Ptr gives a pointer to a value, for parameters whose zero value means something: Temperature: tollgate.Ptr(0.0).
func Ptr[T any](value T) *T { return &value }

// object is embedded in everything that came from the gateway.
type object struct{ raw json.RawMessage }

// shown is a value for people, on one line: the JSON that came or, without one, its fields. Package fmt would print the
// bytes of the JSON as numbers, and pointers.
func shown(o object, value any) string {
	var line bytes.Buffer
	if json.Compact(&line, o.raw) == nil {
		return line.String()
	}
	data, err := marshal(value)
	if err != nil {
		return "?"
	}
	return string(data)
}

// RawJSON gives the value as it came, with the fields that this version does not know; empty for one that did not come
// from the gateway.
func (o object) RawJSON() string { return string(o.raw) }

func (o *object) keep(raw json.RawMessage) { o.raw = raw }

type keeper interface{ keep(json.RawMessage) }

// decode reads a JSON object and keeps data, which must not change afterwards. A known field of another type than expected
// stays at its zero value: backends write what they like, and a caller who needs the value has the raw text.
func decode(data []byte, into any) error {
	if text := bytes.TrimLeft(data, " \t\r\n"); len(text) == 0 || text[0] != '{' {
		return errors.New("not a JSON object")
	}
	var kind *json.UnmarshalTypeError
	if err := json.Unmarshal(data, into); err != nil && !errors.As(err, &kind) {
		return err
	}
	if object, ok := into.(keeper); ok {
		object.keep(data)
	}
	return nil
}

// encode writes value with extra fields, which have priority.
func encode(value any, extra map[string]any) ([]byte, error) {
	data, err := marshal(value)
	if err != nil || len(extra) == 0 {
		return data, err
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	for name, field := range extra {
		if fields[name], err = marshal(field); err != nil {
			return nil, err
		}
	}
	return marshal(fields)
}

// marshal leaves <, > and & as they are: models count characters.
func marshal(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, &Error{Message: "the parameters can't be written as JSON: " + err.Error(), Err: err}
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// textOf returns a string's text, nothing for null, and the JSON of anything else.
func textOf(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return string(raw)
	}
	return text
}

// checkHeader refuses what the transport would refuse with an error that looks like a failed connection.
func checkHeader(head http.Header) error {
	for name, values := range head {
		for _, value := range values {
			if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
				return &Error{Message: fmt.Sprintf("the header %q can't have this value", name)}
			}
		}
	}
	return nil
}

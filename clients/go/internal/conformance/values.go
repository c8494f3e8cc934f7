// Values between JSON and the package's types: parameters by their fields, and by Extra what no field says; what came as
// it came, after a look whether the fields say the same.

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
)

// fill sets the fields of params from told and returns what has no field.
func fill(told json.RawMessage, params any) map[string]any {
	if len(told) == 0 {
		return nil
	}
	_ = json.Unmarshal(told, params)
	known, err := json.Marshal(params)
	fail(err)
	said, asked := fields(known), fields(told)
	extra := map[string]any{}
	for name, value := range asked {
		if !reflect.DeepEqual(parsed(said[name]), parsed(value)) {
			extra[name] = value
		}
	}
	return extra
}

func fields(text []byte) map[string]json.RawMessage {
	var found map[string]json.RawMessage
	fail(json.Unmarshal(text, &found))
	return found
}

func parsed(text []byte) any {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	_ = decoder.Decode(&value)
	return value
}

type raw interface{ RawJSON() string }

// shown is the object as it came. A field whose value differs from the JSON is a bug that must be seen.
func shown(value raw) any {
	typed, err := json.Marshal(value)
	fail(err)
	if difference := compare("", parsed(typed), parsed([]byte(value.RawJSON()))); difference != "" {
		return result{"wrong": difference}
	}
	return json.RawMessage(value.RawJSON())
}

func compare(at string, typed, came any) string {
	switch typed := typed.(type) {
	case map[string]any:
		came, _ := came.(map[string]any)
		for name, value := range typed {
			if difference := compare(at+"."+name, value, came[name]); difference != "" {
				return difference
			}
		}
	case []any:
		came, _ := came.([]any)
		for i, value := range typed {
			if i >= len(came) {
				return at + " is longer"
			}
			if difference := compare(fmt.Sprint(at, i), value, came[i]); difference != "" {
				return difference
			}
		}
	default:
		isZero := typed == nil || typed == "" || typed == false || typed == json.Number("0")
		if !reflect.DeepEqual(typed, came) && !(isZero && reflect.TypeOf(typed) != reflect.TypeOf(came)) {
			return fmt.Sprintf("%s: %v, not %v", at, typed, came)
		}
	}
	return ""
}

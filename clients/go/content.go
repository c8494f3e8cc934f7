// The content of a message that came: text, or parts. Lenient: what it can't read is in the message's RawJSON.

package tollgate

import (
	"encoding/json"
	"strings"
)

// Content is what a message says. Printed, it is its text.
type Content struct {
	Text  string // the whole text, with the texts of all parts
	Parts []Part // nil if the content came as plain text
}

// String gives the text.
func (c Content) String() string { return c.Text }

// UnmarshalJSON reads a string, parts, or null.
func (c *Content) UnmarshalJSON(data []byte) error {
	*c = Content{}
	if json.Unmarshal(data, &c.Text) == nil {
		return nil
	}
	if json.Unmarshal(data, &c.Parts) != nil {
		return nil
	}
	var text strings.Builder
	for _, part := range c.Parts {
		text.WriteString(part.Text)
	}
	c.Text = text.String()
	return nil
}

// MarshalJSON writes the parts, or the text if there are none.
func (c Content) MarshalJSON() ([]byte, error) {
	if c.Parts != nil {
		return marshal(c.Parts)
	}
	return marshal(c.Text)
}

// The types of chat completions, as all servers of this API have them: messages and tools that are sent, chunks and choices
// that come.

package tollgate

// ChatMessage is a turn that is sent. [UserMessage] and similar functions make the usual ones.
type ChatMessage struct {
	Role       string         `json:"role"`
	Content    any            `json:"content,omitempty"` // a string, or []Part
	Name       string         `json:"name,omitempty"`
	ToolCalls  []ToolCall     `json:"tool_calls,omitempty"`
	ToolCallID string         `json:"tool_call_id,omitempty"`
	Extra      map[string]any `json:"-"` // any other field by its name
}

// MarshalJSON writes the message with its extra fields.
func (m ChatMessage) MarshalJSON() ([]byte, error) {
	type plain ChatMessage
	return encode(plain(m), m.Extra)
}

// Part is a part of a message's content. [TextPart], [ImagePart] and [FilePart] make them.
type Part struct {
	Type     string    `json:"type"`
	Text     string    `json:"text,omitempty"`
	ImageURL *ImageURL `json:"image_url,omitempty"`
	File     *FilePtr  `json:"file,omitempty"`
}

// ImageURL is where an image is: a data URL, or one that the backend can fetch.
type ImageURL struct {
	URL    string `json:"url"`
	Detail string `json:"detail,omitempty"`
}

// FilePtr names a file of the session.
type FilePtr struct {
	FileID string `json:"file_id"`
}

// TextPart is text.
func TextPart(text string) Part { return Part{Type: "text", Text: text} }

// ImagePart is an image, usually as a data URL.
func ImagePart(url string) Part { return Part{Type: "image_url", ImageURL: &ImageURL{URL: url}} }

// FilePart is a file that was uploaded to the session.
func FilePart(fileID string) Part { return Part{Type: "file", File: &FilePtr{FileID: fileID}} }

// SystemMessage is an instruction.
func SystemMessage(text string) ChatMessage { return ChatMessage{Role: "system", Content: text} }

// UserMessage is what the user says.
func UserMessage(text string) ChatMessage { return ChatMessage{Role: "user", Content: text} }

// AssistantMessage is what the model said.
func AssistantMessage(text string) ChatMessage { return ChatMessage{Role: "assistant", Content: text} }

// ToolMessage is the result of a tool call.
func ToolMessage(callID, result string) ChatMessage {
	return ChatMessage{Role: "tool", Content: result, ToolCallID: callID}
}

// Tool is a function that the model may call.
type Tool struct {
	Type     string   `json:"type"` // "function"
	Function Function `json:"function"`
}

// Function is described to the model by its name, a sentence, and a JSON schema.
type Function struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Parameters  any    `json:"parameters,omitempty"`
	Strict      *bool  `json:"strict,omitempty"`
}

// ToolCall is a call that the model wants; in chunks it comes in pieces that have the same Index.
type ToolCall struct {
	Index    int          `json:"index,omitempty"`
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type,omitempty"`
	Function FunctionCall `json:"function"`
}

// FunctionCall has the arguments as the JSON text that the model wrote.
type FunctionCall struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

// ChatCompletion is an answer that came whole.
type ChatCompletion struct {
	object
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created UnixTime `json:"created"`
	Model   string   `json:"model"`
	Choices []Choice `json:"choices"`
	Usage   *Usage   `json:"usage"`
}

// String is the JSON that came, on one line.
func (c ChatCompletion) String() string { return shown(c.object, c) }

// Text is the text of choice 0.
func (c *ChatCompletion) Text() string {
	for i := range c.Choices {
		if c.Choices[i].Index == 0 {
			return c.Choices[i].Message.Content
		}
	}
	return ""
}

// Choice is one of the answers that were asked for.
type Choice struct {
	Index        int    `json:"index"`
	Message      Said   `json:"message"`
	FinishReason string `json:"finish_reason"` // "stop", "length", "tool_calls", "content_filter", or another
}

// Said is what the model said, or a piece of it.
type Said struct {
	Role             string     `json:"role"`
	Content          string     `json:"content"`
	Refusal          string     `json:"refusal"`
	ReasoningContent string     `json:"reasoning_content"`
	ToolCalls        []ToolCall `json:"tool_calls"`
}

// Chunk is a piece of an answer. RawJSON has all of its fields.
type Chunk struct {
	object
	ID      string        `json:"id"`
	Object  string        `json:"object"`
	Created UnixTime      `json:"created"`
	Model   string        `json:"model"`
	Choices []ChunkChoice `json:"choices"`
	Usage   *Usage        `json:"usage"` // in the last chunk, if at all
}

// String is the JSON that came, on one line.
func (c Chunk) String() string { return shown(c.object, c) }

// Text is the text that the chunk adds to choice 0; often empty.
func (c Chunk) Text() string {
	for i := range c.Choices {
		if c.Choices[i].Index == 0 {
			return c.Choices[i].Delta.Content
		}
	}
	return ""
}

// ChunkChoice is a piece of one choice.
type ChunkChoice struct {
	Index        int    `json:"index"`
	Delta        Said   `json:"delta"`
	FinishReason string `json:"finish_reason"` // empty until the choice ends
}

// Usage counts model tokens.
type Usage struct {
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	TotalTokens      int64 `json:"total_tokens"`
	Estimated        bool  `json:"estimated"`     // the backend did not report; the gateway counted
	CachedTokens     int64 `json:"cached_tokens"` // of the prompt; in transactions
}

// String is the counts with their names, as JSON.
func (u Usage) String() string { return shown(object{}, u) }

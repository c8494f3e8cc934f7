// Messages of a session: sent, streamed, read, resumed, cancelled.

package tollgate

import (
	"context"
	"maps"
	"net/http"
)

// MessagesService has the messages of chat sessions. The key needs the scope "sessions".
type MessagesService struct{ core *core }

// The values that a message's Status may have; others may be added.
const (
	StatusInProgress = "in_progress"
	StatusCompleted  = "completed"
	StatusCancelled  = "cancelled"  // by a cancel, or because its session was deleted
	StatusFailed     = "failed"     // the backend failed
	StatusIncomplete = "incomplete" // it broke off; Content has what came
)

// Message is what was said in a session, by a user, a tool or the model.
type Message struct {
	object
	ID           string       `json:"id"`
	Object       string       `json:"object"` // "chat.message"
	SessionID    string       `json:"session_id"`
	Role         string       `json:"role"` // "user", "assistant", "tool"
	Content      Content      `json:"content"`
	ToolCalls    []ToolCall   `json:"tool_calls"`
	ToolCallID   string       `json:"tool_call_id"` // of role "tool": the call whose result this is
	Name         string       `json:"name"`
	Reasoning    string       `json:"reasoning"`
	Status       string       `json:"status"`
	FinishReason string       `json:"finish_reason"`
	Model        string       `json:"model"`
	Usage        *Usage       `json:"usage"` // model tokens
	Cost         *int64       `json:"cost"`  // balance tokens; nil while unknown
	Error        *ErrorDetail `json:"error"` // why it failed
	CreatedAt    UnixTime     `json:"created_at"`
	CompletedAt  UnixTime     `json:"completed_at"`
}

// String is the JSON that came, on one line.
func (m Message) String() string { return shown(m.object, m) }

// ErrorDetail is an error as a message keeps it.
type ErrorDetail struct {
	Message string `json:"message"`
	Type    string `json:"type"`
	Param   string `json:"param"`
	Code    string `json:"code"`
}

// MessageParams is a new turn: Content or Messages, and parameters for its answer. [Text] makes the usual one.
type MessageParams struct {
	Content  any           `json:"content,omitempty"`  // a string, or []Part
	Messages []ChatMessage `json:"messages,omitempty"` // instead of Content: new turns, the last by "user" or "tool"
	Model    string        `json:"model,omitempty"`    // by default the session's
	// OnDisconnect says what happens to the answer when nobody reads it: "continue", the default, or "cancel".
	OnDisconnect    string   `json:"on_disconnect,omitempty"`
	MaxTokens       int      `json:"max_tokens,omitempty"`
	Temperature     *float64 `json:"temperature,omitempty"`
	TopP            *float64 `json:"top_p,omitempty"`
	Stop            []string `json:"stop,omitempty"`
	Seed            *int64   `json:"seed,omitempty"`
	ReasoningEffort string   `json:"reasoning_effort,omitempty"`
	Tools           []Tool   `json:"tools,omitempty"`
	ToolChoice      any      `json:"tool_choice,omitempty"`     // "auto", "none", "required", or an object
	ResponseFormat  any      `json:"response_format,omitempty"` // an object
	// Extra has any other parameter by its name. It wins over the fields.
	Extra map[string]any `json:"-"`
}

// Text is a message of text and, if there are any, of files that were uploaded to the session.
func Text(text string, fileIDs ...string) MessageParams {
	if len(fileIDs) == 0 {
		return MessageParams{Content: text}
	}
	parts := []Part{TextPart(text)}
	for _, id := range fileIDs {
		parts = append(parts, FilePart(id))
	}
	return MessageParams{Content: parts}
}

// Create sends a message and streams its answer as it is generated. The context covers the whole stream. When the connection
// breaks, the stream is resumed where it was. Errors: [ErrConflict] (session_busy) while the session already
// generates, [ErrInsufficientBalance], [ErrRateLimit], [ErrNotFound] and all others.
func (s *MessagesService) Create(ctx context.Context, sessionID string, params MessageParams, options ...CallOption) (*MessageStream, error) {
	r := newTurn(sessionID, params, true, options)
	r.accept = eventStream
	stream := s.newStream(ctx, sessionID, options)
	if _, err := stream.open(r); err != nil {
		return nil, err
	}
	return stream, nil
}

// Send sends a message and waits for the whole answer, for up to 600 s. Errors are those of Create.
func (s *MessagesService) Send(ctx context.Context, sessionID string, params MessageParams, options ...CallOption) (*Message, error) {
	return fetch[Message](ctx, s.core, newTurn(sessionID, params, false, options))
}

func newTurn(sessionID string, params MessageParams, isStream bool, options []CallOption) *request {
	extra := map[string]any{}
	maps.Copy(extra, params.Extra)
	extra["stream"] = isStream
	r := newRequest(options, http.MethodPost, "/api/chat/sessions/{}/messages", sessionID).withJSON(params, extra)
	r.generates = true
	return r
}

// Retrieve gives a message; one in progress has what came so far. Error: [ErrNotFound].
func (s *MessagesService) Retrieve(ctx context.Context, sessionID, messageID string, options ...CallOption) (*Message, error) {
	return fetch[Message](ctx, s.core, newRequest(options, http.MethodGet, "/api/chat/sessions/{}/messages/{}", sessionID, messageID))
}

// List has the messages of a session, by default the oldest first.
func (s *MessagesService) List(ctx context.Context, sessionID string, params ListParams, options ...CallOption) *List[Message] {
	return newList[Message](ctx, s.core, newRequest(options, http.MethodGet, "/api/chat/sessions/{}/messages", sessionID), params.query())
}

// Cancel stops a message that is being generated, wherever it is read, and returns it as it ended; a message that has ended
// stays as it is. Error: [ErrNotFound].
func (s *MessagesService) Cancel(ctx context.Context, sessionID, messageID string, options ...CallOption) (*Message, error) {
	return fetch[Message](ctx, s.core, newRequest(options, http.MethodPost, "/api/chat/sessions/{}/messages/{}/cancel", sessionID, messageID))
}

// Resume reads the stream of a message after the event lastEventID, or from its start if that is empty: first what is
// already there, then what is still generated. Errors: [ErrNotFound], also if the stream is no longer kept
// (stream_expired: the message still is).
func (s *MessagesService) Resume(ctx context.Context, sessionID, messageID, lastEventID string, options ...CallOption) (*MessageStream, error) {
	stream := s.newStream(ctx, sessionID, options)
	stream.messageID = messageID
	if lastEventID != "" {
		stream.advance([]byte(lastEventID))
	}
	if _, err := stream.open(stream.resumption(messageID)); err != nil {
		return nil, err
	}
	return stream, nil
}

// Active reads the stream of the message that the session is generating, from its start. If there is none, it returns
// no stream, and false.
func (s *MessagesService) Active(ctx context.Context, sessionID string, options ...CallOption) (*MessageStream, bool, error) {
	stream := s.newStream(ctx, sessionID, options)
	r := newRequest(options, http.MethodGet, "/api/chat/sessions/{}/stream", sessionID)
	r.accept = eventStream
	isThere, err := stream.open(r)
	if err != nil || !isThere {
		_ = stream.Close()
		return nil, false, err
	}
	return stream, true, nil
}

// Stateless chat completions: the request and the answer are the backend's, field by field; nothing is kept and a stream
// can't be resumed.

package tollgate

import (
	"context"
	"maps"
	"net/http"
)

// ChatService has what the gateway offers under /v1/chat.
type ChatService struct {
	Completions *ChatCompletionsService
}

// ChatCompletionsService makes chat completions.
type ChatCompletionsService struct{ core *core }

// ChatParams is a chat completion's request. Model and Messages are required; all else is the backend's to take or
// refuse.
type ChatParams struct {
	Model           string        `json:"model,omitempty"`
	Messages        []ChatMessage `json:"messages"`
	MaxTokens       int           `json:"max_tokens,omitempty"`
	Temperature     *float64      `json:"temperature,omitempty"`
	TopP            *float64      `json:"top_p,omitempty"`
	Stop            []string      `json:"stop,omitempty"`
	Seed            *int64        `json:"seed,omitempty"`
	ReasoningEffort string        `json:"reasoning_effort,omitempty"`
	Tools           []Tool        `json:"tools,omitempty"`
	ToolChoice      any           `json:"tool_choice,omitempty"`     // "auto", "none", "required", or an object
	ResponseFormat  any           `json:"response_format,omitempty"` // an object
	// Extra has any other parameter by its name, such as "logprobs". It wins over the fields.
	Extra map[string]any `json:"-"`
}

// Create makes a completion and waits for all of it, up to 600 s. It is not sent again once it may have arrived, nor
// after a 504, because each arrival is charged. Errors: [ErrInsufficientBalance], [ErrRateLimit], [ErrBadRequest] and all others.
func (s *ChatCompletionsService) Create(ctx context.Context, params ChatParams, options ...CallOption) (*ChatCompletion, error) {
	return fetch[ChatCompletion](ctx, s.core, chatRequest(params, params.Extra, options))
}

// Stream makes a completion that comes as it is generated. The context covers the whole stream. Leaving it ends the
// generation; what was generated is paid for. Use Extra for stream_options.
func (s *ChatCompletionsService) Stream(ctx context.Context, params ChatParams, options ...CallOption) (*ChatStream, error) {
	extra := map[string]any{}
	maps.Copy(extra, params.Extra)
	extra["stream"] = true
	r := chatRequest(params, extra, options)
	r.accept = eventStream
	stream := &ChatStream{}
	stream.init(ctx, s.core)
	stream.broken = func(cause error) error {
		return stream.incomplete("the stream ended before its end; one of /v1/chat can't be resumed", cause)
	}
	a, err := s.core.call(stream.ctx, r)
	if err == nil {
		err = stream.use(a)
	}
	if err != nil {
		_ = stream.Close()
		return nil, err
	}
	return stream, nil
}

// ChatStream is a chat completion as it comes. It has to be read to its end or closed.
type ChatStream struct{ stream }

func chatRequest(params ChatParams, extra map[string]any, options []CallOption) *request {
	if params.Messages == nil {
		params.Messages = []ChatMessage{}
	}
	r := newRequest(options, http.MethodPost, "/v1/chat/completions").withJSON(params, extra)
	r.generates, r.isPaid = true, true
	return r
}

// The models that a key may use.

package tollgate

import (
	"context"
	"net/http"
)

// ModelsService has the gateway's models.
type ModelsService struct{ core *core }

// ModelPrice is in balance tokens for each model token.
type ModelPrice struct {
	Input       float64 `json:"input"`
	Output      float64 `json:"output"`
	CachedInput float64 `json:"cached_input"` // tokens of the prompt that the backend had cached
	Request     float64 `json:"request"`      // for each request
}

// Model is one that the key may use.
type Model struct {
	object
	ID              string      `json:"id"`
	Object          string      `json:"object"` // "model"
	Created         UnixTime    `json:"created"`
	OwnedBy         string      `json:"owned_by"`
	Price           *ModelPrice `json:"price"`
	ContextWindow   int64       `json:"context_window"`    // in model tokens
	MaxOutputTokens int64       `json:"max_output_tokens"` // in model tokens
	Accepts         []string    `json:"accepts"`           // "text", "image" …: what messages of a session may have attached
	Endpoints       []string    `json:"endpoints"`         // "chat", "embeddings" …: what of /v1 it serves
}

// String is the JSON that came, on one line.
func (m Model) String() string { return shown(m.object, m) }

// List has the models.
func (s *ModelsService) List(ctx context.Context, options ...CallOption) *List[Model] {
	return newList[Model](ctx, s.core, newRequest(options, http.MethodGet, "/v1/models"), nil)
}

// Retrieve gives a model. Error: [ErrNotFound].
func (s *ModelsService) Retrieve(ctx context.Context, id string, options ...CallOption) (*Model, error) {
	return fetch[Model](ctx, s.core, newRequest(options, http.MethodGet, "/v1/models/{}", id))
}

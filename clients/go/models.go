// The models that a key may use.

package tollgate

import (
	"context"
	"net/http"
)

// ModelsService has the gateway's models.
type ModelsService struct{ core *core }

// Model is one that the key may use.
type Model struct {
	object
	ID      string   `json:"id"`
	Object  string   `json:"object"` // "model"
	Created UnixTime `json:"created"`
	OwnedBy string   `json:"owned_by"`
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

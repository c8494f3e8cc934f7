// Chat sessions: conversations that the gateway keeps.

package tollgate

import (
	"context"
	"maps"
	"net/http"
)

// SessionsService has the account's chat sessions. The key needs the scope "sessions".
type SessionsService struct{ core *core }

// Session is a conversation.
type Session struct {
	object
	ID              string            `json:"id"`
	Object          string            `json:"object"` // "chat.session"
	CreatedAt       UnixTime          `json:"created_at"`
	UpdatedAt       UnixTime          `json:"updated_at"`
	Title           string            `json:"title"`
	Model           string            `json:"model"`
	Instructions    string            `json:"instructions"` // not in lists: use Retrieve
	Metadata        map[string]string `json:"metadata"`
	MessageCount    int               `json:"message_count"`
	ActiveMessageID string            `json:"active_message_id"` // the answer that is being generated; else empty
}

// String is the JSON that came, on one line.
func (s Session) String() string { return shown(s.object, s) }

// SessionParams is a new session. All fields may be left out.
type SessionParams struct {
	Title        string            `json:"title,omitempty"` // at most 200 characters
	Model        string            `json:"model,omitempty"` // for messages that name no model
	Instructions string            `json:"instructions,omitempty"`
	Metadata     map[string]string `json:"metadata,omitempty"` // at most 16, names of 64, values of 512 characters
	Extra        map[string]any    `json:"-"`                  // any other parameter by its name
}

// SessionUpdate changes what it names and leaves the rest. Metadata is replaced as a whole.
type SessionUpdate struct {
	Title        string            `json:"title,omitempty"`
	Model        string            `json:"model,omitempty"`
	Instructions string            `json:"instructions,omitempty"`
	Metadata     map[string]string `json:"metadata,omitempty"`
	Clear        []string          `json:"-"` // fields to be null: "title", "model", "instructions"
	Extra        map[string]any    `json:"-"` // any other parameter by its name
}

// Create makes a session.
func (s *SessionsService) Create(ctx context.Context, params SessionParams, options ...CallOption) (*Session, error) {
	r := newRequest(options, http.MethodPost, "/api/chat/sessions").withJSON(params, params.Extra)
	return fetch[Session](ctx, s.core, r)
}

// Retrieve gives a session. Error: [ErrNotFound].
func (s *SessionsService) Retrieve(ctx context.Context, sessionID string, options ...CallOption) (*Session, error) {
	return fetch[Session](ctx, s.core, newRequest(options, http.MethodGet, "/api/chat/sessions/{}", sessionID))
}

// Update changes a session and gives it as it is then. Error: [ErrNotFound].
func (s *SessionsService) Update(ctx context.Context, sessionID string, params SessionUpdate, options ...CallOption) (*Session, error) {
	extra := map[string]any{}
	for _, name := range params.Clear {
		extra[name] = nil
	}
	maps.Copy(extra, params.Extra)
	r := newRequest(options, http.MethodPatch, "/api/chat/sessions/{}", sessionID).withJSON(params, extra)
	return fetch[Session](ctx, s.core, r)
}

// Delete deletes a session with its messages and files; what is being generated in it is cancelled. Error: [ErrNotFound].
func (s *SessionsService) Delete(ctx context.Context, sessionID string, options ...CallOption) error {
	return s.core.run(ctx, newRequest(options, http.MethodDelete, "/api/chat/sessions/{}", sessionID))
}

// List has the sessions, the newest first unless told otherwise.
func (s *SessionsService) List(ctx context.Context, params ListParams, options ...CallOption) *List[Session] {
	return newList[Session](ctx, s.core, newRequest(options, http.MethodGet, "/api/chat/sessions"), params.query())
}

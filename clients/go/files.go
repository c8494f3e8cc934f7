// Files of a session: uploaded, described, listed, deleted. Downloading is in download.go, the form in form.go.

package tollgate

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"time"
)

// FilesService has the account's files. The key needs the scope "files".
type FilesService struct{ core *core }

// File describes a file; its bytes are [FilesService.Content].
type File struct {
	object
	ID          string   `json:"id"`
	Object      string   `json:"object"` // "file"
	Bytes       int64    `json:"bytes"`
	CreatedAt   UnixTime `json:"created_at"`
	ExpiresAt   UnixTime `json:"expires_at"` // 0: the file expires with its session
	Filename    string   `json:"filename"`
	Purpose     string   `json:"purpose"`
	Status      string   `json:"status"`
	SessionID   string   `json:"session_id"`
	ContentType string   `json:"content_type"` // the type of the bytes, whatever the sender said
	SHA256      string   `json:"sha256"`       // hex
}

// String is the JSON that came, on one line.
func (f File) String() string { return shown(f.object, f) }

// UploadParams is a file to be uploaded. File and SessionID are required.
type UploadParams struct {
	// File is read from its current position to its end, never whole in memory. An io.Seeker, such as an *os.File or a
	// *bytes.Reader, can be sent again when a call is retried; anything else is sent once.
	File         io.Reader
	SessionID    string
	Filename     string        // by default the base of File's Name(), if it has one, as an *os.File does
	ContentType  string        // what the sender says; the gateway checks the bytes
	Purpose      string        // "user_data" by default
	ExpiresAfter time.Duration // whole seconds; 0: it expires with its session
	SHA256       string        // hex; a file that arrives with another hash is refused (checksum_mismatch)
	// OnProgress gets the number of the file's bytes sent so far, and its size (-1: not known). It is called by
	// another goroutine while Upload runs, one call at a time, and must not block.
	OnProgress func(sent, total int64)
}

// FileListParams choose the files of a list.
type FileListParams struct {
	SessionID string // by default those of all sessions
	ListParams
}

// Upload uploads a file. It has no time limit as long as bytes move. Errors: [ErrNotFound] (no such session),
// [ErrBadRequest] (file_too_large, checksum_mismatch), [ErrPermissionDenied] (storage_quota_exceeded), and an [*Error]
// if File can't be read.
func (s *FilesService) Upload(ctx context.Context, params UploadParams, options ...CallOption) (*File, error) {
	if params.File == nil || params.SessionID == "" {
		return nil, &Error{Message: "an upload needs a File and a SessionID"}
	}
	if named, ok := params.File.(interface{ Name() string }); ok && params.Filename == "" {
		params.Filename = filepath.Base(named.Name())
	}
	if params.Filename == "" {
		return nil, &Error{Message: "an upload needs a Filename"}
	}
	form := newForm(params)
	defer form.leave()
	return fetch[File](ctx, s.core, &request{
		method: http.MethodPost, path: "/api/files/upload", body: form, contentType: form.contentType(), options: options,
	})
}

func (p UploadParams) fields() [][2]string {
	fields := [][2]string{{"session_id", p.SessionID}, {"purpose", p.Purpose}, {"sha256", p.SHA256}}
	if p.ExpiresAfter > 0 {
		seconds := (p.ExpiresAfter + time.Second - 1) / time.Second
		fields = append(fields, [2]string{"expires_after", strconv.FormatInt(int64(seconds), 10)})
	}
	return fields
}

// Retrieve describes a file. Error: [ErrNotFound], also for one that has expired.
func (s *FilesService) Retrieve(ctx context.Context, fileID string, options ...CallOption) (*File, error) {
	return fetch[File](ctx, s.core, newRequest(options, http.MethodGet, "/api/files/{}/metadata", fileID))
}

// List has the files, by default the newest first.
func (s *FilesService) List(ctx context.Context, params FileListParams, options ...CallOption) *List[File] {
	query := params.query()
	set(query, "session_id", params.SessionID)
	return newList[File](ctx, s.core, newRequest(options, http.MethodGet, "/api/files"), query)
}

// Delete deletes a file. Error: [ErrNotFound].
func (s *FilesService) Delete(ctx context.Context, fileID string, options ...CallOption) error {
	return s.core.run(ctx, newRequest(options, http.MethodDelete, "/api/files/{}", fileID))
}

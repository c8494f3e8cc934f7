// Carries out each step, except streams.

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"time"

	tollgate "tollgate-gateway.example/clients/go"
)

type step struct {
	Op             string          `json:"op"`
	ID             string          `json:"id"`
	SessionID      string          `json:"session_id"`
	Params         json.RawMessage `json:"params"`
	Body           json.RawMessage `json:"body"`
	Content        json.RawMessage `json:"content"`
	Messages       json.RawMessage `json:"messages"`
	IdempotencyKey string          `json:"idempotency_key"`
	LastEventID    string          `json:"last_event_id"`
	Take           *int            `json:"take"`

	Filename     string  `json:"filename"`
	Text         *string `json:"text"`
	Path         *string `json:"path"`
	Once         *string `json:"once"`
	ContentType  string  `json:"content_type"`
	SHA256       string  `json:"sha256"`
	Purpose      string  `json:"purpose"`
	ExpiresAfter int64   `json:"expires_after"`
	Start        int64   `json:"start"`
	ETag         string  `json:"etag"`

	reading
}

func (d *driver) perform(s step) (any, error) {
	c, ctx := d.client, d.ctx
	switch s.Op {
	case "chat.create":
		return object(c.Chat.Completions.Create(ctx, chatParams(s)))
	case "sessions.create":
		var params tollgate.SessionParams
		params.Extra = fill(s.Params, &params)
		return object(c.Sessions.Create(ctx, params))
	case "sessions.retrieve":
		return object(c.Sessions.Retrieve(ctx, s.ID))
	case "sessions.update":
		return object(c.Sessions.Update(ctx, s.ID, sessionUpdate(s)))
	case "sessions.delete":
		return nil, c.Sessions.Delete(ctx, s.ID)
	case "sessions.list":
		return items(c.Sessions.List(ctx, listParams(s)).All(), s.Take)
	case "messages.send":
		return object(c.Messages.Send(ctx, s.SessionID, messageParams(s), s.options()...))
	case "messages.retrieve":
		return object(c.Messages.Retrieve(ctx, s.SessionID, s.ID))
	case "messages.cancel":
		return object(c.Messages.Cancel(ctx, s.SessionID, s.ID))
	case "messages.list":
		return items(c.Messages.List(ctx, s.SessionID, listParams(s)).All(), s.Take)
	case "files.upload":
		return d.upload(s)
	case "files.content":
		return d.content(s)
	case "files.retrieve":
		return object(c.Files.Retrieve(ctx, s.ID))
	case "files.delete":
		return nil, c.Files.Delete(ctx, s.ID)
	case "files.list":
		var of struct {
			SessionID string `json:"session_id"`
		}
		fill(s.Params, &of)
		params := tollgate.FileListParams{SessionID: of.SessionID, ListParams: listParams(s)}
		return items(c.Files.List(ctx, params).All(), s.Take)
	case "billing.balance":
		return object(c.Billing.Balance(ctx))
	case "billing.transactions":
		return items(c.Billing.Transactions(ctx, transactionParams(s)).All(), s.Take)
	case "billing.usage":
		return items(c.Billing.Usage(ctx, usageParams(s)).All(), s.Take)
	case "models.list":
		return items(c.Models.List(ctx).All(), s.Take)
	case "models.retrieve":
		return object(c.Models.Retrieve(ctx, s.ID))
	case "memory":
		return memory()
	}
	return d.stream(s)
}

func object[T raw](value T, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return shown(value), nil
}

func items[T raw](all iter.Seq2[T, error], take *int) (any, error) {
	found := []any{}
	if take != nil && *take == 0 {
		return found, nil
	}
	for item, err := range all {
		if err != nil {
			return nil, err
		}
		found = append(found, shown(item))
		if take != nil && len(found) == *take {
			break
		}
	}
	return found, nil
}

func (s step) options() []tollgate.CallOption {
	if s.IdempotencyKey == "" {
		return nil
	}
	return []tollgate.CallOption{tollgate.WithIdempotencyKey(s.IdempotencyKey)}
}

func chatParams(s step) (params tollgate.ChatParams) {
	params.Extra = fill(s.Body, &params)
	return params
}

func messageParams(s step) (params tollgate.MessageParams) {
	params.Extra = fill(s.Params, &params)
	if s.Content != nil {
		params.Content = s.Content
	}
	if s.Messages != nil {
		fail(json.Unmarshal(s.Messages, &params.Messages))
	}
	return params
}

func sessionUpdate(s step) (params tollgate.SessionUpdate) {
	params.Extra = fill(s.Params, &params)
	for name, value := range params.Extra {
		if text, ok := value.(json.RawMessage); ok && string(text) == "null" {
			delete(params.Extra, name)
			params.Clear = append(params.Clear, name)
		}
	}
	return params
}

func listParams(s step) (params tollgate.ListParams) {
	var told struct {
		Limit                int
		After, Before, Order string
	}
	if s.Params != nil {
		fail(json.Unmarshal(s.Params, &told))
	}
	return tollgate.ListParams{Limit: told.Limit, After: told.After, Before: told.Before, Order: told.Order}
}

type filters struct {
	From, To         int64
	Type, Model, Key string
	Reference        string
	Bucket           string
	GroupBy          string `json:"group_by"`
}

func filtersOf(s step) (told filters) {
	if s.Params != nil {
		fail(json.Unmarshal(s.Params, &told))
	}
	return told
}

func transactionParams(s step) tollgate.TransactionParams {
	told := filtersOf(s)
	return tollgate.TransactionParams{
		ListParams: listParams(s), From: timeOf(told.From), To: timeOf(told.To),
		Type: told.Type, Model: told.Model, KeyID: told.Key, Reference: told.Reference,
	}
}

func usageParams(s step) tollgate.UsageParams {
	told := filtersOf(s)
	return tollgate.UsageParams{
		From: timeOf(told.From), To: timeOf(told.To),
		Bucket: told.Bucket, GroupBy: told.GroupBy, Model: told.Model, KeyID: told.Key,
	}
}

func timeOf(seconds int64) time.Time { return tollgate.UnixTime(seconds).Time() }

func (d *driver) upload(s step) (any, error) {
	params := tollgate.UploadParams{
		SessionID: s.SessionID, Filename: s.Filename, ContentType: s.ContentType, SHA256: s.SHA256, Purpose: s.Purpose,
		ExpiresAfter: time.Duration(s.ExpiresAfter) * time.Second,
	}
	switch {
	case s.Path != nil:
		file, err := os.Open(*s.Path)
		fail(err)
		defer file.Close()
		params.File = file
	case s.Once != nil:
		params.File = io.MultiReader(strings.NewReader(*s.Once)) // can neither seek nor tell its length
	default:
		params.File = strings.NewReader(*s.Text)
	}
	progress := [][2]any{}
	params.OnProgress = func(sent, total int64) { progress = append(progress, reported(sent, total)) }
	file, err := d.client.Files.Upload(d.ctx, params)
	if err != nil {
		return nil, err
	}
	return map[string]any{"file": shown(file), "progress": progress}, nil
}

// reported is progress in the form that the runner expects.
func reported(at, total int64) [2]any {
	if total < 0 {
		return [2]any{at, nil}
	}
	return [2]any{at, total}
}

func (d *driver) content(s step) (any, error) {
	progress := [][2]any{}
	download, err := d.client.Files.Content(d.ctx, s.ID, tollgate.ContentParams{
		Start: s.Start, ETag: s.ETag, OnProgress: func(at, total int64) { progress = append(progress, reported(at, total)) },
	})
	if err != nil {
		return nil, err
	}
	defer download.Close()
	var from io.Reader = download
	if s.Take != nil {
		from = io.LimitReader(download, int64(*s.Take))
	}
	hash := sha256.New()
	bytes, err := io.Copy(hash, from)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"bytes": bytes, "sha256": hex.EncodeToString(hash.Sum(nil)), "content_type": download.ContentType,
		"filename": download.Filename, "progress": progress,
	}, nil
}

func memory() (any, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, err
	}
	size := func(name string) (bytes int64) {
		_, after, _ := strings.Cut(string(text), name+":")
		_, _ = fmt.Sscanf(after, "%d kB", &bytes)
		return bytes * 1024
	}
	return map[string]any{"rss": size("VmRSS"), "peak": size("VmHWM")}, nil
}

// Streams, read as a user reads them.

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"iter"

	tollgate "tollgate-gateway.example/clients/go"
)

type reading struct {
	Report     string `json:"report"`
	LeaveAfter *int   `json:"leave_after"`
	Final      bool   `json:"final"`
	During     []struct {
		After int  `json:"after"`
		Step  step `json:"step"`
	} `json:"during"`
}

type stream interface {
	All() iter.Seq2[tollgate.Chunk, error]
	Close() error
	PartialText() string
}

func (d *driver) stream(s step) (any, error) {
	switch s.Op {
	case "chat.stream":
		opened, err := d.client.Chat.Completions.Stream(d.ctx, chatParams(s), s.options()...)
		if err != nil {
			return nil, err
		}
		return d.read(s, opened, nil), nil
	case "messages.create":
		opened, err := d.client.Messages.Create(d.ctx, s.SessionID, messageParams(s), s.options()...)
		return d.readMessage(s, opened, err)
	case "messages.resume":
		opened, err := d.client.Messages.Resume(d.ctx, s.SessionID, s.ID, s.LastEventID)
		return d.readMessage(s, opened, err)
	case "messages.active":
		opened, isThere, err := d.client.Messages.Active(d.ctx, s.SessionID)
		if err == nil && !isThere {
			return nil, nil
		}
		return d.readMessage(s, opened, err)
	}
	return nil, fmt.Errorf("the driver does not know %q", s.Op)
}

func (d *driver) readMessage(s step, opened *tollgate.MessageStream, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return d.read(s, opened, opened), nil
}

// read is a user's loop. message is the stream, if it is a message's.
func (d *driver) read(s step, opened stream, message *tollgate.MessageStream) result {
	defer opened.Close()
	report := &report{kind: s.Report, all: []any{}, hash: sha256.New()}
	during := []result{}
	ended := d.loop(s, opened, report, func(inner step) {
		during = append(during, d.meanwhile(inner, opened, message))
	})
	said := result{"chunks": report.said(), "message_id": nil, "last_event_id": nil}
	if message != nil {
		said["message_id"], said["last_event_id"] = orNull(message.MessageID()), orNull(message.LastEventID())
	}
	if s.During != nil {
		said["during"] = during
	}
	if s.Final && message != nil {
		if final, err := message.FinalMessage(d.ctx); err != nil {
			said["final_error"] = d.described(err, nil)
		} else {
			said["final"] = shown(final)
		}
	}
	if ended == nil {
		return result{"ok": said}
	}
	partial := opened.PartialText()
	said["error"] = d.described(ended, &partial)
	return said
}

func (d *driver) loop(s step, opened stream, report *report, meanwhile func(step)) error {
	if s.LeaveAfter != nil && *s.LeaveAfter == 0 {
		return nil
	}
	count := 0
	for chunk, err := range opened.All() {
		if err != nil {
			return err
		}
		report.add(chunk)
		count++
		for _, inner := range s.During {
			if inner.After == count {
				meanwhile(inner.Step)
			}
		}
		if s.LeaveAfter != nil && count == *s.LeaveAfter {
			break
		}
	}
	return nil
}

func (d *driver) meanwhile(inner step, opened stream, message *tollgate.MessageStream) result {
	switch inner.Op {
	case "stream.close":
		_ = opened.Close()
		return result{"ok": nil}
	case "stream.cancel":
		cancelled, err := message.Cancel(d.ctx)
		if err != nil {
			return result{"error": d.described(err, nil)}
		}
		return result{"ok": shown(cancelled)}
	}
	return d.run(inner)
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

type report struct {
	kind  string
	all   []any
	count int
	bytes int
	hash  hash.Hash
}

func (r *report) add(chunk tollgate.Chunk) {
	text := chunk.Text()
	switch r.kind {
	case "texts":
		r.all = append(r.all, text)
	case "raw":
		r.all = append(r.all, json.RawMessage(chunk.RawJSON()))
	default:
		r.count++
		r.bytes += len(text)
		_, _ = r.hash.Write([]byte(text))
	}
}

func (r *report) said() any {
	if r.kind == "texts" || r.kind == "raw" {
		return r.all
	}
	return result{"count": r.count, "bytes": r.bytes, "sha256": hex.EncodeToString(r.hash.Sum(nil))}
}

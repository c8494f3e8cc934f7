// Lists: pages that are fetched when they are reached, and not before.

package tollgate

import (
	"context"
	"encoding/json"
	"iter"
	"maps"
	"net/url"
	"strconv"
)

// ListParams choose what a list gives, and in which order. All fields may be left out.
type ListParams struct {
	Limit  int    // items a page, 1 to 100; the server's default is 20
	After  string // begin after this id
	Before string // begin before this id, going backwards; not together with After
	Order  string // "asc" or "desc" by creation; each list has its default
}

func (p ListParams) query() url.Values {
	query := url.Values{}
	set(query, "after", p.After)
	set(query, "before", p.Before)
	set(query, "order", p.Order)
	if p.Limit != 0 {
		query.Set("limit", strconv.Itoa(p.Limit))
	}
	return query
}

func set(query url.Values, name, value string) {
	if value != "" {
		query.Set(name, value)
	}
}

// Page is one page of a list.
type Page[T any] struct {
	object
	Data    []T    `json:"data"`
	FirstID string `json:"first_id"` // where Data begins; with ListParams.Before it gives the page before
	LastID  string `json:"last_id"`  // where Data ends; with ListParams.After it gives the page after
	HasMore bool   `json:"has_more"` // also where Data is empty
}

// String is the JSON that came, on one line.
func (p Page[T]) String() string { return shown(p.object, p) }

// List is a list that has not been requested yet. Each use of it sends new requests.
type List[T any] struct {
	core    *core
	ctx     context.Context
	request request // for the first page
}

func newList[T any](ctx context.Context, core *core, r *request, query url.Values) *List[T] {
	r.query = query
	return &List[T]{core: core, ctx: ctx, request: *r}
}

// All gives the items of all pages, for range. A page is fetched when its first item is reached. After an error there is
// no further item.
func (l *List[T]) All() iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for page, err := range l.Pages() {
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range page.Data {
				if !yield(item, nil) {
					return
				}
			}
		}
	}
}

// Pages gives the pages, for range. After an error there is no further page.
func (l *List[T]) Pages() iter.Seq2[*Page[T], error] {
	return func(yield func(*Page[T], error) bool) {
		query := url.Values{}
		maps.Copy(query, l.request.query)
		direction := "after"
		if query.Has("before") {
			direction = "before"
		}
		for {
			page, err := l.fetch(query)
			if err != nil {
				yield(nil, err)
				return
			}
			next := page.LastID
			if direction == "before" {
				next = page.FirstID
			}
			if !yield(page, nil) || !page.HasMore {
				return
			}
			// A list must not be silently incomplete, and a server that repeats a page must not be asked for ever.
			if next == "" || next == query.Get(direction) {
				yield(nil, &Error{Message: "the list has more, and does not say where it goes on"})
				return
			}
			query.Set(direction, next)
		}
	}
}

// First fetches the first page alone.
func (l *List[T]) First() (*Page[T], error) { return l.fetch(l.request.query) }

func (l *List[T]) fetch(query url.Values) (*Page[T], error) {
	r := l.request
	r.query = query
	came, err := fetch[struct {
		Page[T]
		Data []json.RawMessage `json:"data"` // otherwise the items would not keep their raw JSON
	}](l.ctx, l.core, &r)
	if err != nil {
		return nil, err
	}
	page := &came.Page
	page.Data = make([]T, len(came.Data))
	for i, item := range came.Data {
		if err := decode(item, &page.Data[i]); err != nil {
			return nil, &Error{Message: "an item of the list is not the API's: " + err.Error(), Err: err}
		}
	}
	return page, nil
}

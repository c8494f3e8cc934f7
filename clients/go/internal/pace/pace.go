// Package pace is how the client waits between attempts. The conformance driver puts a recording function into the
// context, so that no public option is needed for it; all other contexts have none, and the wait is real.
package pace

import (
	"context"
	"time"
)

type key struct{}

// Func waits for d, or until ctx is done.
type Func func(ctx context.Context, d time.Duration) error

// With makes calls under the context wait by wait instead.
func With(ctx context.Context, wait Func) context.Context {
	return context.WithValue(ctx, key{}, wait)
}

// Sleep waits for d; the error is the context's cause.
func Sleep(ctx context.Context, d time.Duration) error {
	if wait, ok := ctx.Value(key{}).(Func); ok {
		return wait(ctx, d)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

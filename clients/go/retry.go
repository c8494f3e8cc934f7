// Whether and when an attempt is made again, for a call and for an answer that broke off.

package tollgate

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"tollgate-gateway.example/clients/go/internal/pace"
)

const (
	longestWait = 60 * time.Second
	mostResumes = 5
)

// isPassing reports whether the same request may succeed later. said is X-Should-Retry.
func (e *APIError) isPassing(said string, generates bool) bool {
	switch said {
	case "true":
		return true
	case "false":
		return false
	}
	switch e.Status {
	case http.StatusGatewayTimeout:
		return !generates // the backend may have generated meanwhile: another attempt would be charged, too
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return true
	case http.StatusConflict:
		return e.Code == "idempotency_in_progress"
	}
	return e.Status >= 500
}

// mayRepeat reports whether a call that ended so can be sent again. If each arrival is charged, it can't, unless it
// certainly did not arrive.
func mayRepeat(err error, paidEachTime bool) bool {
	var refusal *APIError
	if errors.As(err, &refusal) {
		return refusal.passing
	}
	var failure *ConnectionError
	if errors.As(err, &failure) {
		return failure.headless && (failure.unmade || !paidEachTime)
	}
	return false
}

// resume makes attempts to continue an answer that broke off; tries counts them since the last progress.
func (c *core) resume(ctx context.Context, r *request, tries *int, cause error) (*answer, error) {
	s := c.settings.with(r.options)
	for *tries < mostResumes {
		if err := pause(ctx, cause, *tries); err != nil {
			return nil, err
		}
		*tries++
		a, err := c.attempt(ctx, r, s)
		if err == nil || !mayRepeat(err, false) {
			return a, err
		}
		cause = err
	}
	return nil, &IncompleteStreamError{Message: "it broke off, and could not be resumed", Err: cause}
}

// pause waits before attempt n+1: as long as the server says, else longer each time, with a random part, so that clients
// that were refused together do not come back together.
func pause(ctx context.Context, err error, n int) error {
	wait := time.Duration(rand.Float64() * float64(min(8*time.Second, 500*time.Millisecond<<min(n, 8))))
	var refusal *APIError
	if errors.As(err, &refusal) && refusal.HasRetry {
		wait = min(refusal.RetryAfter, longestWait)
	}
	if pace.Sleep(ctx, wait) != nil {
		return ended(ctx)
	}
	return nil
}

// retryAfter reads when to come back; a value that is invalid or in the past counts as absent.
func retryAfter(head http.Header) (time.Duration, bool) {
	if wait, ok := decimal(head.Get("Retry-After-Ms"), time.Millisecond); ok {
		return wait, true
	}
	text := head.Get("Retry-After")
	if wait, ok := decimal(text, time.Second); ok {
		return wait, true
	}
	if date, err := http.ParseTime(text); err == nil {
		wait := time.Until(date)
		return wait, wait > 0
	}
	return 0, false
}

// decimal reads digits, with or without a fraction, but not the exponents, signs and names that strconv accepts.
func decimal(text string, unit time.Duration) (time.Duration, bool) {
	if strings.Trim(text, "0123456789.") != "" {
		return 0, false
	}
	number, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, false
	}
	const year = float64(365 * 24 * time.Hour)
	return time.Duration(min(number*float64(unit), year)), true
}

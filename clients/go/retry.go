// Whether an attempt is made again, and when; of a call, and of an answer that broke off.

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

// isPassing reports whether the same request may be answered otherwise later. said is X-Should-Retry.
func (e *APIError) isPassing(said string, generates bool) bool {
	switch said {
	case "true":
		return true
	case "false":
		return false
	}
	switch e.Status {
	case http.StatusGatewayTimeout:
		return !generates // the backend may have, all the while: another attempt would be paid for, too
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return true
	case http.StatusConflict:
		return e.Code == "idempotency_in_progress"
	}
	return e.Status >= 500
}

// mayRepeat reports whether a call that ended so can be sent again. What is paid for each time it arrives is not, unless
// it certainly did not.
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

// resume makes attempts to go on with an answer that broke off; tries counts those since it last came on.
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

// pause waits before attempt n+1: as long as the server says, else longer each time, by chance, so that clients that were
// refused together do not come back together.
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

// retryAfter reads when to come back; what makes no sense, or lies in the past, is as if absent.
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

// decimal reads digits, with a fraction or without: none of the exponents, signs and names that strconv takes too.
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

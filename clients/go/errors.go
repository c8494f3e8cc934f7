// The errors a caller can meet: four types, and a sentinel for each family. They hold no request and no key, and an
// answer that repeats the key is shown without it.

package tollgate

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Families of errors, for [errors.Is]. An [*APIError] is ErrAPI and, if it is of a family, one of those from
// ErrAuthentication to ErrServer: by its status or, within a stream, by its type. Every error of this package is
// ErrTollgate, but for those of a context that is done.
var (
	ErrTollgate            = errors.New("tollgate: TollgateError")            // any error of this package
	ErrAPI                 = errors.New("tollgate: APIError")                 // any answer that is an error
	ErrAuthentication      = errors.New("tollgate: AuthenticationError")      // 401: no key, or not a valid one
	ErrInsufficientBalance = errors.New("tollgate: InsufficientBalanceError") // 402: top up the account
	ErrPermissionDenied    = errors.New("tollgate: PermissionDeniedError")    // 403: the key or account may not do this
	ErrNotFound            = errors.New("tollgate: NotFoundError")            // 404, 410: does not exist, or no longer
	ErrConflict            = errors.New("tollgate: ConflictError")            // 409: session_busy and the like
	ErrRateLimit           = errors.New("tollgate: RateLimitError")           // 429: see APIError.RetryAfter
	ErrBadRequest          = errors.New("tollgate: BadRequestError")          // any other 4xx: the request has to change
	ErrServer              = errors.New("tollgate: ServerError")              // 5xx: the same call may succeed later
	ErrConnection          = errors.New("tollgate: ConnectionError")          // no answer, or an incomplete one
	ErrTimeout             = errors.New("tollgate: TimeoutError")             // an ErrConnection: this client's own time-outs
	ErrIncompleteStream    = errors.New("tollgate: IncompleteStreamError")    // a stream or a download that broke off before its end
)

// APIError is an answer of the server that is an error, or the error that ended a stream.
type APIError struct {
	Status      int           // HTTP status; 0 for an error within a stream
	Code        string        // what to switch on, such as "insufficient_balance"; may be empty
	Type        string        // family of codes, such as "billing_error"; may be empty
	Param       string        // the field at fault; may be empty
	Message     string        // for people; may change
	RequestID   string        // finds the request in the gateway's log; may be empty
	RetryAfter  time.Duration // when to try again, as the server says; meaningful where HasRetry
	HasRetry    bool          // whether the server said when to try again
	PartialText string        // text that a stream gave before the error, at most 8 MiB

	family  error
	passing bool // whether another attempt may succeed
}

// Error is "tollgate: 402 insufficient_balance: The balance … (request req_…)": apart from the first word, the same in
// all of our clients.
func (e *APIError) Error() string {
	var facts []string
	if e.Status != 0 {
		facts = append(facts, strconv.Itoa(e.Status))
	}
	if code := cmp.Or(e.Code, e.Type); code != "" {
		facts = append(facts, code)
	}
	text := "tollgate: "
	if len(facts) > 0 {
		text += strings.Join(facts, " ") + ": "
	}
	text += e.Message
	if e.RequestID != "" {
		text += " (request " + e.RequestID + ")"
	}
	return text
}

// Is reports whether target is ErrTollgate, ErrAPI, or the error's family.
func (e *APIError) Is(target error) bool {
	return target == ErrTollgate || target == ErrAPI || target == e.family
}

// ConnectionError is a call that got no answer, or whose answer broke off. If it is [ErrTimeout], this client gave up
// waiting.
type ConnectionError struct {
	Message string
	Err     error // the transport's error; may be nil

	timeout  bool
	unmade   bool // the connection was never made: nothing can have arrived
	headless bool // no answer's head was seen
}

func (e *ConnectionError) Error() string { return "tollgate: " + e.Message }

// Unwrap gives the transport's error.
func (e *ConnectionError) Unwrap() error { return e.Err }

// Timeout reports whether it was a time-out; with it, net.Error's users know it.
func (e *ConnectionError) Timeout() bool { return e.timeout }

// Is reports whether target is ErrTollgate, ErrConnection or, after a time-out, ErrTimeout.
func (e *ConnectionError) Is(target error) bool {
	return target == ErrTollgate || target == ErrConnection || e.timeout && target == ErrTimeout
}

// IncompleteStreamError is a stream that broke off and could not be resumed, or a download that could not be
// continued. What arrived is valid, but not complete.
type IncompleteStreamError struct {
	Message     string
	PartialText string // text that came, at most 8 MiB; empty for downloads
	Err         error  // the last error; may be nil
}

func (e *IncompleteStreamError) Error() string {
	if e.Err == nil {
		return "tollgate: " + e.Message
	}
	return "tollgate: " + e.Message + ": " + e.Err.Error()
}

// Unwrap gives the last error, such as a [*ConnectionError].
func (e *IncompleteStreamError) Unwrap() error { return e.Err }

// Is reports whether target is ErrTollgate or ErrIncompleteStream.
func (e *IncompleteStreamError) Is(target error) bool {
	return target == ErrTollgate || target == ErrIncompleteStream
}

// Error is everything else: no API key, a parameter that can't be sent, an answer that is not this API's.
type Error struct {
	Message     string
	PartialText string // text that a stream gave before; may be empty
	Err         error  // may be nil
}

func (e *Error) Error() string { return "tollgate: " + e.Message }

// Unwrap gives the cause, if there is one.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is ErrTollgate.
func (e *Error) Is(target error) bool { return target == ErrTollgate }

func familyOfStatus(status int) error {
	switch status {
	case http.StatusUnauthorized:
		return ErrAuthentication
	case http.StatusPaymentRequired:
		return ErrInsufficientBalance
	case http.StatusForbidden:
		return ErrPermissionDenied
	case http.StatusNotFound, http.StatusGone:
		return ErrNotFound
	case http.StatusConflict:
		return ErrConflict
	case http.StatusTooManyRequests:
		return ErrRateLimit
	}
	switch {
	case status >= 500 && status < 600:
		return ErrServer
	case status >= 400 && status < 500:
		return ErrBadRequest
	}
	return ErrAPI
}

var familyOfType = map[string]error{
	"authentication_error":  ErrAuthentication,
	"billing_error":         ErrInsufficientBalance,
	"permission_error":      ErrPermissionDenied,
	"not_found_error":       ErrNotFound,
	"gone_error":            ErrNotFound,
	"conflict_error":        ErrConflict,
	"rate_limit_error":      ErrRateLimit,
	"invalid_request_error": ErrBadRequest,
	"request_too_large":     ErrBadRequest,
	"server_error":          ErrServer,
	"upstream_error":        ErrServer,
	"overloaded_error":      ErrServer,
	"timeout_error":         ErrServer,
}

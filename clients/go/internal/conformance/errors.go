// Errors as the conformance rules name them.

package main

import (
	"errors"

	tollgate "tollgate-gateway.example/clients/go"
)

// The most specific first.
var classes = []struct {
	is   error
	name string
}{
	{tollgate.ErrAuthentication, "AuthenticationError"},
	{tollgate.ErrInsufficientBalance, "InsufficientBalanceError"},
	{tollgate.ErrPermissionDenied, "PermissionDeniedError"},
	{tollgate.ErrNotFound, "NotFoundError"},
	{tollgate.ErrConflict, "ConflictError"},
	{tollgate.ErrRateLimit, "RateLimitError"},
	{tollgate.ErrBadRequest, "BadRequestError"},
	{tollgate.ErrServer, "ServerError"},
	{tollgate.ErrAPI, "APIError"},
	{tollgate.ErrTimeout, "TimeoutError"},
	{tollgate.ErrConnection, "ConnectionError"},
	{tollgate.ErrTollgate, "TollgateError"},
}

// described is what an error tells; partial is the text of the stream that it ended.
func (d *driver) described(err error, partial *string) result {
	d.show(err)
	said := result{"class": "another", "message": err.Error(), "text": err.Error()}
	for _, class := range classes {
		if errors.Is(err, class.is) {
			said["class"] = class.name
			break
		}
	}
	var api *tollgate.APIError
	var incomplete *tollgate.IncompleteStreamError
	var other *tollgate.Error
	switch {
	case errors.As(err, &incomplete): // checked before the error that it wraps
		said["class"] = "IncompleteStreamError"
		said["message"], said["partial_text"] = incomplete.Message, incomplete.PartialText
	case errors.As(err, &api):
		said["message"], said["partial_text"] = api.Message, api.PartialText
		said["code"], said["type"], said["param"] = api.Code, api.Type, api.Param
		said["request_id"], said["status"] = api.RequestID, api.Status
		if api.HasRetry {
			said["retry_after"] = api.RetryAfter.Seconds()
		}
	case errors.As(err, &other):
		said["message"], said["partial_text"] = other.Message, other.PartialText
	}
	for name, value := range said {
		if value == "" || value == 0 {
			said[name] = nil
		}
	}
	if partial == nil {
		delete(said, "partial_text")
	} else if said["partial_text"] == nil {
		said["partial_text"] = ""
	}
	return said
}

// Package tollgate is a client of the Tollgate chat gateway: chat completions, chat sessions whose answers survive a cut
// connection, files, and what was spent. It needs the standard library alone.
//
//	client, err := tollgate.NewClient() // TOLLGATE_API_KEY, TOLLGATE_BASE_URL
//	session, err := client.Sessions.Create(ctx, tollgate.SessionParams{Title: "Demo"})
//	stream, err := client.Messages.Create(ctx, session.ID, tollgate.Text("Hi"))
//	defer stream.Close()
//	for chunk, err := range stream.All() {
//		fmt.Print(chunk.Text())
//	}
//
// # Contexts and time-outs
//
// The context of a call limits the whole of it, a stream's or a download's until it is closed. In addition, a call ends
// when connecting takes 10 s or when no byte comes for 60 s (see [WithConnectTimeout], [WithIdleTimeout],
// [WithAnswerTimeout]); nothing limits how long a stream may last. The package starts no goroutine that outlives a call,
// but for a read of an upload's source that never returns.
//
// # Retries
//
// A call is tried up to two times more (see [WithMaxRetries]) after 408, 429, 5xx, 409 idempotency_in_progress and a
// failed connection, always with the same Idempotency-Key. What must not be repeated is not: a chat completion whose
// request may have arrived, and an upload whose source can't be read twice.
//
// # Errors
//
// [errors.As] with [*APIError], [*ConnectionError], [*IncompleteStreamError] or [*Error] tells what is known of an error,
// [errors.Is] with [ErrRateLimit], [ErrInsufficientBalance] and the like what kind it is. A cancelled context is its own
// error: errors.Is(err, context.Canceled).
//
// # Unknown fields
//
// Fields that this version does not know are kept: each object has RawJSON. Parameters that it does not know go into
// Extra.
package tollgate

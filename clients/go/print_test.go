// What a caller sees who prints a value: words and names, not bytes as numbers, nor pointers, nor the key.

package tollgate_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	tollgate "tollgate-gateway.example/clients/go"
)

const printed = `{"id":"x_1","object":"o","content":"Good\nmorning","title":"T","metadata":{"a":"b"},"cost":17,` +
	`"usage":{"prompt_tokens":3,"completion_tokens":7,"total_tokens":10},"choices":[],"data":[],"new_field":[1]}`

// formats are those that callers use most.
var formats = []string{"%v", "%+v", "%s"}

func TestWhatCameIsPrintedAsItCame(t *testing.T) {
	client := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, strings.ReplaceAll(printed, ",", ",\n  "))
	})
	ctx := context.Background()
	came := map[string]any{}
	add := func(name string, value any, err error) {
		if err != nil {
			t.Fatal(name, err)
		}
		came[name] = value
	}
	message, err := client.Messages.Retrieve(ctx, "s", "m")
	add("*Message", message, err)
	add("Message", *message, err)
	session, err := client.Sessions.Retrieve(ctx, "s")
	add("*Session", session, err)
	file, err := client.Files.Retrieve(ctx, "f")
	add("*File", file, err)
	balance, err := client.Billing.Balance(ctx)
	add("*Balance", balance, err)
	model, err := client.Models.Retrieve(ctx, "m")
	add("*Model", model, err)
	completion, err := client.Chat.Completions.Create(ctx, tollgate.ChatParams{})
	add("*ChatCompletion", completion, err)
	page, err := client.Billing.Transactions(ctx, tollgate.TransactionParams{}).First()
	add("*Page", page, err)
	for name, value := range came {
		for _, format := range formats {
			if text := fmt.Sprintf(format, value); text != printed {
				t.Errorf("%s of a %s: %s", format, name, text)
			}
		}
	}
}

func TestItemsAndChunksArePrintedAsTheyCame(t *testing.T) {
	client := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: %s\n\ndata: [DONE]\n\n", printed)
			return
		}
		fmt.Fprintf(w, `{"data":[%s],"has_more":false}`, printed)
	})
	ctx := context.Background()
	check := func(value any, err error) {
		t.Helper()
		for _, format := range formats {
			if text := fmt.Sprintf(format, value); err != nil || text != printed {
				t.Errorf("%s of a %T: %s, %v", format, value, text, err)
			}
		}
	}
	for transaction, err := range client.Billing.Transactions(ctx, tollgate.TransactionParams{}).All() {
		check(transaction, err)
	}
	for bucket, err := range client.Billing.Usage(ctx, tollgate.UsageParams{}).All() {
		check(bucket, err)
	}
	stream, err := client.Chat.Completions.Stream(ctx, tollgate.ChatParams{})
	if err != nil {
		t.Fatal(err)
	}
	for chunk, err := range stream.All() {
		check(chunk, err)
	}
}

func TestWhatWasMadeHereIsPrintedByItsFields(t *testing.T) {
	cost := int64(17)
	message := tollgate.Message{ID: "msg_1", Content: tollgate.Content{Text: "Hello"}, Cost: &cost}
	text := fmt.Sprintf("%+v", message)
	for _, part := range []string{`"id":"msg_1"`, `"content":"Hello"`, `"cost":17`} {
		if !strings.Contains(text, part) {
			t.Errorf("%s is not in %s", part, text)
		}
	}
	usage := fmt.Sprintf("%v", &tollgate.Usage{PromptTokens: 3})
	if !strings.Contains(usage, `"prompt_tokens":3`) {
		t.Error(usage)
	}
}

func TestNothingThatIsPrintedHasTheKey(t *testing.T) {
	client := clientOf(t, func(w http.ResponseWriter, r *http.Request) { startStream(w, 1) })
	stream, err := client.Messages.Create(context.Background(), "s", tollgate.Text("Hi"))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	list := client.Sessions.List(context.Background(), tollgate.ListParams{})
	for _, value := range []any{client, *client, client.Files, stream, list} {
		for _, format := range append(formats, "%#v") {
			if text := fmt.Sprintf(format, value); strings.Contains(text, key) {
				t.Errorf("%s of a %T: %s", format, value, text)
			}
		}
	}
}

// Examples of the documentation. They are compiled, not run: the README's are run against a gateway.

package tollgate_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	tollgate "tollgate-gateway.example/clients/go"
)

func ExampleNewClient() {
	client, err := tollgate.NewClient(
		tollgate.WithBaseURL("https://gate.example.com/v1"),
		tollgate.WithIdleTimeout(2*time.Minute),
	)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(client)
}

func ExampleMessagesService_Create() {
	client, ctx := exampleClient()
	stream, err := client.Messages.Create(ctx, "sess_…", tollgate.Text("Hi"))
	if err != nil {
		log.Fatal(err)
	}
	defer stream.Close()
	for chunk, err := range stream.All() {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(chunk.Text())
	}
}

func ExampleChatCompletionsService_Create() {
	client, ctx := exampleClient()
	completion, err := client.Chat.Completions.Create(ctx, tollgate.ChatParams{
		Model:    "demo",
		Messages: []tollgate.ChatMessage{tollgate.UserMessage("Hi")},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(completion.Text())
}

func ExampleFilesService_Upload() {
	client, ctx := exampleClient()
	source, err := os.Open("report.pdf")
	if err != nil {
		log.Fatal(err)
	}
	defer source.Close()
	file, err := client.Files.Upload(ctx, tollgate.UploadParams{File: source, SessionID: "sess_…"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(file.ID, file.SHA256)
}

func ExampleList_All() {
	client, ctx := exampleClient()
	for session, err := range client.Sessions.List(ctx, tollgate.ListParams{Limit: 100}).All() {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(session.CreatedAt.Time(), session.Title)
	}
}

func ExampleAPIError() {
	client, ctx := exampleClient()
	_, err := client.Messages.Send(ctx, "sess_…", tollgate.Text("Hi"))
	var refusal *tollgate.APIError
	switch {
	case errors.Is(err, tollgate.ErrInsufficientBalance):
		fmt.Println("top up first")
	case errors.As(err, &refusal):
		fmt.Println(refusal.Status, refusal.Code, refusal.RequestID)
	}
}

func exampleClient() (*tollgate.Client, context.Context) {
	client, err := tollgate.NewClient()
	if err != nil {
		log.Fatal(err)
	}
	return client, context.Background()
}

// Chat asks the model one question, without a session, and prints the answer as it comes.
//
//	TOLLGATE_API_KEY=… TOLLGATE_BASE_URL=… go run ./examples/chat Why is the sky blue?
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"

	tollgate "tollgate-gateway.example/clients/go"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt) // Ctrl-C ends the generation
	defer stop()
	if err := ask(ctx, strings.Join(os.Args[1:], " ")); err != nil {
		log.Fatal(err)
	}
}

func ask(ctx context.Context, question string) error {
	client, err := tollgate.NewClient()
	if err != nil {
		return err
	}
	if question == "" {
		question = "Say hello."
	}
	stream, err := client.Chat.Completions.Stream(ctx, tollgate.ChatParams{
		Model:    "demo",
		Messages: []tollgate.ChatMessage{tollgate.SystemMessage("Be brief."), tollgate.UserMessage(question)},
	})
	if err != nil {
		return err
	}
	defer stream.Close()
	for chunk, err := range stream.All() {
		if err != nil {
			return err
		}
		fmt.Print(chunk.Text())
	}
	fmt.Println()
	return nil
}

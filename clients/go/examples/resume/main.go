// Resume leaves an answer in the middle and continues with what another process would know: three texts.
package main

import (
	"context"
	"fmt"
	"log"

	tollgate "tollgate-gateway.example/clients/go"
)

// place is where a reader was. It fits into a cookie, or a row of a database.
type place struct{ sessionID, messageID, lastEventID string }

func main() {
	client, err := tollgate.NewClient()
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	where, err := begin(ctx, client)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("\n-- left at %s, and on --\n", where.lastEventID)
	if err := goOn(ctx, client, where); err != nil {
		log.Fatal(err)
	}
}

func begin(ctx context.Context, client *tollgate.Client) (where place, err error) {
	session, err := client.Sessions.Create(ctx, tollgate.SessionParams{})
	if err != nil {
		return where, err
	}
	stream, err := client.Messages.Create(ctx, session.ID, tollgate.Text("Tell me a story."))
	if err != nil {
		return where, err
	}
	defer stream.Close()
	for chunk, err := range stream.All() {
		if err != nil {
			return where, err
		}
		fmt.Print(chunk.Text())
		if chunk.Text() != "" {
			break
		}
	}
	return place{session.ID, stream.MessageID(), stream.LastEventID()}, nil
}

func goOn(ctx context.Context, client *tollgate.Client, where place) error {
	stream, err := client.Messages.Resume(ctx, where.sessionID, where.messageID, where.lastEventID)
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
	message, err := stream.FinalMessage(ctx)
	if err != nil {
		return err
	}
	fmt.Println("\n--", message.Status)
	return nil
}

// Conversation says two things in one session, and prints what each answer cost.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	tollgate "tollgate-gateway.example/clients/go"
)

func main() {
	if err := talk(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func talk(ctx context.Context) error {
	client, err := tollgate.NewClient()
	if err != nil {
		return err
	}
	session, err := client.Sessions.Create(ctx, tollgate.SessionParams{Instructions: "You are a gatekeeper."})
	if err != nil {
		return err
	}
	for _, text := range []string{"May I pass?", "And my friend?"} {
		message, err := client.Messages.Send(ctx, session.ID, tollgate.Text(text))
		if errors.Is(err, tollgate.ErrInsufficientBalance) {
			return errors.New("the account has to be topped up first")
		}
		if err != nil {
			return err
		}
		fmt.Printf("> %s\n%s\n", text, message.Content)
		if message.Cost != nil {
			fmt.Printf("(%d tokens of the balance)\n", *message.Cost)
		}
	}
	return client.Sessions.Delete(ctx, session.ID)
}

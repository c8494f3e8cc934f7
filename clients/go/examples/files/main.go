// Files uploads a file, go.mod if none is named, and downloads it again.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	tollgate "tollgate-gateway.example/clients/go"
)

func main() {
	path := "go.mod"
	if len(os.Args) > 1 {
		path = os.Args[1]
	}
	if err := roundTrip(context.Background(), path); err != nil {
		log.Fatal(err)
	}
}

func roundTrip(ctx context.Context, path string) error {
	client, err := tollgate.NewClient()
	if err != nil {
		return err
	}
	session, err := client.Sessions.Create(ctx, tollgate.SessionParams{})
	if err != nil {
		return err
	}
	source, err := os.Open(path)
	if err != nil {
		return err
	}
	defer source.Close()
	file, err := client.Files.Upload(ctx, tollgate.UploadParams{
		File: source, SessionID: session.ID,
		OnProgress: func(sent, total int64) { fmt.Printf("\r%d of %d bytes", sent, total) },
	})
	if err != nil {
		return err
	}
	fmt.Printf("\n%s is %s, %s\n", file.Filename, file.ID, file.ContentType)
	download, err := client.Files.Content(ctx, file.ID, tollgate.ContentParams{})
	if err != nil {
		return err
	}
	defer download.Close()
	count, err := io.Copy(io.Discard, download)
	fmt.Printf("%d bytes came back\n", count)
	return err
}

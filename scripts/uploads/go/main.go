// Uploads a file and downloads it again with Go's standard library: the form is written through a pipe while it is
// sent, and the hash, known only then, behind the file. Prints what it saw as JSON.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"log"
	"mime/multipart"
	"net/http"
	"os"
)

type ask struct {
	URL, Key, Session, Path, Name, Sha256, Range string
}

type came struct {
	Status       int             `json:"status"`
	Answer       json.RawMessage `json:"answer"`
	Whole        *string         `json:"whole"`
	Part         *string         `json:"part"`
	PartStatus   *int            `json:"partStatus"`
	ContentRange *string         `json:"contentRange"`
}

func main() {
	var a ask
	must(json.Unmarshal([]byte(os.Args[1]), &a))
	reader, writer := io.Pipe()
	form := multipart.NewWriter(writer)
	go func() { writer.CloseWithError(write(form, a)) }()
	request, err := http.NewRequest("POST", a.URL+"/api/files/upload", reader)
	must(err)
	request.Header.Set("Content-Type", form.FormDataContentType())
	sent := do(request, a)
	seen := came{Status: sent.StatusCode, Answer: read(sent)}
	if sent.StatusCode == http.StatusCreated {
		url := a.URL + sent.Header.Get("Location")
		_, seen.Whole = download(url, "", a)
		part, sum := download(url, a.Range, a)
		seen.Part, seen.PartStatus = sum, &part.StatusCode
		if value := part.Header.Get("Content-Range"); value != "" {
			seen.ContentRange = &value
		}
	}
	must(json.NewEncoder(os.Stdout).Encode(seen))
}

func write(form *multipart.Writer, a ask) error {
	if err := form.WriteField("session_id", a.Session); err != nil {
		return err
	}
	part, err := form.CreateFormFile("file", a.Name)
	if err != nil {
		return err
	}
	content, err := os.Open(a.Path)
	if err != nil {
		return err
	}
	defer content.Close()
	if _, err := io.Copy(part, content); err != nil {
		return err
	}
	if err := form.WriteField("sha256", a.Sha256); err != nil {
		return err
	}
	return form.Close()
}

func download(url, span string, a ask) (*http.Response, *string) {
	request, err := http.NewRequest("GET", url, nil)
	must(err)
	if span != "" {
		request.Header.Set("Range", span)
	}
	answer := do(request, a)
	sum := sha256.Sum256(read(answer))
	text := hex.EncodeToString(sum[:])
	return answer, &text
}

func do(request *http.Request, a ask) *http.Response {
	request.Header.Set("Authorization", "Bearer "+a.Key)
	answer, err := http.DefaultClient.Do(request)
	must(err)
	return answer
}

func read(answer *http.Response) []byte {
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	must(err)
	return body
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

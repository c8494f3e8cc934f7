// The client: where the gateway is, and the key. Promises that no format shows the key and that the key goes only to the base
// URL's own origin. Sends nothing by itself: call.go does.

package tollgate

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// Version of this package, as in its User-Agent.
const Version = "0.1.0"

// Client talks to one gateway with one key. It is safe for concurrent use; make one and keep it.
type Client struct {
	Chat     *ChatService     // stateless chat completions
	Sessions *SessionsService // conversations that the gateway keeps
	Messages *MessagesService // the messages of a session
	Files    *FilesService    // files of a session
	Billing  *BillingService  // balance, transactions, usage
	Models   *ModelsService   // models that the key may use

	core *core
}

// core is what all services share. The settings (their headers may be secrets) are behind a pointer, and the key is inside
// a function, because package fmt prints neither.
type core struct {
	http     *http.Client
	base     *url.URL // without /v1 and without a slash at its end
	settings *settings
	bearer   func() string
	redact   func(string) string
}

// NewClient makes a client. Without options it takes TOLLGATE_API_KEY and TOLLGATE_BASE_URL from the environment. Nothing
// is sent yet. The error is an [*Error]: there is no key, or the base URL is not valid.
func NewClient(options ...ClientOption) (*Client, error) {
	c := config{
		apiKey:  os.Getenv("TOLLGATE_API_KEY"),
		baseURL: os.Getenv("TOLLGATE_BASE_URL"),
		settings: settings{
			maxRetries: 2,
			connect:    10 * time.Second,
			idle:       60 * time.Second,
			answer:     600 * time.Second,
		},
	}
	for _, option := range options {
		if option != nil {
			option.client(&c)
		}
	}
	key := strings.TrimSpace(c.apiKey)
	if key == "" {
		return nil, &Error{Message: "no API key: use WithAPIKey, or set TOLLGATE_API_KEY"}
	}
	if !isVisible(key) {
		return nil, &Error{Message: "the API key has characters that no key has"}
	}
	base, err := parseBase(c.baseURL)
	if err != nil {
		return nil, err
	}
	return newClient(&core{
		http:     httpClient(c.httpClient),
		base:     base,
		settings: &c.settings,
		bearer:   func() string { return "Bearer " + key },
		redact:   func(text string) string { return strings.ReplaceAll(text, key, "[API key]") },
	}), nil
}

func newClient(core *core) *Client {
	return &Client{
		Chat:     &ChatService{Completions: &ChatCompletionsService{core}},
		Sessions: &SessionsService{core},
		Messages: &MessagesService{core},
		Files:    &FilesService{core},
		Billing:  &BillingService{core},
		Models:   &ModelsService{core},
		core:     core,
	}
}

// String shows where the client sends to, and not the key.
func (c Client) String() string {
	if c.core == nil {
		return "tollgate.Client{}"
	}
	return fmt.Sprintf("tollgate.Client{%s/v1}", c.core.base)
}

// GoString is String, for %#v.
func (c Client) GoString() string { return c.String() }

// CloseIdleConnections closes connections that no call uses now. A client needs no closing: idle ones end by themselves.
func (c *Client) CloseIdleConnections() { c.core.http.CloseIdleConnections() }

// isVisible reports whether a header can carry the text unchanged.
func isVisible(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

func parseBase(text string) (*url.URL, error) {
	if text = strings.TrimSpace(text); text == "" {
		return nil, &Error{Message: "no base URL: use WithBaseURL, or set TOLLGATE_BASE_URL"}
	}
	base, err := url.Parse(text)
	if err != nil {
		return nil, &Error{Message: "the base URL can't be read"}
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, &Error{Message: "the base URL must be http://… or https://…"}
	}
	if base.User != nil || base.RawQuery != "" || base.Fragment != "" {
		return nil, &Error{Message: "the base URL must have no user, query or fragment"}
	}
	path := strings.TrimRight(base.EscapedPath(), "/")
	path = strings.TrimRight(strings.TrimSuffix(path, "/v1"), "/")
	return url.Parse(base.Scheme + "://" + base.Host + path)
}

// httpClient returns a copy, because this package follows redirects itself, whoever made the client.
func httpClient(given *http.Client) *http.Client {
	client := &http.Client{}
	if given != nil {
		*client = *given
	} else {
		client.Transport = newTransport()
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return client
}

func newTransport() *http.Transport {
	shared, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		shared = &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}
	}
	transport := shared.Clone()
	// The call's own limit ends its wait; this one ends a connection attempt that the transport continues afterwards.
	transport.TLSHandshakeTimeout = 30 * time.Second
	// The gateway keeps idle connections for 75 s: a client that closes them earlier never sends into one that is closing.
	transport.IdleConnTimeout = 60 * time.Second
	transport.MaxIdleConnsPerHost = transport.MaxIdleConns
	return transport
}

// The options of a client and of a call. Printing an option never shows its value.

package tollgate

import (
	"net/http"
	"time"
)

// ClientOption is for [NewClient].
type ClientOption interface{ client(*config) }

// CallOption is for a single call. It has priority over the client's options.
type CallOption interface{ call(*settings) }

// Option is for a client and for a call alike.
type Option interface {
	ClientOption
	CallOption
}

type config struct {
	apiKey     string
	baseURL    string
	httpClient *http.Client
	settings   settings
}

type settings struct {
	header         http.Header
	maxRetries     int
	connect        time.Duration
	idle           time.Duration
	answer         time.Duration
	idempotencyKey string
}

func (s *settings) with(options []CallOption) *settings {
	own := *s
	own.header = s.header.Clone()
	for _, option := range options {
		if option != nil {
			option.call(&own)
		}
	}
	return &own
}

// They are functions, because package fmt prints only the address of a function, not what it captured.
type (
	clientOption func(*config)
	callOption   func(*settings)
	eitherOption func(*settings)
)

func (o clientOption) client(c *config) { o(c) }
func (o callOption) call(s *settings)   { o(s) }
func (o eitherOption) client(c *config) { o(&c.settings) }
func (o eitherOption) call(s *settings) { o(s) }

// WithAPIKey sets the key; without it, the environment's TOLLGATE_API_KEY is used.
func WithAPIKey(key string) ClientOption {
	return clientOption(func(c *config) { c.apiKey = key })
}

// WithBaseURL sets where the gateway is, such as "https://gate.example.com/v1", with or without the /v1; without it, the
// environment's TOLLGATE_BASE_URL is used.
func WithBaseURL(url string) ClientOption {
	return clientOption(func(c *config) { c.baseURL = url })
}

// WithHTTPClient makes all requests with a client of the caller's: for a proxy, a certificate authority, a tracer. Its
// redirect policy is not used, and its Timeout, where set, limits streams too. Without it the client has connections of
// its own, set up as [http.DefaultTransport] is, with the proxies of the environment.
func WithHTTPClient(client *http.Client) ClientOption {
	return clientOption(func(c *config) { c.httpClient = client })
}

// WithHeader sets a header beside the client's own; an empty value takes it away. It is not sent to other origins.
func WithHeader(name, value string) Option {
	return eitherOption(func(s *settings) {
		if s.header == nil {
			s.header = http.Header{}
		}
		s.header.Set(name, value)
	})
}

// WithMaxRetries sets how often a call is tried again, 2 by default. Resuming a broken stream is not counted here.
func WithMaxRetries(count int) Option {
	return eitherOption(func(s *settings) { s.maxRetries = max(count, 0) })
}

// WithConnectTimeout limits making a connection: name, TCP and TLS, 10 s by default. 0 is no limit.
func WithConnectTimeout(limit time.Duration) Option {
	return eitherOption(func(s *settings) { s.connect = limit })
}

// WithIdleTimeout limits the time in which no byte comes or goes, 60 s by default. The gateway's heartbeats count.
// 0 is no limit.
func WithIdleTimeout(limit time.Duration) Option {
	return eitherOption(func(s *settings) { s.idle = limit })
}

// WithAnswerTimeout limits the time until an answer begins that is generated whole, not streamed: 600 s by
// default. 0 is no limit.
func WithAnswerTimeout(limit time.Duration) Option {
	return eitherOption(func(s *settings) { s.answer = limit })
}

// WithIdempotencyKey makes a call the same call as an earlier one with this key, even of another process: at most 255
// visible ASCII characters. Without it each call has one of its own, the same at each attempt.
func WithIdempotencyKey(key string) CallOption {
	return callOption(func(s *settings) { s.idempotencyKey = key })
}

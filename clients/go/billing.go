// The account's balance, and what it was spent on. Amounts are balance tokens, exact to 2^53.

package tollgate

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// BillingService has the account's money. The key needs the scope "billing".
type BillingService struct{ core *core }

// Balance is what the account has now. Balance = Granted − Spent, Available = Balance − Reserved.
type Balance struct {
	object
	Object    string     `json:"object"` // "billing.balance"
	Unit      string     `json:"unit"`   // "token"
	Balance   int64      `json:"balance"`
	Reserved  int64      `json:"reserved"` // held for what is being generated
	Available int64      `json:"available"`
	Granted   int64      `json:"granted"`
	Spent     int64      `json:"spent"`
	Owed      int64      `json:"owed"`       // used and not yet paid: paid first from what comes in
	Allowance *Allowance `json:"allowance"`  // nil for none
	Budget    *Budget    `json:"budget"`     // nil for none
	KeyBudget *Budget    `json:"key_budget"` // of the key that asks; nil for none
	UpdatedAt UnixTime   `json:"updated_at"`
}

// Allowance is the part of a Balance that the plan gives anew in each window. It is spent first.
type Allowance struct {
	Tokens   int64     `json:"tokens"` // what each window begins with
	Every    string    `json:"every"`  // "day", "week", "month"; empty when the plan gives no more
	Left     int64     `json:"left"`
	RenewsAt *UnixTime `json:"renews_at"`
}

// Budget caps what may be spent in each window.
type Budget struct {
	Tokens   int64     `json:"tokens"`
	Every    string    `json:"every"`     // "day", "week", "month"
	Used     int64     `json:"used"`      // charges of this window, and what is held for what is being generated
	RenewsAt *UnixTime `json:"renews_at"` // nil while no window runs
}

// String is the JSON that came, on one line.
func (b Balance) String() string { return shown(b.object, b) }

// Transaction changed the balance.
type Transaction struct {
	object
	ID            string   `json:"id"`
	Object        string   `json:"object"` // "billing.transaction"
	Type          string   `json:"type"`   // "topup", "charge", "correction", "adjustment", "refund", "repayment", "allowance"
	Amount        int64    `json:"amount"` // below 0 for a charge
	BalanceAfter  int64    `json:"balance_after"`
	Model         string   `json:"model"`
	KeyID         string   `json:"key_id"`
	Price         *Price   `json:"price"` // that was applied
	Usage         *Usage   `json:"usage"`
	ChargedBefore int64    `json:"charged_before"` // for a correction: what the request had been charged
	Estimated     bool     `json:"estimated"`
	Owed          int64    `json:"owed"`        // for a charge: what the account could not pay then, in addition to Amount
	Allowance     int64    `json:"allowance"`   // for a charge: the part that the allowance paid
	Implausible   int64    `json:"implausible"` // reported beyond what is possible, and not charged
	Waived        int64    `json:"waived"`      // used where the gateway counts without charging; never to be paid
	Cut           bool     `json:"cut"`         // the money ran out in the middle of the answer
	RequestID     string   `json:"request_id"`
	SessionID     string   `json:"session_id"`
	MessageID     string   `json:"message_id"`
	Reference     string   `json:"reference"` // for a top-up: the id of the payment
	Note          string   `json:"note"`
	CreatedAt     UnixTime `json:"created_at"`
}

// String is the JSON that came, on one line.
func (t Transaction) String() string { return shown(t.object, t) }

// Price is what was applied, in balance tokens: for one token of the model, and for a request.
type Price struct {
	Input       float64 `json:"input"`
	Output      float64 `json:"output"`
	CachedInput float64 `json:"cached_input"`
	Request     float64 `json:"request"`
}

// TransactionParams choose transactions. All fields may be left out: then it is all of them.
type TransactionParams struct {
	ListParams
	From      time.Time // made at this second or later
	To        time.Time // made before this second
	Type      string    // as Transaction.Type
	Model     string    // charges of this model
	KeyID     string    // charges of this key
	Reference string    // the top-up of this payment
}

func (p TransactionParams) query() url.Values {
	query := p.ListParams.query()
	setSpan(query, p.From, p.To)
	set(query, "type", p.Type)
	set(query, "model", p.Model)
	set(query, "key", p.KeyID)
	set(query, "reference", p.Reference)
	return query
}

// UsageParams choose a span and how it is summed up. All fields may be left out: the last 24 hours by the hour.
type UsageParams struct {
	From    time.Time
	To      time.Time
	Bucket  string // "hour" or "day"
	GroupBy string // "model" or "key"
	Model   string // of this model alone
	KeyID   string // of this key alone
}

func (p UsageParams) query() url.Values {
	query := url.Values{}
	setSpan(query, p.From, p.To)
	set(query, "bucket", p.Bucket)
	set(query, "group_by", p.GroupBy)
	set(query, "model", p.Model)
	set(query, "key", p.KeyID)
	return query
}

func setSpan(query url.Values, from, to time.Time) {
	for name, at := range map[string]time.Time{"from": from, "to": to} {
		if !at.IsZero() {
			query.Set(name, strconv.FormatInt(at.Unix(), 10))
		}
	}
}

// UsageBucket is what was used in one span.
type UsageBucket struct {
	object
	Object           string   `json:"object"` // "billing.usage"
	Start            UnixTime `json:"start"`
	End              UnixTime `json:"end"`
	Model            string   `json:"model"`  // grouped by model
	KeyID            string   `json:"key_id"` // grouped by key
	Requests         int64    `json:"requests"`
	PromptTokens     int64    `json:"prompt_tokens"`
	CachedTokens     int64    `json:"cached_tokens"`
	CompletionTokens int64    `json:"completion_tokens"`
	Cost             int64    `json:"cost"`
	Waived           int64    `json:"waived"` // of Cost: counted without charging
}

// String is the JSON that came, on one line.
func (u UsageBucket) String() string { return shown(u.object, u) }

// Balance gives what the account has.
func (s *BillingService) Balance(ctx context.Context, options ...CallOption) (*Balance, error) {
	return fetch[Balance](ctx, s.core, newRequest(options, http.MethodGet, "/api/billing/balance"))
}

// Transactions lists what changed the balance, by default the newest first.
func (s *BillingService) Transactions(ctx context.Context, params TransactionParams, options ...CallOption) *List[Transaction] {
	return newList[Transaction](ctx, s.core, newRequest(options, http.MethodGet, "/api/billing/transactions"), params.query())
}

// Usage has sums for charts, the oldest first.
func (s *BillingService) Usage(ctx context.Context, params UsageParams, options ...CallOption) *List[UsageBucket] {
	return newList[UsageBucket](ctx, s.core, newRequest(options, http.MethodGet, "/api/billing/usage"), params.query())
}

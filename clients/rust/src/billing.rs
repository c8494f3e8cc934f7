// The account's money, in tokens: what is left, what changed it, and sums for charts.

use serde::{Deserialize, Serialize};

use crate::call::Call;
use crate::client::Client;
use crate::list::List;
use crate::request::Request;
use crate::types::{Extra, TransactionType, Usage};

/// The account's balance. From [`Client::billing`].
#[derive(Debug, Clone)]
pub struct Billing {
    pub(crate) client: Client,
}

impl Billing {
    /// `GET /api/billing/balance`
    pub fn balance(&self) -> Call<Balance> {
        let url = self.client.inner.address.api(&["billing", "balance"]);
        Call::json(&self.client, url.map(Request::get))
    }

    /// `GET /api/billing/transactions`: the newest first.
    pub fn transactions(&self) -> List<Transaction> {
        List::new(&self.client, self.client.inner.address.api(&["billing", "transactions"]))
    }

    /// `GET /api/billing/usage`: sums for charts, by default of the last 24 hours, by the hour.
    pub fn usage(&self) -> List<UsageSum> {
        List::new(&self.client, self.client.inner.address.api(&["billing", "usage"]))
    }
}

/// Which transactions are wanted.
impl List<Transaction> {
    /// Unix seconds: made at this time or later.
    pub fn from(self, seconds: u64) -> Self {
        self.query("from", seconds.to_string())
    }

    /// Unix seconds: made before this time.
    pub fn to(self, seconds: u64) -> Self {
        self.query("to", seconds.to_string())
    }

    /// Of this kind.
    pub fn kind(self, kind: &TransactionType) -> Self {
        self.query("type", kind.as_str())
    }

    /// Charges of this model.
    pub fn model(self, id: impl AsRef<str>) -> Self {
        self.query("model", id)
    }

    /// Charges of the key with this id.
    pub fn key(self, id: impl AsRef<str>) -> Self {
        self.query("key", id)
    }

    /// The top-up of the payment with this id.
    pub fn reference(self, id: impl AsRef<str>) -> Self {
        self.query("reference", id)
    }
}

/// Which sums are wanted.
impl List<UsageSum> {
    /// Unix seconds. The spans that have a part at this time or later.
    pub fn from(self, seconds: u64) -> Self {
        self.query("from", seconds.to_string())
    }

    /// Unix seconds. The spans that have a part before this time.
    pub fn to(self, seconds: u64) -> Self {
        self.query("to", seconds.to_string())
    }

    /// `hour` or `day`.
    pub fn bucket(self, span: impl AsRef<str>) -> Self {
        self.query("bucket", span)
    }

    /// By `model` or by `key`.
    pub fn group_by(self, what: impl AsRef<str>) -> Self {
        self.query("group_by", what)
    }

    /// Of this model alone.
    pub fn model(self, id: impl AsRef<str>) -> Self {
        self.query("model", id)
    }

    /// Of the key with this id alone.
    pub fn key(self, id: impl AsRef<str>) -> Self {
        self.query("key", id)
    }
}

/// What is left. In tokens.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Balance {
    /// `token`
    pub unit: String,
    /// `granted − spent`
    pub balance: i64,
    /// Held for answers that are being generated.
    pub reserved: i64,
    /// `balance − reserved`: what a new request may cost.
    pub available: i64,
    /// The sum of all that was added.
    pub granted: i64,
    /// The sum of all charges that were paid.
    pub spent: i64,
    /// Used and not yet paid: paid first from what comes in.
    pub owed: i64,
    /// The part of `balance` that the plan gives anew in each window. It is spent first.
    pub allowance: Option<Allowance>,
    /// Caps what the account may spend in each window.
    pub budget: Option<Budget>,
    /// The same for the key that asks.
    pub key_budget: Option<Budget>,
    /// Unix seconds.
    pub updated_at: u64,
    /// Everything else.
    #[serde(flatten)]
    pub extra: Extra,
}

/// What a plan gives anew in each window. In tokens.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Allowance {
    /// What each window begins with.
    pub tokens: i64,
    /// `day`, `week` or `month`; none when the plan gives no more.
    pub every: Option<String>,
    /// What is left of it.
    pub left: i64,
    /// Unix seconds.
    pub renews_at: Option<u64>,
    /// Everything else.
    #[serde(flatten)]
    pub extra: Extra,
}

/// A cap on what may be spent in each window. In tokens.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Budget {
    /// The cap.
    pub tokens: i64,
    /// `day`, `week` or `month`.
    pub every: String,
    /// Charges of this window, and what is held for answers that are being generated.
    pub used: i64,
    /// Unix seconds; none while no window runs.
    pub renews_at: Option<u64>,
    /// Everything else.
    #[serde(flatten)]
    pub extra: Extra,
}

/// One change of the balance.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Transaction {
    /// `txn_…`
    pub id: String,
    /// The kind of change.
    #[serde(rename = "type")]
    pub kind: TransactionType,
    /// Tokens; below 0 for a charge.
    pub amount: i64,
    /// Tokens.
    pub balance_after: i64,
    /// Unix seconds.
    pub created_at: u64,
    /// Of a charge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Of a charge: the key of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
    /// Of a charge: the price that was applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<AppliedPrice>,
    /// Of a charge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Of a charge: true when the gateway counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimated: Option<bool>,
    /// Of a correction: what the request had been charged before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub charged_before: Option<i64>,
    /// Of a top-up: the id of the payment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// For a charge: what the account could not pay then, in addition to `amount`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owed: Option<i64>,
    /// For a charge: the part that the allowance paid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowance: Option<i64>,
    /// For a charge: what a model reported beyond what is possible. Not charged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub implausible: Option<i64>,
    /// For a charge: what was used where the gateway counts without charging, and is never to be paid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waived: Option<i64>,
    /// For a charge: true when the money ran out in the middle of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<bool>,
    /// Of a charge: finds the request in the gateway's log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Of a message of a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Of a message of a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// The operator's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Balance tokens for one token of the model, and for a request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct AppliedPrice {
    /// For a token of the prompt.
    pub input: f64,
    /// For a token of the answer.
    pub output: f64,
    /// For a token of the prompt that the backend had cached.
    pub cached_input: f64,
    /// For the request.
    pub request: f64,
}

/// What was used in one span of time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct UsageSum {
    /// Unix seconds.
    pub start: u64,
    /// Unix seconds.
    pub end: u64,
    /// Summed up by model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Summed up by key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
    /// How many.
    pub requests: u64,
    /// Tokens that were sent to models.
    pub prompt_tokens: u64,
    /// Of the prompt.
    pub cached_tokens: u64,
    /// Tokens that models generated.
    pub completion_tokens: u64,
    /// In balance tokens.
    pub cost: u64,
    /// Of `cost`: counted without charging.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waived: Option<u64>,
    /// Everything else.
    #[serde(flatten)]
    pub extra: Extra,
}

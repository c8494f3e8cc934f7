// The types of the API's answers. A word or a field that is not known here is kept as it came, and written back;
// a field that is missing is `None` or empty.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Fields that this version of the crate does not know.
pub type Extra = Map<String, Value>;

/// Declares an enum to which a newer gateway, or a backend, may add words.
macro_rules! open_enum {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(from = "String", into = "String")]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$doc])* $variant,)+
            /// A word that this version of the crate does not know.
            Other(String),
        }

        impl $name {
            /// The word in JSON.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $word,)+
                    Self::Other(word) => word,
                }
            }
        }

        impl From<String> for $name {
            fn from(word: String) -> Self {
                match word.as_str() {
                    $($word => Self::$variant,)+
                    _ => Self::Other(word),
                }
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.as_str().to_owned()
            }
        }

        /// An empty word.
        impl Default for $name {
            fn default() -> Self {
                Self::Other(String::new())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

open_enum! {
    /// Who said it.
    Role {
        /// The operator's instructions.
        System = "system",
        /// The person.
        User = "user",
        /// The model.
        Assistant = "assistant",
        /// The result of a tool that the model called.
        Tool = "tool",
    }
}

open_enum! {
    /// How far a message has come.
    MessageStatus {
        /// It is being generated.
        InProgress = "in_progress",
        /// The model finished, or reached the maximum of tokens.
        Completed = "completed",
        /// It was stopped, or its session was deleted.
        Cancelled = "cancelled",
        /// The model answered an error, or took too long.
        Failed = "failed",
        /// It was cut off.
        Incomplete = "incomplete",
    }
}

open_enum! {
    /// Why the model stopped.
    FinishReason {
        /// It had said everything, or met a stop sequence.
        Stop = "stop",
        /// The maximum of tokens, or the balance, is reached.
        Length = "length",
        /// It wants tools to be called.
        ToolCalls = "tool_calls",
        /// A filter stopped it.
        ContentFilter = "content_filter",
    }
}

open_enum! {
    /// What changed the balance.
    TransactionType {
        /// Tokens were added.
        Topup = "topup",
        /// Tokens were used.
        Charge = "charge",
        /// More or less of a charge, after a gateway had crashed.
        Correction = "correction",
        /// The operator changed it.
        Adjustment = "adjustment",
        /// The operator gave back what had been used.
        Refund = "refund",
        /// What charges had left owed was paid.
        Repayment = "repayment",
        /// The plan's allowance was renewed.
        Allowance = "allowance",
    }
}

/// Tokens of one answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// Tokens of the answer.
    pub completion_tokens: u64,
    /// The sum of both.
    pub total_tokens: u64,
    /// True when the gateway counted, because the backend reported nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimated: Option<bool>,
    /// Of the prompt; in transactions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_tokens: Option<u64>,
    /// Everything else, such as `prompt_tokens_details`.
    #[serde(flatten)]
    pub extra: Extra,
}

/// A chat session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Session {
    /// `sess_…`
    pub id: String,
    /// Unix seconds.
    pub created_at: u64,
    /// Unix seconds.
    pub updated_at: u64,
    /// For people.
    pub title: Option<String>,
    /// The model for messages that name none.
    pub model: Option<String>,
    /// The system message before the conversation; not in lists, where it is `None`.
    pub instructions: Option<String>,
    /// The caller's own pairs.
    pub metadata: Map<String, Value>,
    /// How many messages it has.
    pub message_count: u64,
    /// The answer that is being generated.
    pub active_message_id: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub extra: Extra,
}

/// A message that the gateway keeps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ChatMessage {
    /// `msg_…`
    pub id: String,
    /// `sess_…`
    pub session_id: String,
    /// Who said it.
    pub role: Role,
    /// A string, a list of parts, or null. [`ChatMessage::text`] has the text of it.
    pub content: Value,
    /// The tools that the model wants to be called, as Chat Completions has them.
    pub tool_calls: Option<Vec<Value>>,
    /// Of [`Role::Tool`]: the call whose result this is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// Of whoever said it, if the client gave one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The model's reasoning, if the backend sends it.
    pub reasoning: Option<String>,
    /// How far it has come.
    pub status: MessageStatus,
    /// Why the model stopped.
    pub finish_reason: Option<FinishReason>,
    /// The model that answered.
    pub model: Option<String>,
    /// Tokens.
    pub usage: Option<Usage>,
    /// In balance tokens.
    pub cost: Option<u64>,
    /// Why it failed, as an error object.
    pub error: Option<Value>,
    /// Unix seconds.
    pub created_at: u64,
    /// Unix seconds.
    pub completed_at: Option<u64>,
    /// Everything else.
    #[serde(flatten)]
    pub extra: Extra,
}

impl ChatMessage {
    /// The text, of all parts.
    pub fn text(&self) -> String {
        match &self.content {
            Value::String(text) => text.clone(),
            Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
            _ => String::new(),
        }
    }
}

/// A file of a session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct FileObject {
    /// `file_…`
    pub id: String,
    /// Its size.
    pub bytes: u64,
    /// Unix seconds.
    pub created_at: u64,
    /// Unix seconds.
    pub expires_at: Option<u64>,
    /// The name, as the gateway has cleaned it.
    pub filename: String,
    /// `user_data` unless the upload said otherwise.
    pub purpose: String,
    /// `processed`
    pub status: String,
    /// `sess_…`
    pub session_id: Option<String>,
    /// The type of the bytes, whatever the upload said.
    pub content_type: String,
    /// Hex.
    pub sha256: String,
    /// Everything else.
    #[serde(flatten)]
    pub extra: Extra,
}

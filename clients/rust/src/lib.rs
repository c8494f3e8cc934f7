// The crate: its README is its documentation, and the code blocks there are compiled with its tests.

#![doc = include_str!("../README.md")]

mod address;
mod api_error;
mod billing;
mod call;
mod chat;
mod client;
mod completion;
mod disposition;
mod download;
mod error;
mod events;
mod files;
mod list;
mod message_stream;
mod messages;
mod models;
mod progress;
mod request;
mod resume;
mod retry;
mod sessions;
mod sse;
mod transport;
mod types;
mod upload;

pub use api_error::ApiError;
pub use billing::{Allowance, AppliedPrice, Balance, Billing, Budget, Transaction, UsageSum};
pub use call::Call;
pub use chat::{Chat, ChatRequest, ChatStream};
pub use client::{Client, ClientBuilder};
pub use completion::{ChatCompletion, Choice, Chunk, ChunkChoice, Delta};
pub use download::{Content, Download};
pub use error::{Error, IncompleteStream, Result};
pub use files::Files;
pub use list::{Items, List, Order, Page};
pub use message_stream::MessageStream;
pub use messages::{Message, Messages, OnDisconnect};
pub use models::{Model, ModelPrice, Models};
pub use sessions::{SessionParams, Sessions};
pub use types::{ChatMessage, Extra, FileObject, FinishReason, MessageStatus, Role, Session, TransactionType, Usage};
pub use upload::Upload;

/// The HTTP library, for what the client takes of it.
pub use reqwest;

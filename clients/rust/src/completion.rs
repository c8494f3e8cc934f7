// What a model says, whole or in chunks, in the format of Chat Completions. It comes from many kinds of backends, so
// only JSON that is not an object is refused: a field of an unexpected type is kept among the unknown ones. The text as
// it came is kept too, and is what serializing writes.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::types::{Extra, FinishReason, Role, Usage};

/// One event of a stream.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Chunk {
    /// The backend's id.
    pub id: Option<String>,
    /// The backend's name of the model.
    pub model: Option<String>,
    /// The choices; empty in a chunk that has only usage.
    pub choices: Vec<ChunkChoice>,
    /// Tokens; in the last chunk, if the request asked for it.
    pub usage: Option<Usage>,
    /// Everything else.
    pub extra: Extra,
    raw: String,
}

/// An answer that was not streamed.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ChatCompletion {
    /// The backend's id.
    pub id: Option<String>,
    /// The backend's name of the model.
    pub model: Option<String>,
    /// The answers: one, where `n` is not given.
    pub choices: Vec<Choice>,
    /// Tokens.
    pub usage: Option<Usage>,
    /// Everything else.
    pub extra: Extra,
    raw: String,
}

/// A part of one answer.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ChunkChoice {
    /// Which of `n` answers.
    pub index: u32,
    /// The new text and tool calls.
    pub delta: Delta,
    /// In the last chunk of the answer.
    pub finish_reason: Option<FinishReason>,
    /// Everything else.
    #[serde(flatten)]
    pub extra: Extra,
}

/// One answer.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Choice {
    /// Which of `n` answers.
    pub index: u32,
    /// What was said.
    pub message: Delta,
    /// Why it ended.
    pub finish_reason: Option<FinishReason>,
    /// Everything else.
    #[serde(flatten)]
    pub extra: Extra,
}

/// What the model said: all of it in a [`Choice`], what is new in a [`ChunkChoice`].
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Delta {
    /// The assistant; in a stream's first chunk.
    pub role: Option<Role>,
    /// Text.
    pub content: Option<String>,
    /// Calls of tools, or pieces of them.
    pub tool_calls: Option<Vec<Value>>,
    /// Everything else.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Chunk {
    /// The new text of choice 0; empty if there is none.
    pub fn text(&self) -> &str {
        let choice = self.choices.iter().find(|choice| choice.index == 0);
        choice.and_then(|choice| choice.delta.content.as_deref()).unwrap_or_default()
    }
}

impl Delta {
    /// The model's reasoning, if the backend sends it.
    pub fn reasoning(&self) -> Option<&str> {
        ["reasoning_content", "reasoning"].iter().find_map(|&name| self.extra.get(name)?.as_str())
    }
}

impl ChatCompletion {
    /// The text of choice 0.
    pub fn text(&self) -> &str {
        let choice = self.choices.iter().find(|choice| choice.index == 0);
        choice.and_then(|choice| choice.message.content.as_deref()).unwrap_or_default()
    }
}

/// The fields of both.
#[derive(Deserialize)]
struct Fields<C> {
    id: Option<String>,
    model: Option<String>,
    #[serde(default = "Vec::new")]
    choices: Vec<C>,
    usage: Option<Usage>,
    #[serde(flatten)]
    extra: Extra,
}

impl<C: DeserializeOwned> Fields<C> {
    fn parse(raw: &str) -> serde_json::Result<Self> {
        // A field of an unexpected type makes the quick way fail: then each field is read separately.
        serde_json::from_str(raw).or_else(|_| Ok(Self::pick(serde_json::from_str(raw)?)))
    }

    fn pick(mut fields: Map<String, Value>) -> Self {
        Self {
            id: take(&mut fields, "id"),
            model: take(&mut fields, "model"),
            choices: pick_choices(&mut fields),
            usage: take(&mut fields, "usage"),
            extra: fields,
        }
    }
}

/// A field that can't be read stays among the unknown ones.
fn take<T: DeserializeOwned>(fields: &mut Map<String, Value>, name: &str) -> Option<T> {
    let value = T::deserialize(fields.get(name)?).ok()?;
    fields.remove(name);
    Some(value)
}

fn pick_choices<C: DeserializeOwned>(fields: &mut Map<String, Value>) -> Vec<C> {
    let Some(Value::Array(choices)) = fields.get("choices") else {
        return Vec::new();
    };
    choices.iter().filter_map(|choice| C::deserialize(loosened(choice)).ok()).collect()
}

/// A choice with its mistyped fields renamed, so that the others can be read.
fn loosened(choice: &Value) -> Value {
    let mut choice = choice.clone();
    for (path, is_right) in [
        ("/index", (|value| value.as_u64().is_some()) as fn(&Value) -> bool),
        ("/finish_reason", |value| value.is_string()),
        ("/delta/role", |value| value.is_string()),
        ("/delta/content", |value| value.is_string()),
        ("/delta/tool_calls", |value| value.is_array()),
        ("/message/role", |value| value.is_string()),
        ("/message/content", |value| value.is_string()),
        ("/message/tool_calls", |value| value.is_array()),
    ] {
        let (parent, name) = path.rsplit_once('/').unwrap_or_default();
        let Some(parent) = choice.pointer_mut(parent).and_then(Value::as_object_mut) else { continue };
        if parent.get(name).is_some_and(|value| !is_right(value)) {
            parent.remove(name);
        }
    }
    for name in ["delta", "message"] {
        if choice.get(name).is_some_and(|value| !value.is_object()) {
            choice[name] = Value::Object(Map::new());
        }
    }
    choice
}

macro_rules! as_it_came {
    ($name:ident) => {
        impl $name {
            /// Its JSON, byte for byte as it came.
            pub fn raw(&self) -> &str {
                &self.raw
            }

            pub(crate) fn parse(raw: String) -> serde_json::Result<Self> {
                let Fields { id, model, choices, usage, extra } = Fields::parse(&raw)?;
                Ok(Self { id, model, choices, usage, extra, raw })
            }
        }

        /// As it came, every field of it.
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let value: Value = serde_json::from_str(&self.raw).map_err(serde::ser::Error::custom)?;
                value.serialize(serializer)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let value = Map::<String, Value>::deserialize(deserializer)?;
                Self::parse(Value::Object(value).to_string()).map_err(serde::de::Error::custom)
            }
        }
    };
}

as_it_came!(Chunk);
as_it_came!(ChatCompletion);

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(raw: &str) -> Chunk {
        Chunk::parse(raw.to_owned()).unwrap()
    }

    #[test]
    fn strange_types_are_kept_and_hide_nothing_else() {
        for raw in [
            r#"{"id":7,"choices":[{"delta":{"content":"a"}}]}"#,
            r#"{"choices":[{"index":null,"delta":{"content":"a"},"finish_reason":3}],"usage":"none"}"#,
            r#"{"choices":[7,{"index":0,"delta":{"role":1,"content":"a","tool_calls":null}}],"model":[]}"#,
            r#"{"model":"m","model":"n","choices":[{"delta":{"content":"a","content":"a"}}]}"#,
        ] {
            assert_eq!(chunk(raw).text(), "a", "{raw}");
            assert_eq!(chunk(raw).raw(), raw);
        }
        for raw in [r"{}", r#"{"choices":null}"#, r#"{"choices":{}}"#, r#"{"choices":[{"delta":null}]}"#] {
            assert_eq!(chunk(raw).text(), "", "{raw}");
        }
        assert!(Chunk::parse("[]".into()).is_err());
    }

    #[test]
    fn big_integers_and_new_words_survive() {
        let raw = r#"{"choices":[{"delta":{"x":18446744073709551615},"finish_reason":"tired"}],"n":9007199254740993}"#;
        let chunk = chunk(raw);
        assert_eq!(chunk.extra["n"], 9_007_199_254_740_993_u64);
        assert_eq!(chunk.choices[0].delta.extra["x"], u64::MAX);
        assert_eq!(chunk.choices[0].finish_reason.as_ref().map(FinishReason::as_str), Some("tired"));
    }
}

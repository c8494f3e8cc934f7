// Lists in pages: page by page, or item by item over all of them; the next page is requested when the last item of a
// page has been taken.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::vec;

use futures_core::Stream;
use reqwest::Url;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::client::{BoxFuture, Client};
use crate::error::{Error, Result};
use crate::request::{Request, settings};

/// Which end of a list comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The oldest.
    Ascending,
    /// The newest.
    Descending,
}

/// A list that has not been requested yet: awaiting it gives its first page; [`List::items`] gives all items.
#[must_use = "a list is asked for when it is awaited, or its items are"]
pub struct List<T> {
    client: Client,
    request: Result<Request>,
    item: PhantomData<fn() -> T>,
}

settings!(<T> List<T>);

impl<T> List<T> {
    pub(crate) fn new(client: &Client, url: Result<Url>) -> Self {
        Self { client: client.clone(), request: url.map(Request::get), item: PhantomData }
    }

    /// Items a page, 1 to 100.
    pub fn limit(self, items: u32) -> Self {
        self.query("limit", items.to_string())
    }

    /// Begins after the item with this id.
    pub fn after(self, id: impl AsRef<str>) -> Self {
        self.query("after", id)
    }

    /// Which end comes first.
    pub fn order(self, order: Order) -> Self {
        self.query("order", if order == Order::Ascending { "asc" } else { "desc" })
    }

    /// Any other parameter.
    pub fn query(mut self, name: &str, value: impl AsRef<str>) -> Self {
        if let Ok(request) = &mut self.request {
            request.set_query(name, value.as_ref());
        }
        self
    }

    /// All items, of all pages.
    pub fn items(self) -> Items<T> {
        Items { page: Vec::new().into_iter(), next: Some(self), asking: None }
    }
}

impl<T: DeserializeOwned + 'static> IntoFuture for List<T> {
    type Output = Result<Page<T>>;
    type IntoFuture = BoxFuture<Result<Page<T>>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let mut request = self.request?;
            let came: Came<T> = self.client.inner.json(&request).await?;
            let next = if came.has_more {
                let is_backwards = request.query("before").is_some() && request.query("after").is_none();
                let (side, id) = if is_backwards { ("before", &came.first_id) } else { ("after", &came.last_id) };
                // A list without a next id would look complete, and one whose next id repeats would never end.
                let id = id.as_ref().filter(|&id| !id.is_empty() && request.query(side).as_ref() != Some(id));
                let lost = || Error::protocol("the list has more, but does not say where it goes on");
                request.set_query(side, id.ok_or_else(lost)?);
                Some(Self { client: self.client, request: Ok(request), item: PhantomData })
            } else {
                None
            };
            Ok(Page { data: came.data, has_more: came.has_more, first_id: came.first_id, last_id: came.last_id, next })
        })
    }
}

impl<T> fmt::Debug for List<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("List").finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct Came<T> {
    data: Vec<T>,
    #[serde(default)]
    has_more: bool,
    first_id: Option<String>,
    last_id: Option<String>,
}

/// A page of a list.
#[derive(Debug)]
#[non_exhaustive]
pub struct Page<T> {
    /// In the list's order.
    pub data: Vec<T>,
    /// Whether another page follows.
    pub has_more: bool,
    /// The first id of `data`.
    pub first_id: Option<String>,
    /// The last id of `data`.
    pub last_id: Option<String>,
    next: Option<List<T>>,
}

impl<T> Page<T> {
    /// The list after this page; `None` after the last page.
    pub fn next(self) -> Option<List<T>> {
        self.next
    }
}

/// All items of a list, one after another. Ends after the first error.
#[must_use = "items are asked for when they are awaited"]
pub struct Items<T> {
    page: vec::IntoIter<T>,
    next: Option<List<T>>,
    asking: Option<BoxFuture<Result<Page<T>>>>,
}

impl<T: DeserializeOwned + Unpin + 'static> Items<T> {
    /// The next item; `None` after the last one.
    pub async fn next(&mut self) -> Option<Result<T>> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl<T: DeserializeOwned + Unpin + 'static> Stream for Items<T> {
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(item) = self.page.next() {
                return Poll::Ready(Some(Ok(item)));
            }
            if let Some(list) = self.next.take() {
                self.asking = Some(list.into_future());
            }
            let Some(asking) = &mut self.asking else { return Poll::Ready(None) };
            let answer = ready!(asking.as_mut().poll(cx));
            self.asking = None;
            match answer {
                Ok(page) => {
                    self.next = page.next;
                    self.page = page.data.into_iter();
                }
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
    }
}

impl<T> fmt::Debug for Items<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Items").finish_non_exhaustive()
    }
}

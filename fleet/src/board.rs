//! A stream that keeps the last value of each name.

use super::error::{FleetError, server_error};
use async_nats::jetstream::context::Context;
use async_nats::jetstream::stream::{self, LastRawMessageErrorKind, StorageType};
use bytes::Bytes;
use futures_util::TryStreamExt;
use std::time::Duration;

/// Values by name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Board {
    /// The name of the stream.
    pub(crate) stream: &'static str,
    /// What the subjects of the values begin with.
    pub(crate) subject: &'static str,
    /// The time after which a value is forgotten. Such values are only kept in memory.
    pub(crate) max_age: Option<Duration>,
}

impl Board {
    /// Makes the stream if it is not there.
    pub(crate) async fn open(&self, context: &Context) -> Result<(), FleetError> {
        let config = stream::Config {
            name: self.stream.to_owned(),
            subjects: vec![format!("{}.*", self.subject)],
            max_messages_per_subject: 1,
            max_age: self.max_age.unwrap_or_default(),
            storage: if self.max_age.is_some() { StorageType::Memory } else { StorageType::File },
            ..stream::Config::default()
        };
        let opened = context.get_or_create_stream(config).await;
        opened.map(drop).map_err(|error| server_error(format!("open the stream {}", self.stream), error))
    }

    /// Stores a value.
    pub(crate) async fn put(&self, context: &Context, name: &str, value: Bytes) -> Result<(), FleetError> {
        let failed = |error| server_error(format!("store {name} in {}", self.stream), error);
        let ack = context.publish(format!("{}.{name}", self.subject), value).await;
        ack.map_err(failed)?.await.map(drop).map_err(failed)
    }

    /// A value.
    pub(crate) async fn get(&self, context: &Context, name: &str) -> Result<Option<Bytes>, FleetError> {
        let stream = context.get_stream_no_info(self.stream).await;
        let stream = stream.map_err(|error| server_error(format!("open {}", self.stream), error))?;
        match stream.get_last_raw_message_by_subject(&format!("{}.{name}", self.subject)).await {
            Ok(message) => Ok(Some(message.payload)),
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(server_error(format!("read {name} from {}", self.stream), error)),
        }
    }

    /// All names with their values.
    pub(crate) async fn list(&self, context: &Context) -> Result<Vec<(String, Bytes)>, FleetError> {
        let what = || format!("list {}", self.stream);
        let stream = context.get_stream_no_info(self.stream).await;
        let stream = stream.map_err(|error| server_error(what(), error))?;
        let subjects = stream.info_with_subjects(format!("{}.*", self.subject)).await;
        let subjects = subjects.map_err(|error| server_error(what(), error))?;
        let subjects: Vec<(String, usize)> =
            subjects.try_collect().await.map_err(|error| server_error(what(), error))?;
        let mut values = Vec::new();
        for (subject, _) in subjects {
            let name = subject.rsplit('.').next().unwrap_or_default().to_owned();
            values.extend(self.get(context, &name).await?.map(|value| (name, value)));
        }
        Ok(values)
    }

    /// Removes a value.
    pub(crate) async fn remove(&self, context: &Context, name: &str) -> Result<(), FleetError> {
        let what = || format!("remove {name} from {}", self.stream);
        let stream = context.get_stream_no_info(self.stream).await;
        let stream = stream.map_err(|error| server_error(what(), error))?;
        let purged = stream.purge().filter(format!("{}.{name}", self.subject)).await;
        purged.map(drop).map_err(|error| server_error(what(), error))
    }
}

//! Live events: server-sent events that can be resumed. A client that is too slow is disconnected with a reason, so that it
//! neither uses up memory nor misses events unknowingly.

use axum::extract::Extension;
use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::{Interval, MissedTickBehavior, interval};
use windlass::audit::Record;
use windlass::internal::ReadSource;
use windlass::job::{JobId, JobType, QueueName, Tenant};
use windlass::limits::KEY_CACHE_TTL;
use windlass::store::EventFeed;
use windlass::store::caller::Caller;
use windlass_api::record::RecordView;
use windlass_api::text::Text;

use crate::http::app::App;
use crate::http::reply::error::ApiError;
use crate::http::reply::event_stream::{EventBody, EventSender};
use crate::http::request::auth::{Call, Credentials};
use crate::http::request::connection_slots::{ConnectionSlot, NoFreeSlot};
use crate::http::request::query::Query;
use crate::http::routes::audit::EventName;
use crate::http::schema::{Reply, Shape};
use crate::limits;

/// Filters for events.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct StreamQuery {
    /// Only events of this job.
    job: Option<Text<JobId>>,
    /// Only these event names, separated by commas.
    event: Option<String>,
    /// Only events by this actor.
    actor: Option<String>,
    /// Only events of this tenant.
    tenant: Option<Text<Tenant>>,
    /// Only events about this queue or its jobs.
    queue: Option<Text<QueueName>>,
    /// Only events about this type or its jobs.
    r#type: Option<Text<JobType>>,
    /// Start after this event number, like the header `Last-Event-ID`; 0 for all stored events.
    last_event_id: Option<u64>,
}

/// The filters of a stream.
struct EventFilter {
    job: Option<JobId>,
    events: Vec<EventName>,
    actor: Option<String>,
    tenant: Option<Tenant>,
    queue: Option<QueueName>,
    job_type: Option<JobType>,
}

impl EventFilter {
    async fn from_query(app: &App, query: StreamQuery) -> Result<EventFilter, ApiError> {
        let names = query.event.as_deref().unwrap_or_default();
        let mut events = Vec::new();
        for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            events.push(EventName::read(app, name).await?);
        }
        Ok(EventFilter {
            job: query.job.map(|job| job.0),
            events,
            actor: query.actor,
            tenant: query.tenant.map(|tenant| tenant.0),
            queue: query.queue.map(|queue| queue.0),
            job_type: query.r#type.map(|job_type| job_type.0),
        })
    }

    fn matches(&self, record: &Record) -> bool {
        self.job.is_none_or(|job| record.job == Some(job))
            && (self.events.is_empty() || self.events.iter().any(|event| event.matches(record)))
            && self.actor.as_ref().is_none_or(|actor| record.actor_id == *actor)
            && self.tenant.as_ref().is_none_or(|tenant| record.tenant == *tenant)
            && (self.queue.is_none() || record.queue == self.queue)
            && (self.job_type.is_none() || record.job_type == self.job_type)
    }
}

/// `GET /events`
pub(crate) async fn stream(
    Call { app, caller }: Call,
    Extension(pass): Extension<Credentials>,
    headers: HeaderMap,
    Query(query): Query<StreamQuery>,
) -> Result<EventBody, ApiError> {
    let places = place_for(&app, &caller)?;
    let after = resumed_from(&headers)?.or(query.last_event_id);
    let wanted = EventFilter::from_query(&app, query).await?;
    let feed = match after {
        Some(after) => {
            let feed = app.store().events(&caller, after);
            feed.wait_for_earlier_commits().await?;
            feed
        }
        None => app.store().events_from_now(&caller).await?,
    };
    let (events, body) = EventBody::new();
    ReadSource::spawn(Reader { app, pass, feed, wanted, events, _places: places }.run());
    Ok(body)
}

/// Takes a slot of the caller's key, and one of its tenant.
pub(crate) fn place_for(
    app: &App,
    caller: &Caller,
) -> Result<(ConnectionSlot, Option<ConnectionSlot>), ApiError> {
    let refused = |whose: &str, max: usize| {
        let message = format!("{whose} {max} streams open already");
        ApiError::too_much("too_many_streams", message, limits::STREAM_ALIVE_EVERY).with("limit", max)
    };
    let own = app.streams().take(&caller.bucket()).map_err(|taken| match taken {
        NoFreeSlot::All => refused("all callers together have", limits::STREAMS_MAX),
        NoFreeSlot::Each => refused("this key has", limits::STREAMS_PER_KEY_MAX),
    })?;
    let Some(tenant) = &caller.tenant else { return Ok((own, None)) };
    let tenants = app.tenant_streams().take(tenant.as_str());
    let tenants = tenants.map_err(|_| refused("this tenant has", limits::STREAMS_PER_TENANT_MAX))?;
    Ok((own, Some(tenants)))
}

impl Reply for EventBody {
    fn describe(shape: &mut Shape) {
        shape.add_event_stream::<RecordView>();
    }
}

/// The number of the last event that a reconnecting browser received.
pub(crate) fn resumed_from(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    let number = value.to_str().ok().and_then(|text| text.trim().parse().ok());
    number.map(Some).ok_or_else(|| {
        let message = "Last-Event-ID is not an event number";
        ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_value", message)
            .with("field", "last_event_id")
    })
}

/// Reads the feed for one client.
struct Reader {
    app: App,
    pass: Credentials,
    feed: EventFeed,
    wanted: EventFilter,
    events: EventSender,
    _places: (ConnectionSlot, Option<ConnectionSlot>),
}

impl Reader {
    async fn run(mut self) {
        let reason = self.send_all().await;
        self.events.end(reason);
    }

    /// Sends events until there is a reason to stop; returns the reason.
    async fn send_all(&mut self) -> &'static str {
        let mut checks = interval(KEY_CACHE_TTL);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut alive = interval(limits::STREAM_ALIVE_EVERY);
        alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let text = match self.next(&mut checks, &mut alive).await {
                Ok(Some(text)) => text,
                Ok(None) => continue,
                Err(reason) => return reason,
            };
            if let Err(reason) = self.events.send(text).await {
                return reason;
            }
        }
    }

    /// The next event to send, if there is one now.
    async fn next(
        &mut self,
        checks: &mut Interval,
        alive: &mut Interval,
    ) -> Result<Option<Bytes>, &'static str> {
        tokio::select! {
            record = self.feed.next() => {
                let record = record.map_err(|_| "stopped")?;
                Ok(self.wanted.matches(&record).then(|| self.app.encoded_events().get(&record)))
            }
            _ = alive.tick() => Ok(Some(Bytes::from_static(b": alive\n\n"))),
            _ = checks.tick() => match self.pass.caller(&self.app).await {
                Ok(_) => Ok(None),
                Err(_) => Err("unauthorized"),
            },
            () = self.app.draining() => Err("draining"),
            () = self.events.closed() => Err("closed"),
        }
    }
}

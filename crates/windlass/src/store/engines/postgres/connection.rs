//! One connection, driven from the thread that owns it. Writes are pipelined: they are sent as they come and answered
//! together at the next read or at the commit. It knows no tables.

pub(super) mod address;
pub(super) mod cluster;
mod tls;
pub(super) mod waits;

use std::borrow::Cow;
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row, Statement};

use self::address::Address;
use self::tls::Tls;
use self::waits::Waits;
use super::parameter::Parameter;
use crate::clock::Stopwatch;
use crate::error::StoreError;
use crate::limits;
use crate::store::engine::EngineResult;
use crate::store::engines::sql::columns::number;

type Answer = Result<u64, tokio_postgres::Error>;
type Answered = Result<Vec<Row>, tokio_postgres::Error>;

type AnswerOf<T> = Pin<Box<dyn Future<Output = Result<T, tokio_postgres::Error>> + Send>>;

/// A statement and its values.
pub(super) type Question<'a> = (&'a str, Vec<Parameter>);

/// A write that was sent and not answered yet.
struct Sent {
    answer: AnswerOf<u64>,
    /// The table of which the statement must affect all the rows it names.
    whole: Option<&'static str>,
    is_done: Option<Answer>,
}

/// Queries that were sent, each with its answer once it is there. Each is a task of the connection's runtime: an answer
/// that is not taken in would hold up those to everything that is sent later.
pub(super) struct Asked(Vec<(JoinHandle<Answered>, Option<Answered>)>);

impl Asked {
    /// Polls for the answers; ready once all are there, or one is an error.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        for (query, answer) in self.0.iter_mut().filter(|(_, answer)| answer.is_none()) {
            if let Poll::Ready(rows) = Pin::new(query).poll(context) {
                *answer = Some(rows.unwrap_or_else(|error| resume_unwind(error.into_panic())));
            }
        }
        let mut answers = self.0.iter().map(|(_, answer)| answer);
        let is_over = answers.clone().any(|answer| matches!(answer, Some(Err(_))));
        if is_over || answers.all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// A connection.
pub(super) struct Connection {
    runtime: Runtime,
    client: Arc<Client>,
    statements: HashMap<String, Statement>,
    keeps_statements: bool,
    prefix: String,
    sent: Vec<Sent>,
    /// TLS for cancel requests.
    tls: Tls,
    /// Why the connection is not usable any more.
    lost: Option<String>,
    /// How long its owner waits.
    pub(super) waits: Waits,
    /// Whether nothing may be asked: what is answered must not depend on it.
    pub(super) is_silent: bool,
    /// The round trip of the first statement.
    round_trip: Option<Duration>,
}

impl Connection {
    /// Connects, for work that no request waits for.
    pub(super) fn connect(address: &Address) -> EngineResult<Connection> {
        Connection::connect_within(address, Waits::default())
    }

    /// Connects, within the time limit for it.
    pub(super) fn connect_within(address: &Address, waits: Waits) -> EngineResult<Connection> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| StoreError::Database(format!("cannot start a runtime: {error}")))?;
        let most = waits.connect_max();
        let connecting = address.config.connect(address.tls.clone());
        let (client, connection) = match runtime.block_on(waits.give(connecting, most)) {
            Some(Ok(connected)) => connected,
            Some(Err(error)) => return Err(unavailable(&error)),
            None => return Err(StoreError::Unavailable(format!("no connection within {most:.0?}"))),
        };
        runtime.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to the database ended");
            }
        });
        let (statements, sent) = (HashMap::new(), Vec::new());
        let client = Arc::new(client);
        let (prefix, keeps_statements) = (address.prefix(), address.keeps_statements);
        let tls = address.tls.clone();
        Ok(Connection {
            runtime,
            client,
            statements,
            keeps_statements,
            prefix,
            sent,
            tls,
            lost: None,
            waits,
            is_silent: false,
            round_trip: None,
        })
    }

    /// How long a statement that does nothing takes: measured once, when it is asked for. Zero if the connection is lost.
    pub(super) fn round_trip(&mut self) -> Duration {
        if self.round_trip.is_none() && self.lost.is_none() {
            let watch = Stopwatch::start();
            self.round_trip = self.run("").is_ok().then(|| watch.elapsed());
        }
        self.round_trip.unwrap_or_default()
    }

    /// Why the connection is not usable any more, if so.
    pub(super) fn lost(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    /// Runs statements without values, several at once, and waits for them.
    pub(super) fn run(&mut self, sql: &str) -> EngineResult<()> {
        let (client, sql) = (self.client.clone(), self.named(sql));
        self.wait(async move { client.batch_execute(&sql).await })
    }

    /// Sends statements without values, without waiting.
    pub(super) fn send_plain(&mut self, sql: &'static str) {
        let client = self.client.clone();
        self.enqueue(async move { client.batch_execute(sql).await.map(|()| 0) }, None);
    }

    /// Sends a write. If it must affect exactly so many rows of a table, anything else is damage, and raises an error
    /// in the database itself: the commit may already be on its way behind it, and must fail.
    pub(super) fn send(
        &mut self,
        sql: &str,
        values: Vec<Parameter>,
        expected: Option<(u64, &'static str)>,
    ) -> EngineResult<()> {
        let client = self.client.clone();
        let (mut values, mut sql, whole) = (values, Cow::Borrowed(sql), expected.map(|(_, table)| table));
        if let Some((rows, _)) = expected {
            values.push(number(rows).into());
            let place = values.len();
            sql = Cow::Owned(format!(
                "WITH touched AS ({sql} RETURNING 1) SELECT 1 / (count(*) = ${place})::int FROM touched"
            ));
        }
        if self.keeps_statements {
            let statement = self.statement(&sql, &values)?;
            self.enqueue(async move { client.execute_raw(&statement, values).await }, whole);
        } else {
            let sql = self.named(&sql);
            let work = async move { client.execute_typed(&sql, &typed(&values)).await };
            self.enqueue(work, whole);
        }
        Ok(())
    }

    /// Prepares a statement, unless it is or statements are not kept.
    pub(super) fn prepare(&mut self, sql: &str, values: &[Parameter]) -> EngineResult<()> {
        if self.keeps_statements { self.statement(sql, values).map(drop) } else { Ok(()) }
    }

    /// Writes everything sent to the socket, so that the database works on it while more is prepared.
    pub(super) fn flush(&mut self) {
        self.runtime.block_on(tokio::task::yield_now());
    }

    /// Runs a query, after everything sent before.
    pub(super) fn fetch(&mut self, sql: &str, values: Vec<Parameter>) -> EngineResult<Vec<Row>> {
        self.fetch_last(sql, values)?
    }

    /// Runs a query like [`fetch`](Connection::fetch). The outer error is that of something sent before, the inner one
    /// that of this query.
    pub(super) fn fetch_last(
        &mut self,
        sql: &str,
        values: Vec<Parameter>,
    ) -> EngineResult<EngineResult<Vec<Row>>> {
        let client = self.client.clone();
        if self.keeps_statements {
            let statement = self.statement(sql, &values)?;
            return self.receive(async move { client.query(&statement, &borrowed(&values)).await });
        }
        let sql = self.named(sql);
        self.receive(async move { client.query_typed(&sql, &typed(&values)).await })
    }

    /// Runs several queries in one round trip; the answers are in their order.
    pub(super) fn fetch_all(&mut self, questions: Vec<Question<'_>>) -> EngineResult<Vec<Vec<Row>>> {
        let asked = self.ask(questions)?;
        self.answers(asked)
    }

    /// Sends several queries, without waiting.
    pub(super) fn ask(&mut self, questions: Vec<Question<'_>>) -> EngineResult<Asked> {
        self.check_usable()?;
        let mut answers = Vec::with_capacity(questions.len());
        for (sql, values) in questions {
            let client = self.client.clone();
            let answer: AnswerOf<Vec<Row>> = if self.keeps_statements {
                let statement = self.statement(sql, &values)?;
                Box::pin(async move { client.query(&statement, &borrowed(&values)).await })
            } else {
                let sql = self.named(sql);
                Box::pin(async move { client.query_typed(&sql, &typed(&values)).await })
            };
            answers.push(answer);
        }
        let mut asked = Asked(Vec::with_capacity(answers.len()));
        for mut answer in answers {
            // The first to be polled is the first on the wire.
            let first = answer.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            asked.0.push(match first {
                Poll::Ready(rows) => (self.runtime.spawn(std::future::ready(rows)), None),
                Poll::Pending => (self.runtime.spawn(answer), None),
            });
        }
        Ok(asked)
    }

    /// The answers to what was asked, in its order, after those to everything sent before.
    pub(super) fn answers(&mut self, mut asked: Asked) -> EngineResult<Vec<Vec<Row>>> {
        self.wait(async move {
            poll_fn(|context| asked.poll(context)).await;
            // Where one is an error, others may be missing.
            asked.0.into_iter().filter_map(|(_, answer)| answer).collect()
        })
    }

    /// Waits until these are answered, or cannot be any more, or else until `interruption` ends; says whether it is not
    /// that.
    pub(super) fn are_answered_before(
        &mut self,
        asked: &mut Asked,
        interruption: impl Future<Output = ()>,
    ) -> bool {
        let mut interruption = std::pin::pin!(interruption);
        let sent = &mut self.sent;
        let first = poll_fn(|context| {
            // Each is polled, whatever the others return.
            let failed = sent.iter_mut().filter_map(|sent| {
                sent.poll(context);
                sent.is_done.as_ref().filter(|answer| answer.is_err())
            });
            if failed.count() > 0 || asked.poll(context).is_ready() {
                return Poll::Ready(true);
            }
            interruption.as_mut().poll(context).map(|()| false)
        });
        let most = self.waits.call_max();
        let answered = self.runtime.block_on(self.waits.give(first, most));
        if answered.is_none() {
            self.give_up(most);
        }
        answered.unwrap_or(true)
    }

    /// Waits until everything sent is answered; returns the first error, because later ones follow from it.
    pub(super) fn flush_replies(&mut self) -> EngineResult<()> {
        self.wait(async { Ok(()) })
    }

    /// Drops what was sent: its transaction is given up.
    pub(super) fn abandon(&mut self) {
        self.sent.clear();
    }

    /// Marks the connection as unusable.
    pub(super) fn mark_lost(&mut self, why: &str) {
        self.lost.get_or_insert_with(|| why.to_owned());
    }

    fn named(&self, sql: &str) -> String {
        sql.replace("@.", &self.prefix)
    }

    fn statement(&mut self, sql: &str, values: &[Parameter]) -> EngineResult<Statement> {
        if let Some(known) = self.statements.get(sql) {
            return Ok(known.clone());
        }
        let kinds: Vec<Type> = values.iter().map(Parameter::kind).collect();
        let (client, text) = (self.client.clone(), self.named(sql));
        let statement = self.wait(async move { client.prepare_typed(&text, &kinds).await })?;
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    /// Polls immediately, so that the order of calls is the order on the wire; the answer is awaited later.
    fn enqueue(&mut self, work: impl Future<Output = Answer> + Send + 'static, whole: Option<&'static str>) {
        let mut sent = Sent { answer: Box::pin(work), whole, is_done: None };
        sent.poll(&mut Context::from_waker(Waker::noop()));
        self.sent.push(sent);
    }

    /// Waits for everything sent, and for `work`, which is sent last.
    fn wait<T>(&mut self, work: impl Future<Output = Result<T, tokio_postgres::Error>>) -> EngineResult<T> {
        self.receive(work)?
    }

    /// The same with the errors apart: the outer one is that of something sent before.
    fn receive<T>(
        &mut self,
        work: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> EngineResult<EngineResult<T>> {
        self.check_usable()?;
        let mut sent = std::mem::take(&mut self.sent);
        let mut work = Box::pin(work);
        let mut answer = None;
        let all = poll_fn(|context| {
            if answer.is_none()
                && let Poll::Ready(ready) = work.as_mut().poll(context)
            {
                answer = Some(ready);
            }
            // Each is polled, whatever the others return.
            let waiting = sent.iter_mut().filter_map(|sent| (!sent.poll(context)).then_some(())).count();
            let is_settled = waiting == 0;
            if is_settled && answer.is_some() { Poll::Ready(()) } else { Poll::Pending }
        });
        let most = self.waits.call_max();
        if self.runtime.block_on(self.waits.give(all, most)).is_none() {
            self.give_up(most);
        }
        for sent in sent {
            match (sent.is_done, sent.whole) {
                (Some(Ok(_)), _) => {}
                (Some(Err(error)), Some(table)) if error.code() == Some(&SqlState::DIVISION_BY_ZERO) => {
                    return Err(StoreError::Damaged(format!("a row of {table} is missing")));
                }
                (Some(Err(error)), _) => return Err(self.fail(&error)),
                (None, _) => return Err(self.silence()),
            }
        }
        Ok(match answer {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(error)) => Err(self.fail(&error)),
            None => Err(self.silence()),
        })
    }

    /// Fails if the connection is lost, or may not be asked.
    fn check_usable(&self) -> EngineResult<()> {
        if let Some(why) = &self.lost {
            return Err(StoreError::Unavailable(why.clone()));
        }
        if self.is_silent {
            return Err(StoreError::Database("this needs what is stored now".to_owned()));
        }
        Ok(())
    }

    /// There was no answer within this time.
    fn give_up(&mut self, most: Duration) {
        if self.waits.cancellation.is_cancelled() {
            self.cancel();
        }
        self.mark_lost(&format!("no answer within {most:.0?}"));
    }

    /// Asks the server to cancel the running statement, because no caller waits for its answer. The connection is not
    /// used again, because the request may arrive after the statement has ended.
    fn cancel(&mut self) {
        let (request, tls) = (self.client.cancel_token(), self.tls.clone());
        let cancelling =
            async move { tokio::time::timeout(limits::CANCEL_MAX, request.cancel_query(tls)).await };
        let asked = self.runtime.block_on(cancelling);
        if !matches!(asked, Ok(Ok(()))) {
            tracing::debug!("could not cancel an abandoned statement; it ends by its own time limit");
        }
        self.mark_lost("its caller stopped waiting");
    }

    fn silence(&self) -> StoreError {
        StoreError::Unavailable(self.lost.clone().unwrap_or_else(|| "no answer".to_owned()))
    }

    fn fail(&mut self, error: &tokio_postgres::Error) -> StoreError {
        let classified = classify_error(error);
        // The server uses its wall clock: if that jumps, it cancels a statement immediately. The statement is retried,
        // as after a manual cancellation, in the same way as after a broken connection.
        let is_early = error.code() == Some(&SqlState::QUERY_CANCELED)
            && self.waits.until.is_some_and(|until| !until.is_over());
        if self.client.is_closed() || is_early || matches!(classified, StoreError::Unavailable(_)) {
            let why = words(error);
            self.mark_lost(&why);
            return StoreError::Unavailable(why);
        }
        classified
    }
}

impl Sent {
    /// Polls for the answer; true once it is there.
    fn poll(&mut self, context: &mut Context<'_>) -> bool {
        if self.is_done.is_none()
            && let Poll::Ready(answer) = self.answer.as_mut().poll(context)
        {
            self.is_done = Some(answer);
        }
        self.is_done.is_some()
    }
}

fn borrowed(values: &[Parameter]) -> Vec<&(dyn ToSql + Sync)> {
    values.iter().map(|value| value as &(dyn ToSql + Sync)).collect()
}

fn typed(values: &[Parameter]) -> Vec<(&(dyn ToSql + Sync), Type)> {
    values.iter().map(|value| (value as &(dyn ToSql + Sync), value.kind())).collect()
}

fn unavailable(error: &tokio_postgres::Error) -> StoreError {
    StoreError::Unavailable(words(error))
}

/// The database's own message rather than the driver's.
fn words(error: &tokio_postgres::Error) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
    error
        .as_db_error()
        .map_or_else(|| format!("{error}{}", cause.unwrap_or_default()), |answer| answer.message().to_owned())
}

/// Converts a database error into a store error.
pub(super) fn classify_error(error: &tokio_postgres::Error) -> StoreError {
    let Some(code) = error.code() else { return unavailable(error) };
    let state = code.code();
    if *code == SqlState::DISK_FULL {
        return StoreError::Full;
    }
    if *code == SqlState::LOCK_NOT_AVAILABLE {
        return StoreError::Overloaded { waiting: 1, retry_after: limits::OVERLOADED_RETRY_AFTER };
    }
    if [SqlState::DATA_CORRUPTED, SqlState::INDEX_CORRUPTED].contains(code) {
        return StoreError::Damaged(words(error));
    }
    // Connections that end (08), servers that start, stop or fail over (57P), sessions that were ended for idling, and
    // errors of a server that has become a standby. A transaction that failed earlier without being rolled back would
    // be refused forever: another connection is needed.
    let is_gone = state.starts_with("08")
        || *code == SqlState::IN_FAILED_SQL_TRANSACTION
        || state.starts_with("57P")
        || *code == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
        || *code == SqlState::READ_ONLY_SQL_TRANSACTION
        || *code == SqlState::TOO_MANY_CONNECTIONS;
    if is_gone { unavailable(error) } else { StoreError::Database(words(error)) }
}

/// A column of a row; an unexpected type or value is damage.
pub(super) fn get<'r, T: tokio_postgres::types::FromSql<'r>>(row: &'r Row, place: usize) -> EngineResult<T> {
    row.try_get(place).map_err(|error| StoreError::Damaged(error.to_string()))
}

//! Random handlers, crashed at every point: whatever a handler was told before something later was saved, it is told
//! again in every later attempt, and it ends as if nothing had happened.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use windlass::context::{Cx, First};
use windlass::handler::State;
use windlass::job::{AttemptOutcome, Failure, GroupStrategy, JobId, RetryPolicy, State as JobState};
use windlass::testing::{CrashPoint, TestQueue};
use windlass::worker::Worker;

use super::bench::outcomes;
use super::kinds::{Fill, Greet, greet};
use crate::fixture::secs;
use crate::walk::dice::Dice;

/// How the work of a step goes.
#[derive(Debug, Clone, Copy)]
struct How {
    /// It fails for now so often.
    fails: usize,
    /// Then it fails for good, instead of succeeding.
    is_bad: bool,
}

/// One thing that a handler does.
#[derive(Debug, Clone, Copy)]
enum Act {
    /// A step whose error ends the attempt.
    Step(&'static str, How),
    /// A step whose error is noted, and the handler goes on.
    Skip(&'static str, How),
    /// Another step if the first fails.
    Fallback(How),
    /// Up to three tries in place.
    Retry(How),
    /// The same with a sleep after each.
    RetryLater(How),
    /// A step that is dropped before it ends.
    Drop(&'static str),
    /// A step beside a sleep, and the sleep is dropped.
    Race(How),
    /// Two steps side by side.
    Join(How, How),
    Sleep(u64),
    /// A signal that was sent, and one that never comes.
    Hear,
    HearNothing,
    HearEither,
    Children(usize),
    /// Children beside a sleep that ends first.
    GiveUpOnChildren,
    Checkpoint,
    /// The attempt fails here the first time.
    Fail,
}

/// What happened outside of handlers, and what each attempt was told.
#[derive(Clone, Default)]
struct World(Arc<Mutex<Facts>>);

#[derive(Default)]
struct Facts {
    program: Vec<Act>,
    runs: BTreeMap<String, usize>,
    attempts: BTreeMap<u32, Told>,
}

/// What one attempt was told, in order.
#[derive(Debug, Clone, Default)]
struct Told {
    lines: Vec<String>,
    /// So many of them came before something that was saved.
    durable: usize,
    /// The same, if the attempt parks where it is.
    if_parked: Option<usize>,
}

impl World {
    fn count(&self, place: &str) -> usize {
        let mut facts = self.0.lock().unwrap();
        let count = facts.runs.entry(place.to_owned()).or_default();
        *count += 1;
        *count
    }

    async fn work(&self, place: String, how: How) -> anyhow::Result<String> {
        tokio::task::yield_now().await;
        match self.count(&place) {
            count if count <= how.fails => Err(anyhow::anyhow!("{place} failed, run {count}")),
            _ if how.is_bad => Err(Failure::permanent("bad", format!("{place} is bad")).into()),
            count => Ok(format!("{place} ran {count}")),
        }
    }

    fn told<T>(&self, cx: &Cx, change: impl FnOnce(&mut Told) -> T) -> T {
        change(self.0.lock().unwrap().attempts.entry(cx.attempt()).or_default())
    }

    /// The handler is told this; if `is_saved`, that and all before it is durable.
    fn tell(&self, cx: &Cx, line: String, is_saved: bool) {
        self.told(cx, |told| {
            told.lines.push(line);
            told.if_parked = None;
            if is_saved {
                told.durable = told.lines.len();
            }
        });
    }

    /// Something is called that may park: what was told before is durable then.
    fn may_park(&self, cx: &Cx) {
        self.told(cx, |told| told.if_parked = Some(told.lines.len()));
    }
}

fn said(outcome: &anyhow::Result<String>) -> (String, bool) {
    match outcome {
        Ok(value) => (value.clone(), true),
        Err(error) => (format!("error: {error}"), error.downcast_ref::<Failure>().is_some_and(is_permanent)),
    }
}

fn is_permanent(failure: &Failure) -> bool {
    failure.category == windlass::job::Category::Permanent
}

/// What a handler that follows a program needs.
struct Run<'a> {
    cx: &'a Cx,
    world: &'a World,
    place: usize,
}

impl Run<'_> {
    async fn step(&self, name: &str, part: &str, how: How) -> anyhow::Result<String> {
        let place = format!("{}{part}", self.place);
        let outcome = self.cx.step(name, self.world.work(place, how)).await;
        let (line, is_saved) = said(&outcome);
        self.world.tell(self.cx, line, is_saved);
        outcome
    }

    async fn sleep(&self, seconds: u64) -> anyhow::Result<()> {
        self.world.may_park(self.cx);
        self.cx.sleep(secs(seconds)).await?;
        self.world.tell(self.cx, "slept".to_owned(), true);
        Ok(())
    }

    async fn steps(&self, act: Act) -> anyhow::Result<()> {
        match act {
            Act::Step(name, how) => drop(self.step(name, "", how).await?),
            Act::Skip(name, how) => drop(self.step(name, "", how).await),
            Act::Fallback(how) => {
                if self.step("primary", "p", how).await.is_err() {
                    self.step("fallback", "f", How { fails: 0, is_bad: false }).await?;
                }
            }
            Act::Retry(how) => {
                for _ in 0..3 {
                    if self.step("try", "", how).await.is_ok() {
                        break;
                    }
                }
            }
            Act::RetryLater(how) => {
                for _ in 0..3 {
                    if self.step("try", "", how).await.is_ok() {
                        break;
                    }
                    self.sleep(7).await?;
                }
            }
            Act::Join(one, other) => {
                let work = |part: &str, how| self.world.work(format!("{}{part}", self.place), how);
                let (left, right) = (work("l", one), work("r", other));
                let (left, right) = tokio::join!(self.cx.step("left", left), self.cx.step("right", right));
                let ((left, is_left_saved), (right, is_right_saved)) = (said(&left), said(&right));
                self.world.tell(self.cx, format!("{left}, {right}"), is_left_saved && is_right_saved);
            }
            Act::Drop(name) => {
                let never = self.cx.step(name, std::future::pending::<anyhow::Result<String>>());
                tokio::select! {
                    biased;
                    _ = never => anyhow::bail!("what was dropped came"),
                    () = async { for _ in 0..3 { tokio::task::yield_now().await } } => {}
                }
                self.world.tell(self.cx, "dropped".to_owned(), false);
            }
            _ => unreachable!("it is no step"),
        }
        Ok(())
    }

    async fn act(&self, act: Act) -> anyhow::Result<()> {
        match act {
            Act::Race(how) => {
                let work = self.world.work(format!("{}", self.place), how);
                let first = self.cx.race(self.cx.step("race", work), self.cx.sleep(secs(3600))).await;
                let (line, is_saved) = match first {
                    First::Left(outcome) => said(&outcome),
                    First::Right(_) => anyhow::bail!("a sleep of an hour was shorter than a step"),
                };
                self.world.tell(self.cx, line, is_saved);
            }
            Act::Sleep(seconds) => self.sleep(seconds).await?,
            Act::Hear => {
                self.world.may_park(self.cx);
                let heard: Option<u32> = self.cx.wait_signal("word", None).await?;
                self.world.tell(self.cx, format!("{heard:?}"), true);
            }
            Act::HearNothing => {
                self.world.may_park(self.cx);
                let heard: Option<u32> = self.cx.wait_signal("nothing", Some(secs(5))).await?;
                self.world.tell(self.cx, format!("{heard:?}"), true);
            }
            Act::HearEither => {
                self.world.may_park(self.cx);
                let heard = self.cx.wait_any::<u32>(&["nothing", "word"], Some(secs(3600))).await?;
                self.world.tell(self.cx, format!("{heard:?}"), true);
            }
            Act::Children(count) => {
                self.world.may_park(self.cx);
                let children = (0..count).map(|bytes| Fill { bytes });
                let results = self.cx.spawn_all(children, GroupStrategy::CollectAll).await?.all()?;
                self.world.tell(self.cx, results.join(" "), true);
            }
            Act::GiveUpOnChildren => {
                self.world.may_park(self.cx);
                let never = self.cx.spawn_all([Fill { bytes: 1000 }], GroupStrategy::CollectAll);
                match self.cx.race(never, self.cx.sleep(secs(3))).await {
                    First::Left(_) => anyhow::bail!("children that take an hour were quick"),
                    First::Right(slept) => slept?,
                }
                self.world.tell(self.cx, "gave up".to_owned(), false);
            }
            Act::Checkpoint => self.cx.checkpoint(&self.place).await?,
            Act::Fail => anyhow::ensure!(self.world.count(&format!("{}", self.place)) > 1, "once more"),
            step => self.steps(step).await?,
        }
        Ok(())
    }
}

async fn follow(_: Greet, cx: Cx, State(world): State<World>) -> anyhow::Result<String> {
    let program = world.0.lock().unwrap().program.clone();
    world.told(&cx, |told| *told = Told::default());
    for (place, act) in program.into_iter().enumerate() {
        Run { cx: &cx, world: &world, place }.act(act).await?;
    }
    Ok(world.told(&cx, |told| told.lines.join("; ")))
}

async fn child(job: Fill, cx: Cx) -> anyhow::Result<String> {
    if job.bytes >= 1000 {
        cx.sleep(secs(3600)).await?;
    }
    Ok(format!("child {}", job.bytes))
}

fn how(dice: &mut Dice) -> How {
    How { fails: dice.below(3), is_bad: dice.below(5) == 0 }
}

fn next(dice: &mut Dice) -> Act {
    let name = ["a", "b"][dice.below(2)];
    match dice.below(18) {
        0 | 1 => Act::Step(name, How { is_bad: false, ..how(dice) }),
        2..=4 => Act::Skip(name, how(dice)),
        5 => Act::Fallback(how(dice)),
        6 => Act::Retry(how(dice)),
        7 => Act::RetryLater(how(dice)),
        8 => Act::Drop(name),
        9 => Act::Race(how(dice)),
        10 => Act::Join(how(dice), how(dice)),
        11 => Act::Sleep(1 + dice.below(20) as u64),
        12 => Act::Hear,
        13 => Act::HearNothing,
        14 => Act::HearEither,
        15 => [Act::Children(dice.below(3)), Act::GiveUpOnChildren][dice.below(2)],
        16 => Act::Checkpoint,
        _ => Act::Fail,
    }
}

/// Runs a program to its end, with a worker that dies at this point at first.
async fn run(t: &TestQueue, program: &[Act], crash: Option<CrashPoint>) -> (JobId, World) {
    let world = World::default();
    world.0.lock().unwrap().program = program.to_vec();
    let job = t.queue().submit(greet("x")).retry(RetryPolicy::fixed().attempts(100)).await.unwrap();
    for word in 0..u32::try_from(program.len()).unwrap() {
        job.signal("word", &word).await.unwrap();
    }
    let worker = || Worker::new(t.queue()).with(world.clone()).handle(follow).handle(child);
    if let Some(point) = crash {
        for _ in 0..2 {
            t.run_due(worker().crash_at(point.clone())).await;
            t.advance(secs(40)).await;
        }
    }
    t.run_for(secs(6 * 3600), worker).await;
    (job.id(), world)
}

/// Every attempt was told what earlier ones were told before something was saved; and the job ended well.
async fn check(t: &TestQueue, id: JobId, world: &World, what: &str) {
    let job = t.job(id).await.job;
    let error = job.details.error.clone();
    assert_eq!(job.state, JobState::Completed, "{what}: {error:?}");
    let ended = outcomes(t.queue(), id).await;
    let mut durable: Vec<String> = Vec::new();
    let facts = world.0.lock().unwrap();
    for (number, told) in &facts.attempts {
        let common = durable.len().min(told.lines.len());
        assert_eq!(told.lines[..common], durable[..common], "{what}: attempt {number} {:#?}", facts.attempts);
        let is_parked = ended[*number as usize - 1] == AttemptOutcome::Parked;
        let parked = told.if_parked.filter(|_| is_parked).unwrap_or(0);
        let kept = told.durable.max(parked);
        if kept > durable.len() {
            durable = told.lines[..kept].to_vec();
        }
    }
    let last = facts.attempts.values().next_back().expect("it ran");
    assert!(last.lines.len() >= durable.len(), "{what}: {:#?}", facts.attempts);
}

fn points() -> Vec<CrashPoint> {
    let mut points = vec![
        CrashPoint::BeforeStart,
        CrashPoint::AfterCheckpoint,
        CrashPoint::BeforeSpawn,
        CrashPoint::AfterSpawn,
        CrashPoint::BeforePark,
        CrashPoint::BeforeFinish,
    ];
    for name in ["a", "b", "primary", "fallback", "try", "race", "left", "right"] {
        points.push(CrashPoint::BeforeStep(name.into()));
        points.push(CrashPoint::AfterStep(name.into()));
    }
    points
}

/// M64, M70, M71, M72, M73
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_point_changes_nothing_that_a_handler_was_told() {
    for seed in 0..15 {
        let mut dice = Dice::new(seed);
        let program: Vec<Act> = (0..3 + dice.below(6)).map(|_| next(&mut dice)).collect();
        let t = TestQueue::new();
        let (id, world) = run(&t, &program, None).await;
        check(&t, id, &world, &format!("seed {seed}, {program:?}, no crash")).await;
        let plain = t.queue().handle::<Greet>(id).result(secs(0)).await.unwrap();
        let is_steady =
            !format!("{program:?}").contains("fails: 1") && !format!("{program:?}").contains("fails: 2");
        for point in points() {
            let what = format!("seed {seed}, {program:?}, {point:?}");
            let (id, world) = run(&t, &program, Some(point.clone())).await;
            check(&t, id, &world, &what).await;
            let is_before = matches!(point, CrashPoint::BeforeStep(_) | CrashPoint::BeforeStart);
            if is_steady && is_before {
                // Work that always goes alike, and was never interrupted half-way: even the end is the same.
                let result = t.queue().handle::<Greet>(id).result(secs(0)).await.unwrap();
                assert_eq!(result, plain, "{what}");
            }
        }
    }
}

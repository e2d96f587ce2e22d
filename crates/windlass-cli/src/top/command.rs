//! Commands from the screen: the confirmation question, the request, and the message afterwards. A command names its job or
//! queue, so that it is not affected when lists change meanwhile.

use serde_json::{Value, json};
use windlass::job::JobAction;

use super::format::{several, short};
use super::model::{Job, Plain, Queue, sum};

/// A command to be confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) verb: Verb,
    /// The queue's name or the job's id.
    pub(super) target: Plain,
    /// The confirmation question.
    pub(super) question: String,
    /// What will happen.
    pub(super) consequence: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    PauseQueue,
    ResumeQueue,
    Job(JobAction),
}

impl Command {
    /// Pauses or resumes a queue.
    pub(super) fn toggle_queue(queue: &Queue) -> Command {
        if queue.paused.is_some() { Command::resume_queue(queue) } else { Command::pause_queue(queue) }
    }

    fn pause_queue(queue: &Queue) -> Command {
        let running = sum(&queue.depth, &["running"]);
        let consequence = format!(
            "No job of it starts until it is resumed: {} {}. {}",
            several(sum(&queue.depth, &["scheduled"]), "job waits", "jobs wait"),
            "and new jobs",
            if running == 0 {
                "None is running.".to_owned()
            } else {
                format!("{}.", several(running, "running job finishes", "running jobs finish"))
            },
        );
        Command {
            verb: Verb::PauseQueue,
            target: queue.name.clone(),
            question: format!("Pause queue {}?", queue.name),
            consequence,
        }
    }

    /// Resumes a queue.
    pub(super) fn resume_queue(queue: &Queue) -> Command {
        let waiting = several(sum(&queue.depth, &["scheduled"]), "waiting job", "waiting jobs");
        let by =
            queue.paused.as_ref().map_or(String::new(), |pause| format!(" It was paused by {}.", pause.by));
        Command {
            verb: Verb::ResumeQueue,
            target: queue.name.clone(),
            question: format!("Resume queue {}?", queue.name),
            consequence: format!("Workers may start the {waiting} at once.{by}"),
        }
    }

    /// Suspends or resumes a job.
    pub(super) fn toggle_job(job: &Job) -> Command {
        if job.is_suspended() { Command::resume(job) } else { Command::suspend(job) }
    }

    fn suspend(job: &Job) -> Command {
        let consequence = match job.state.as_str() {
            "running" => "The running attempt finishes; the job does not start again until it is resumed.",
            _ => "It does not start until it is resumed.",
        };
        Command::on_job(job, Verb::Job(JobAction::Suspend), "Suspend", consequence.to_owned())
    }

    fn resume(job: &Job) -> Command {
        Command::on_job(
            job,
            Verb::Job(JobAction::Resume),
            "Resume",
            "It returns to its previous state and may start at once.".to_owned(),
        )
    }

    /// Cancels a job.
    pub(super) fn cancel(job: &Job) -> Command {
        let consequence = match job.state.as_str() {
            "running" => "Its worker is asked to stop, and later reports are ignored. This cannot be undone.",
            _ => "It will never run. This cannot be undone.",
        };
        Command::on_job(job, Verb::Job(JobAction::Cancel), "Cancel", consequence.to_owned())
    }

    /// Resumes a suspended job, or redrives a final one.
    pub(super) fn redrive_or_resume(job: &Job) -> Command {
        if job.is_suspended() {
            return Command::resume(job);
        }
        let consequence = "Submits a new job with the same payload and a fresh set of attempts.";
        Command::on_job(job, Verb::Job(JobAction::Redrive), "Redrive", consequence.to_owned())
    }

    fn on_job(job: &Job, verb: Verb, word: &str, consequence: String) -> Command {
        let question = format!("{word} {} {} ({})?", job.r#type, short(job.id.as_str()), job.state);
        Command { verb, target: job.id.clone(), question, consequence }
    }

    /// The path of the request.
    pub(super) fn path(&self) -> [&str; 3] {
        let target = self.target.as_str();
        match self.verb {
            Verb::PauseQueue => ["queues", target, "pause"],
            Verb::ResumeQueue => ["queues", target, "resume"],
            Verb::Job(action) => ["jobs", target, action.as_str()],
        }
    }

    /// The body of the request.
    pub(super) fn body(&self) -> Value {
        match self.verb {
            Verb::Job(JobAction::Redrive) => json!({}),
            _ => json!({"reason": "from windlass top"}),
        }
    }

    /// The message once the server has done it.
    pub(super) fn done(&self, answer: &Value) -> String {
        let target = &self.target;
        if answer.get("changed").and_then(Value::as_bool) == Some(false) {
            return format!(
                "{} was already in that state",
                if self.is_about_queue() { target.as_str() } else { short(target.as_str()) }
            );
        }
        let id = short(target.as_str());
        match self.verb {
            Verb::PauseQueue => format!("queue {target} is paused"),
            Verb::ResumeQueue => format!("queue {target} is resumed"),
            Verb::Job(JobAction::Suspend) => format!("{id} is suspended"),
            Verb::Job(JobAction::Resume) => format!("{id} is resumed"),
            Verb::Job(JobAction::Cancel) => format!("{id} is cancelled"),
            Verb::Job(_) => {
                let new = Plain::new(answer.get("id").and_then(Value::as_str).unwrap_or_default());
                format!("{id} is redriven as {}", short(new.as_str()))
            }
        }
    }

    fn is_about_queue(&self) -> bool {
        matches!(self.verb, Verb::PauseQueue | Verb::ResumeQueue)
    }
}

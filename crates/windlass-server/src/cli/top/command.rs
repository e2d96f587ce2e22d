//! What a person may have done from the screen: the question that is asked first, the call, and what is said afterwards.
//! An order names its job or queue by itself, so that a list that moves on meanwhile changes nothing about it.

use serde_json::{Value, json};

use super::format::{several, short};
use super::model::{Job, Plain, Queue, sum};

/// Something to be done, once it was confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Command {
    /// What it is.
    pub(super) verb: Verb,
    /// The queue's name or the job's id.
    pub(super) target: Plain,
    /// What is asked.
    pub(super) question: String,
    /// What will happen.
    pub(super) consequence: String,
}

/// What can be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    PauseQueue,
    ResumeQueue,
    Suspend,
    Resume,
    Cancel,
    Redrive,
}

impl Command {
    /// Pauses a queue, or lets it go on.
    pub(super) fn toggle_queue(queue: &Queue) -> Command {
        if queue.paused.is_some() { Command::resume_queue(queue) } else { Command::pause_queue(queue) }
    }

    fn pause_queue(queue: &Queue) -> Command {
        let running = sum(&queue.depth, &["running"]);
        let consequence = format!(
            "Nothing of it starts until it is resumed: {} {}. {}",
            several(sum(&queue.depth, &["scheduled"]), "job waits", "jobs wait"),
            "and whatever comes",
            if running == 0 {
                "None is running.".to_owned()
            } else {
                format!("{} to the end.", several(running, "running job goes on", "running jobs go on"))
            },
        );
        Command {
            verb: Verb::PauseQueue,
            target: queue.name.clone(),
            question: format!("Pause the queue {}?", queue.name),
            consequence,
        }
    }

    /// Lets a queue go on.
    pub(super) fn resume_queue(queue: &Queue) -> Command {
        let waiting = several(sum(&queue.depth, &["scheduled"]), "job that waits", "jobs that wait");
        let by =
            queue.paused.as_ref().map_or(String::new(), |pause| format!(" It was paused by {}.", pause.by));
        Command {
            verb: Verb::ResumeQueue,
            target: queue.name.clone(),
            question: format!("Resume the queue {}?", queue.name),
            consequence: format!("Workers may start the {waiting} at once.{by}"),
        }
    }

    /// Holds a job, or lets it go on.
    pub(super) fn toggle_job(job: &Job) -> Command {
        if job.is_suspended() { Command::resume(job) } else { Command::suspend(job) }
    }

    fn suspend(job: &Job) -> Command {
        let consequence = match job.state.as_str() {
            "running" => {
                "What it is doing now goes on to the end of the attempt; it is not started again until it is resumed."
            }
            _ => "It is not started until it is resumed.",
        };
        Command::on_job(job, Verb::Suspend, "Suspend", consequence.to_owned())
    }

    fn resume(job: &Job) -> Command {
        Command::on_job(
            job,
            Verb::Resume,
            "Resume",
            "It goes back to where it was, and may start at once.".to_owned(),
        )
    }

    /// Ends a job.
    pub(super) fn cancel(job: &Job) -> Command {
        let consequence = match job.state.as_str() {
            "running" => {
                "Its worker is told to stop, and what it reports later does not count. This cannot be undone."
            }
            _ => "It never runs. This cannot be undone.",
        };
        Command::on_job(job, Verb::Cancel, "Cancel", consequence.to_owned())
    }

    /// Lets a suspended job go on, or submits one that has ended again.
    pub(super) fn redrive_or_resume(job: &Job) -> Command {
        if job.is_suspended() {
            return Command::resume(job);
        }
        let consequence =
            "A new job with the same payload is submitted, and may be tried as often as this one.";
        Command::on_job(job, Verb::Redrive, "Redrive", consequence.to_owned())
    }

    fn on_job(job: &Job, verb: Verb, word: &str, consequence: String) -> Command {
        let question = format!("{word} {} {} ({})?", job.r#type, short(job.id.as_str()), job.state);
        Command { verb, target: job.id.clone(), question, consequence }
    }

    /// Where it is posted to.
    pub(super) fn path(&self) -> [&str; 3] {
        let target = self.target.as_str();
        match self.verb {
            Verb::PauseQueue => ["queues", target, "pause"],
            Verb::ResumeQueue => ["queues", target, "resume"],
            Verb::Suspend => ["jobs", target, "suspend"],
            Verb::Resume => ["jobs", target, "resume"],
            Verb::Cancel => ["jobs", target, "cancel"],
            Verb::Redrive => ["jobs", target, "redrive"],
        }
    }

    /// What is posted.
    pub(super) fn body(&self) -> Value {
        match self.verb {
            Verb::Redrive => json!({}),
            _ => json!({"reason": "from windlass top"}),
        }
    }

    /// What is said once the server did it.
    pub(super) fn done(&self, answer: &Value) -> String {
        let target = &self.target;
        if answer.get("changed").and_then(Value::as_bool) == Some(false) {
            return format!(
                "{} was so already",
                if self.is_about_queue() { target.as_str() } else { short(target.as_str()) }
            );
        }
        let id = short(target.as_str());
        match self.verb {
            Verb::PauseQueue => format!("the queue {target} is paused"),
            Verb::ResumeQueue => format!("the queue {target} goes on"),
            Verb::Suspend => format!("{id} is suspended"),
            Verb::Resume => format!("{id} goes on"),
            Verb::Cancel => format!("{id} is cancelled"),
            Verb::Redrive => {
                let new = Plain::new(answer.get("id").and_then(Value::as_str).unwrap_or_default());
                format!("{id} is submitted again as {}", short(new.as_str()))
            }
        }
    }

    fn is_about_queue(&self) -> bool {
        matches!(self.verb, Verb::PauseQueue | Verb::ResumeQueue)
    }
}

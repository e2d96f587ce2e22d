//! Commands from the screen: the confirmation question, the request, and the message afterwards. A command names its job or
//! queue, so that it is not affected when lists change meanwhile.

use windlass::job::{JobAction, JobState};
use windlass_api::actions::{ReasonBody, RedriveBody, SuspendBody};
use windlass_api::job::Job;
use windlass_api::pause::PauseBody;
use windlass_api::queue::{Queue, ResumeBody};

use super::format::{several, short};
use super::model::is_suspended;
use crate::connection::client::Call;

/// A command to be confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) verb: Verb,
    /// The queue's name or the job's id.
    pub(super) target: String,
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
        let running = queue.depth.sum(&[JobState::Running]);
        let consequence = format!(
            "No job of it starts until it is resumed: {} {}. {}",
            several(queue.depth.sum(&[JobState::Scheduled]), "job waits", "jobs wait"),
            "and new jobs",
            if running == 0 {
                "None is running.".to_owned()
            } else {
                format!("{}.", several(running, "running job finishes", "running jobs finish"))
            },
        );
        Command {
            verb: Verb::PauseQueue,
            target: queue.name.to_string(),
            question: format!("Pause queue {}?", queue.name),
            consequence,
        }
    }

    /// Resumes a queue.
    pub(super) fn resume_queue(queue: &Queue) -> Command {
        let waiting = several(queue.depth.sum(&[JobState::Scheduled]), "waiting job", "waiting jobs");
        let by =
            queue.paused.as_ref().map_or(String::new(), |pause| format!(" It was paused by {}.", pause.by));
        Command {
            verb: Verb::ResumeQueue,
            target: queue.name.to_string(),
            question: format!("Resume queue {}?", queue.name),
            consequence: format!("Workers may start the {waiting} at once.{by}"),
        }
    }

    /// Suspends or resumes a job.
    pub(super) fn toggle_job(job: &Job) -> Command {
        if is_suspended(job) { Command::resume(job) } else { Command::suspend(job) }
    }

    fn suspend(job: &Job) -> Command {
        let consequence = match job.state.0 {
            JobState::Running => {
                "The running attempt finishes; the job does not start again until it is resumed."
            }
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
        let consequence = match job.state.0 {
            JobState::Running => {
                "Its worker is asked to stop, and later reports are ignored. This cannot be undone."
            }
            _ => "It will never run. This cannot be undone.",
        };
        Command::on_job(job, Verb::Job(JobAction::Cancel), "Cancel", consequence.to_owned())
    }

    /// Resumes a suspended job, or redrives a final one.
    pub(super) fn redrive_or_resume(job: &Job) -> Command {
        if is_suspended(job) {
            return Command::resume(job);
        }
        let consequence = "Submits a new job with the same payload and a fresh set of attempts.";
        Command::on_job(job, Verb::Job(JobAction::Redrive), "Redrive", consequence.to_owned())
    }

    fn on_job(job: &Job, verb: Verb, word: &str, consequence: String) -> Command {
        let target = job.id.to_string();
        let question = format!("{word} {} {} ({})?", job.r#type, short(&target), job.state);
        Command { verb, target, question, consequence }
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

    /// The request.
    pub(super) fn call(&self) -> Call {
        let (call, reason) = (Call::post(&self.path()), Some("from windlass top".to_owned()));
        match self.verb {
            Verb::PauseQueue => call.json(&PauseBody { reason, ..PauseBody::default() }),
            Verb::ResumeQueue => call.json(&ResumeBody { reason, jobs: false }),
            Verb::Job(JobAction::Suspend) => call.json(&SuspendBody { reason, ..SuspendBody::default() }),
            Verb::Job(JobAction::Redrive) => call.json(&RedriveBody::default()),
            Verb::Job(_) => call.json(&ReasonBody { reason }),
        }
    }

    /// The message once the server has done it; `new_id` is the id of the job that a redrive created.
    pub(super) fn done(&self, is_changed: bool, new_id: &str) -> String {
        let target = &self.target;
        let id = short(target);
        match self.verb {
            _ if !is_changed => {
                format!("{} was already in that state", if self.is_about_queue() { target } else { id })
            }
            Verb::PauseQueue => format!("queue {target} is paused"),
            Verb::ResumeQueue => format!("queue {target} is resumed"),
            Verb::Job(JobAction::Suspend) => format!("{id} is suspended"),
            Verb::Job(JobAction::Resume) => format!("{id} is resumed"),
            Verb::Job(JobAction::Cancel) => format!("{id} is cancelled"),
            Verb::Job(_) => format!("{id} is redriven as {}", short(new_id)),
        }
    }

    fn is_about_queue(&self) -> bool {
        matches!(self.verb, Verb::PauseQueue | Verb::ResumeQueue)
    }
}

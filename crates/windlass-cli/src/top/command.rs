//! Commands from the screen: the confirmation question, the request, and the message afterwards. A command names its job or
//! queue, so that it is not affected when lists change meanwhile.

use windlass::job::{JobAction, JobState, JobType};
use windlass_api::actions::{EmptyBody, ReasonBody, RedriveBody, SuspendBody};
use windlass_api::job::Job;
use windlass_api::pause::{OfflineBody, OnlineBody, PauseBody};
use windlass_api::queue::{Queue, ResumeBody, Type};
use windlass_api::schedule::{SchedulePauseBody, ScheduleView};
use windlass_api::text::Text;
use windlass_api::worker::Worker;

use super::format::{several, short};
use super::model::is_suspended;
use super::rows::FailureGroup;
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
    /// The tenant of a schedule.
    pub(super) tenant: Option<String>,
    /// The ids of all jobs of a group.
    pub(super) others: Vec<String>,
}

/// What can be paused besides queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Worker,
    Type,
    Schedule,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    PauseQueue,
    ResumeQueue,
    /// Pauses or resumes a worker, a schedule or a type, by the path of its request.
    Pause(Place),
    Resume(Place),
    /// Submits the job of a schedule.
    Trigger,
    /// Retries several jobs, whose ids are in `others`.
    RetryAll,
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
            tenant: None,
            others: Vec::new(),
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
            tenant: None,
            others: Vec::new(),
        }
    }

    fn toggle(place: Place, (target, name): (String, &str), is_paused: bool, consequence: &str) -> Command {
        let (verb, word) =
            if is_paused { (Verb::Resume(place), "Resume") } else { (Verb::Pause(place), "Pause") };
        let what = match place {
            Place::Worker => "worker",
            Place::Type => "type",
            Place::Schedule => "schedule",
        };
        Command {
            verb,
            target,
            question: format!("{word} {what} {name}?"),
            consequence: if is_paused { "It continues at once.".to_owned() } else { consequence.to_owned() },
            tenant: None,
            others: Vec::new(),
        }
    }

    /// Pauses or resumes a worker.
    pub(super) fn toggle_worker(worker: &Worker) -> Command {
        let target = (worker.id.to_string(), worker.name.as_str());
        let consequence = "It takes no more jobs until it is resumed. Jobs that it runs finish.";
        Command::toggle(Place::Worker, target, worker.paused.is_some(), consequence)
    }

    /// Pauses or resumes a type.
    pub(super) fn toggle_type(job_type: &Type) -> Command {
        let name = job_type.r#type.to_string();
        let consequence = "No job of it starts, in any queue, until it is resumed. Running ones finish.";
        Command::toggle(Place::Type, (name.clone(), &name), job_type.paused.is_some(), consequence)
    }

    /// Pauses or resumes a schedule.
    pub(super) fn toggle_schedule(schedule: &ScheduleView) -> Command {
        let name = schedule.name.to_string();
        let consequence = "Runs that are due until it is resumed are skipped permanently.";
        let command =
            Command::toggle(Place::Schedule, (name.clone(), &name), schedule.paused.is_some(), consequence);
        Command { tenant: Some(schedule.tenant.to_string()), ..command }
    }

    /// Submits the job of a schedule now.
    pub(super) fn trigger(schedule: &ScheduleView) -> Command {
        let name = schedule.name.to_string();
        Command {
            verb: Verb::Trigger,
            question: format!("Run schedule {name} now?"),
            target: name,
            consequence: format!("Submits a job of type {}. Its next runs stay.", schedule.job.r#type),
            tenant: Some(schedule.tenant.to_string()),
            others: Vec::new(),
        }
    }

    /// Retries all listed jobs of a group of failures.
    pub(super) fn retry_group(group: &FailureGroup) -> Command {
        let jobs = several(group.jobs.len() as u64, "job", "jobs");
        Command {
            verb: Verb::RetryAll,
            target: group.job_type.clone(),
            question: format!("Retry {jobs} of type {}?", group.job_type),
            consequence: format!("Each is submitted again as a new job. They failed with: {}", group.message),
            tenant: None,
            others: group.jobs.clone(),
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
        Command { verb, target, question, consequence, tenant: None, others: Vec::new() }
    }

    /// The path of the request.
    pub(super) fn path(&self) -> [&str; 3] {
        let target = self.target.as_str();
        match self.verb {
            Verb::PauseQueue => ["queues", target, "pause"],
            Verb::ResumeQueue => ["queues", target, "resume"],
            Verb::Pause(Place::Worker) => ["workers", target, "pause"],
            Verb::Resume(Place::Worker) => ["workers", target, "resume"],
            Verb::Pause(Place::Schedule) => ["schedules", target, "pause"],
            Verb::Resume(Place::Schedule) => ["schedules", target, "resume"],
            Verb::Trigger => ["schedules", target, "trigger"],
            Verb::Pause(Place::Type) => ["gate", "offline", ""],
            Verb::Resume(Place::Type) => ["gate", "online", ""],
            Verb::Job(action) => ["jobs", target, action.as_str()],
            // Sent once for each of its jobs.
            Verb::RetryAll => ["jobs", target, JobAction::Redrive.as_str()],
        }
    }

    /// The command for one of the jobs of a group.
    pub(super) fn of_one(&self, id: &str) -> Command {
        Command {
            verb: Verb::Job(JobAction::Redrive),
            target: id.to_owned(),
            others: Vec::new(),
            ..self.clone()
        }
    }

    /// The request.
    pub(super) fn call(&self) -> Call {
        let path = self.path();
        let path: Vec<&str> = path.into_iter().filter(|part| !part.is_empty()).collect();
        let call = Call::post(&*path).query_if("tenant", self.tenant.as_deref());
        let reason = Some("from windlass top".to_owned());
        let job_type = || Some(Text(JobType::new(&self.target).ok()?));
        match self.verb {
            Verb::PauseQueue | Verb::Pause(Place::Worker) => {
                call.json(&PauseBody { reason, ..PauseBody::default() })
            }
            Verb::ResumeQueue => call.json(&ResumeBody { reason, jobs: false }),
            Verb::Pause(Place::Type) => {
                call.json(&OfflineBody { reason, r#type: job_type(), ..OfflineBody::default() })
            }
            Verb::Resume(Place::Type) => {
                call.json(&OnlineBody { reason, r#type: job_type(), ..OnlineBody::default() })
            }
            Verb::Pause(Place::Schedule) => call.json(&SchedulePauseBody { reason, expires: None }),
            Verb::Trigger => call.json(&EmptyBody {}),
            Verb::Job(JobAction::Suspend) => call.json(&SuspendBody { reason, ..SuspendBody::default() }),
            Verb::Job(JobAction::Redrive) | Verb::RetryAll => {
                call.json(&RedriveBody { only_once: self.is_for_group(), ..RedriveBody::default() })
            }
            Verb::Resume(_) | Verb::Job(_) => call.json(&ReasonBody { reason }),
        }
    }

    /// Whether the question was about a group: a job of it that was retried meanwhile is left alone.
    fn is_for_group(&self) -> bool {
        self.question.starts_with("Retry ")
    }

    /// The message once the server has done it; `new_id` is the id of the job that a redrive created.
    pub(super) fn done(&self, is_changed: bool, new_id: &str) -> String {
        let target = &self.target;
        let id = short(target);
        match self.verb {
            _ if !is_changed => {
                format!(
                    "{} was already in that state",
                    if matches!(self.verb, Verb::Job(_)) { id } else { target }
                )
            }
            Verb::PauseQueue => format!("queue {target} is paused"),
            Verb::ResumeQueue => format!("queue {target} is resumed"),
            Verb::Pause(Place::Worker) => "the worker is paused".to_owned(),
            Verb::Resume(Place::Worker) => "the worker is resumed".to_owned(),
            Verb::Pause(_) => format!("{target} is paused"),
            Verb::Resume(_) => format!("{target} is resumed"),
            Verb::Trigger => format!("{target} submitted {}", short(new_id)),
            Verb::RetryAll => format!("{} retried", several(self.others.len() as u64, "job", "jobs")),
            Verb::Job(JobAction::Suspend) => format!("{id} is suspended"),
            Verb::Job(JobAction::Resume) => format!("{id} is resumed"),
            Verb::Job(JobAction::Cancel) => format!("{id} is cancelled"),
            Verb::Job(_) => format!("{id} is redriven as {}", short(new_id)),
        }
    }
}

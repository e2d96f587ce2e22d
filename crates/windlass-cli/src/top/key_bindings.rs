//! Key bindings. Nothing here waits or sends requests: effects are returned to the caller.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::app::{Mode, Pane, Screen};
use super::command::Command;
use super::details::Details;
use windlass_api::schedule::ScheduleView;

/// What the caller has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Effect {
    Quit,
    /// Send the command to the server.
    Carry(Command),
    /// Load the details of this job.
    ShowJob(String),
}

/// Rows to move for a page key.
const PAGE: isize = 10;

/// Every key with its description, for the help.
pub(super) const HELP: [(&str, &str); 14] = [
    ("↑ ↓  j k", "select a row (PgUp, PgDn, Home, End: further)"),
    ("Tab  ← →", "next list (1 to 8: that list; workers, types, schedules and errors are 5 to 8)"),
    ("Enter", "details of the selected job or queue, and why it is not running"),
    ("p", "pause or resume a queue, type, worker or schedule; suspend or resume a job"),
    ("r", "resume; retry a final job as a new job, or all jobs of an error; run a schedule now"),
    ("c", "cancel the job"),
    ("s  S", "sort the list by its next column; the other way round"),
    ("t", "time: last minute or hour; 24 hours, 7 or 30 days of the selected queue or type, or of all"),
    ("mouse", "click a row to select it, again to open it; Shift to select text, or --no-mouse"),
    ("/", "filter by words; Enter keeps the filter, Esc clears it"),
    ("y n", "yes and no, to answer a question"),
    ("Esc", "back"),
    ("?", "this help"),
    ("q  Ctrl-C", "quit"),
];

impl Screen {
    /// Handles a key press.
    pub(super) fn press(&mut self, key: KeyEvent) -> Option<Effect> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return matches!(key.code, KeyCode::Char('c' | 'q')).then_some(Effect::Quit);
        }
        match std::mem::replace(&mut self.mode, Mode::Browse) {
            Mode::Browse => self.browse(key.code),
            Mode::Help => None,
            Mode::Filter(before) => {
                self.edit_filter(key.code, before);
                None
            }
            Mode::Confirm(order) => self.answer(key.code, order),
            Mode::Details(details) => self.read(key.code, details),
        }
    }

    fn browse(&mut self, code: KeyCode) -> Option<Effect> {
        match code {
            KeyCode::Char('q') => return Some(Effect::Quit),
            KeyCode::Char('?' | 'h') => self.mode = Mode::Help,
            KeyCode::Char('/') => self.mode = Mode::Filter(self.filter.clone()),
            KeyCode::Esc if !self.filter.is_empty() => self.filter_by(String::new()),
            KeyCode::Tab | KeyCode::Right => self.pane = self.pane.step(1),
            KeyCode::BackTab | KeyCode::Left => self.pane = self.pane.step(Pane::ALL.len() - 1),
            KeyCode::Char('s') => self.sort_by_next(),
            KeyCode::Char('S') => self.reverse(),
            KeyCode::Char('t') => self.range = self.range.next(),
            KeyCode::Char(digit @ '1'..='8') => {
                self.pane = Pane::ALL[usize::from(digit as u8 - b'1')];
            }
            KeyCode::Enter => return self.open(),
            KeyCode::Char(verb @ ('p' | 'r' | 'c')) => self.ask(verb),
            code => self.move_by(steps(code).unwrap_or(0)),
        }
        None
    }

    /// Opens the details of the selected object.
    fn open(&mut self) -> Option<Effect> {
        if let Some(queue) = self.chosen_queue() {
            self.mode = Mode::Details(Box::new(Details::of_queue(queue, self.now)));
            return None;
        }
        if let Some(details) = self.row_details() {
            self.mode = Mode::Details(Box::new(details));
            return None;
        }
        let job = self.chosen_job()?;
        let (details, id) = (Details::begin(job, self.now), job.id.clone());
        self.mode = Mode::Details(Box::new(details));
        Some(Effect::ShowJob(id.to_string()))
    }

    /// Asks for confirmation of a command.
    fn ask(&mut self, verb: char) {
        let on_queue = self.chosen_queue().and_then(|queue| match verb {
            'p' => Some(Command::toggle_queue(queue)),
            'r' => Some(Command::resume_queue(queue)),
            _ => None,
        });
        let on_row = on_queue.or_else(|| self.row_command(verb));
        let order = on_row.or_else(|| self.chosen_job().map(|job| on_job(verb, job)));
        match order {
            Some(order) => self.mode = Mode::Confirm(order),
            None if self.chosen(self.pane).is_some() => {
                self.say("this key does nothing in this list".into(), true);
            }
            None => {}
        }
    }

    /// Handles yes or no. The question stays on any other key.
    fn answer(&mut self, code: KeyCode, order: Command) -> Option<Effect> {
        match code {
            KeyCode::Char('y' | 'Y') => Some(Effect::Carry(order)),
            KeyCode::Char('n' | 'N' | 'q') | KeyCode::Esc => {
                self.say("nothing was changed".to_owned(), false);
                None
            }
            _ => {
                self.mode = Mode::Confirm(order);
                None
            }
        }
    }

    fn edit_filter(&mut self, code: KeyCode, before: String) {
        let mut filter = self.filter.clone();
        match code {
            KeyCode::Enter => return,
            KeyCode::Esc => return self.filter_by(before),
            KeyCode::Backspace => drop(filter.pop()),
            KeyCode::Char(character) if !character.is_control() => filter.push(character),
            _ => {}
        }
        self.filter_by(filter);
        self.mode = Mode::Filter(before);
    }

    fn read(&mut self, code: KeyCode, mut details: Box<Details>) -> Option<Effect> {
        if matches!(code, KeyCode::Esc | KeyCode::Enter | KeyCode::Char('q')) {
            return None;
        }
        if let (KeyCode::Char(verb @ ('p' | 'r' | 'c')), Some(job)) = (code, &details.job) {
            self.mode = Mode::Confirm(on_job(verb, job));
            return None;
        }
        details.scroll(steps(code).unwrap_or(0));
        self.mode = Mode::Details(details);
        None
    }
}

impl Screen {
    /// The command of a key on the selected worker, type, schedule or group of failures.
    fn row_command(&self, verb: char) -> Option<Command> {
        let key = self.chosen_key()?;
        match (self.pane, verb) {
            (Pane::Workers, 'p' | 'r') => {
                let worker = self.workers.iter().flatten().find(|worker| worker.id.to_string() == key)?;
                Some(Command::toggle_worker(worker))
            }
            (Pane::Types, 'p' | 'r') => {
                let job_type = self.types.iter().find(|one| one.r#type.to_string() == key)?;
                Some(Command::toggle_type(job_type))
            }
            (Pane::Schedules, 'p' | 'r') => {
                let schedule = self.chosen_schedule(key)?;
                Some(if verb == 'p' {
                    Command::toggle_schedule(schedule)
                } else {
                    Command::trigger(schedule)
                })
            }
            (Pane::Groups, 'r') => self.chosen_group().map(|group| Command::retry_group(&group)),
            _ => None,
        }
    }

    fn chosen_schedule(&self, key: &str) -> Option<&ScheduleView> {
        self.schedules.iter().find(|schedule| format!("{} {}", schedule.tenant, schedule.name) == key)
    }

    /// The details of the selected worker, type, schedule or group of failures.
    fn row_details(&self) -> Option<Details> {
        let key = self.chosen_key()?;
        match self.pane {
            Pane::Workers => {
                let worker = self.workers.iter().flatten().find(|worker| worker.id.to_string() == key)?;
                let jobs = self.listed(Pane::Running).iter();
                let jobs =
                    jobs.filter(|job| job.lease.as_ref().is_some_and(|lease| lease.worker == worker.id));
                Some(Details::of_worker(worker, &jobs.collect::<Vec<_>>(), self.now))
            }
            Pane::Types => {
                let job_type = self.types.iter().find(|one| one.r#type.to_string() == key)?;
                Some(Details::of_type(job_type, self.now))
            }
            Pane::Schedules => {
                self.chosen_schedule(key).map(|schedule| Details::of_schedule(schedule, self.now))
            }
            Pane::Groups => self.chosen_group().map(|group| Details::of_group(&group)),
            Pane::Queues | Pane::Running | Pane::Failures | Pane::Suspended => None,
        }
    }
}

fn on_job(verb: char, job: &windlass_api::job::Job) -> Command {
    match verb {
        'p' => Command::toggle_job(job),
        'r' => Command::redrive_or_resume(job),
        _ => Command::cancel(job),
    }
}

/// How far a key moves the selection.
fn steps(code: KeyCode) -> Option<isize> {
    match code {
        KeyCode::Up | KeyCode::Char('k') => Some(-1),
        KeyCode::Down | KeyCode::Char('j') => Some(1),
        KeyCode::PageUp => Some(-PAGE),
        KeyCode::PageDown | KeyCode::Char(' ') => Some(PAGE),
        KeyCode::Home | KeyCode::Char('g') => Some(isize::MIN),
        KeyCode::End | KeyCode::Char('G') => Some(isize::MAX),
        _ => None,
    }
}

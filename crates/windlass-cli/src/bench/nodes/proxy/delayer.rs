//! The thread that delays: it reads what is there, keeps it until it is due, and writes it.

use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use bytes::{Buf, Bytes};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use windlass::clock::Stopwatch;

use super::Signals;
use super::socket::Socket;

/// Bytes that one direction of a connection holds at most; then it is not read until some were written. Enough for
/// several megabytes per second with the longest delay.
const DIRECTION_BYTES_MAX: usize = 4 << 20;
/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;
/// Events taken at once.
const EVENTS: usize = 256;

const TIMER: u64 = 0;
const WAKE: u64 = 1;
/// The first number of a connection's sockets: two for each.
const SOCKETS: u64 = 2;

/// One end of a connection.
struct Side {
    socket: Socket,
    /// What the thread waits for; `None` if for nothing.
    awaited: Option<EventFlags>,
    /// Bytes read from it that the other end has not taken yet.
    held: usize,
    /// Bytes that are due and that it has not taken yet.
    unsent: VecDeque<Bytes>,
    /// Whether its end was read.
    has_ended: bool,
    /// Whether nothing more can be written to it.
    is_shut: bool,
}

/// Bytes on their way, or the end if there are none.
struct Chunk {
    due: Duration,
    connection: u64,
    to: usize,
    bytes: Bytes,
}

pub(super) struct Delayer {
    delay: Duration,
    signals: Signals,
    incoming: Receiver<[Socket; 2]>,
    epoll: OwnedFd,
    timer: OwnedFd,
    /// When the timer is set to.
    armed: Option<Duration>,
    clock: Stopwatch,
    connections: HashMap<u64, [Side; 2]>,
    accepted: u64,
    /// All that is on its way, in the order in which it is due.
    queue: VecDeque<Chunk>,
}

impl Delayer {
    pub(super) fn new(
        delay: Duration,
        signals: Signals,
        incoming: Receiver<[Socket; 2]>,
    ) -> io::Result<Delayer> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN)?;
        epoll::add(&epoll, &*signals.wake, EventData::new_u64(WAKE), EventFlags::IN)?;
        let (clock, connections, queue) = (Stopwatch::start(), HashMap::new(), VecDeque::new());
        Ok(Delayer {
            delay,
            signals,
            incoming,
            epoll,
            timer,
            armed: None,
            clock,
            connections,
            accepted: 0,
            queue,
        })
    }

    /// Delays until the end.
    pub(super) fn run(mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS);
        let mut buffer = vec![0; READ_BYTES];
        while !self.signals.is_over.load(Ordering::Relaxed) {
            self.arm()?;
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                self.handle(*event, &mut buffer)?;
            }
            self.deliver()?;
        }
        Ok(())
    }

    /// Sets the timer to the moment when the next chunk is due.
    fn arm(&mut self) -> io::Result<()> {
        let next = self.queue.front().map(|chunk| chunk.due);
        if next == self.armed {
            return Ok(());
        }
        // A timer that is set to zero is off, and one that went off is reset.
        let wait = next.map_or(Duration::ZERO, |due| {
            due.saturating_sub(self.clock.elapsed()).max(Duration::from_nanos(1))
        });
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let it_value = Timespec {
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: wait.subsec_nanos().into(),
        };
        timerfd_settime(
            &self.timer,
            TimerfdTimerFlags::empty(),
            &Itimerspec { it_interval: zero, it_value },
        )?;
        self.armed = next;
        Ok(())
    }

    fn handle(&mut self, event: Event, buffer: &mut [u8]) -> io::Result<()> {
        match event.data.u64() {
            TIMER => Ok(()),
            WAKE => {
                // It is not blocking: the counter is only reset.
                let _ = rustix::io::read(&*self.signals.wake, &mut [0; 8]);
                while let Ok(pair) = self.incoming.try_recv() {
                    self.begin(pair)?;
                }
                Ok(())
            }
            number => {
                let (connection, side) = ((number - SOCKETS) / 2, usize::from((number - SOCKETS) % 2 == 1));
                let flags = event.flags;
                if flags.contains(EventFlags::OUT) {
                    self.flush(connection, side)?;
                }
                if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
                    self.read(connection, side, buffer)?;
                }
                Ok(())
            }
        }
    }

    fn begin(&mut self, pair: [Socket; 2]) -> io::Result<()> {
        let sides = pair.map(|socket| Side {
            socket,
            awaited: None,
            held: 0,
            unsent: VecDeque::new(),
            has_ended: false,
            is_shut: false,
        });
        let connection = self.accepted;
        self.accepted += 1;
        self.connections.insert(connection, sides);
        self.await_events(connection)
    }

    /// Reads once; what else there is makes another event.
    fn read(&mut self, connection: u64, from: usize, buffer: &mut [u8]) -> io::Result<()> {
        let Some(sides) = self.connections.get_mut(&connection) else { return Ok(()) };
        let side = &mut sides[from];
        if side.has_ended || side.held >= DIRECTION_BYTES_MAX {
            return Ok(());
        }
        let count = match side.socket.read(buffer) {
            Ok(count) => count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Ok(());
            }
            // A connection that broke has ended.
            Err(_) => 0,
        };
        side.held += count;
        side.has_ended = count == 0;
        let (due, bytes) = (self.clock.elapsed() + self.delay, Bytes::copy_from_slice(&buffer[..count]));
        self.queue.push_back(Chunk { due, connection, to: 1 - from, bytes });
        self.await_events(connection)
    }

    /// Writes all that is due.
    fn deliver(&mut self) -> io::Result<()> {
        let now = self.clock.elapsed();
        while self.queue.front().is_some_and(|chunk| chunk.due <= now) {
            let Some(Chunk { connection, to, bytes, .. }) = self.queue.pop_front() else { return Ok(()) };
            if let Some(sides) = self.connections.get_mut(&connection) {
                sides[to].unsent.push_back(bytes);
                self.flush(connection, to)?;
            }
        }
        Ok(())
    }

    /// Writes what a socket takes of what is due.
    fn flush(&mut self, connection: u64, to: usize) -> io::Result<()> {
        let Some(sides) = self.connections.get_mut(&connection) else { return Ok(()) };
        while let Some(mut bytes) = sides[to].unsent.pop_front() {
            if bytes.is_empty() {
                sides[to].socket.end();
                sides[to].is_shut = true;
                continue;
            }
            let taken = if sides[to].is_shut { Ok(bytes.len()) } else { sides[to].socket.write(&bytes) };
            match taken {
                Ok(count) => {
                    sides[1 - to].held -= count;
                    bytes.advance(count);
                    if !bytes.is_empty() {
                        sides[to].unsent.push_front(bytes);
                    }
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                    sides[to].unsent.push_front(bytes);
                    break;
                }
                Err(_) => {
                    // Nothing reads this any more: the rest is discarded.
                    sides[1 - to].held -= bytes.len();
                    sides[to].is_shut = true;
                }
            }
        }
        if sides.iter().all(|side| side.has_ended && side.is_shut) {
            self.connections.remove(&connection);
            return Ok(());
        }
        self.await_events(connection)
    }

    /// Waits for what can be done next with both sockets of a connection, and for nothing else: a closed socket would
    /// wake the thread forever.
    fn await_events(&mut self, connection: u64) -> io::Result<()> {
        let Some(sides) = self.connections.get_mut(&connection) else { return Ok(()) };
        for (number, side) in (SOCKETS + connection * 2..).zip(sides) {
            let mut flags = EventFlags::empty();
            flags.set(EventFlags::IN, !side.has_ended && side.held < DIRECTION_BYTES_MAX);
            flags.set(EventFlags::OUT, !side.unsent.is_empty());
            let wanted = (!flags.is_empty()).then_some(flags);
            if wanted == side.awaited {
                continue;
            }
            let data = EventData::new_u64(number);
            match (side.awaited, wanted) {
                (None, Some(flags)) => epoll::add(&self.epoll, &side.socket, data, flags)?,
                (Some(_), Some(flags)) => epoll::modify(&self.epoll, &side.socket, data, flags)?,
                (_, None) => epoll::delete(&self.epoll, &side.socket)?,
            }
            side.awaited = wanted;
        }
        Ok(())
    }
}

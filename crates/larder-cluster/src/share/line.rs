//! A line of questions to the server, over a connection of its own: all that wait go out together, and answers come back in
//! their order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use redis::{Pipeline, Value};
use tokio::sync::oneshot;

use crate::fault::Fault;
use crate::link::Link;
use crate::settings::Settings;

/// Hears why the server is of no use, and `None` when it is again.
pub type Hear = dyn Fn(Option<&Fault>) + Send + Sync;

/// The line. Its thread ends when nobody else holds it.
pub(crate) struct Line {
    work: Mutex<Work>,
    woken: Condvar,
    limits: Limits,
}

/// How much waits at most.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub questions: usize,
    pub bytes: usize,
    /// How many go out together.
    pub together: usize,
}

#[derive(Default)]
struct Work {
    questions: VecDeque<Question>,
    bytes: usize,
    /// Nothing is asked before, as the server was of no use.
    rests_until: Option<Instant>,
    is_over: bool,
}

impl Work {
    fn rests(&self) -> bool {
        self.rests_until.is_some_and(|until| Instant::now() < until)
    }
}

struct Question {
    commands: Pipeline,
    bytes: usize,
    /// Who wants the answers; one that has left is not asked for any more.
    tell: Option<oneshot::Sender<Vec<Value>>>,
    /// What undoes it, if its first command was carried out and nobody waits for that any more.
    undo: Option<Pipeline>,
}

impl Line {
    /// Starts one. `said` hears why the server is of no use, and `None` when it is again.
    pub fn start(name: &str, settings: Settings, limits: Limits, said: Arc<Hear>) -> std::io::Result<Arc<Self>> {
        let line = Arc::new(Self { work: Mutex::default(), woken: Condvar::new(), limits });
        let asking = Arc::clone(&line);
        let thread = thread::Builder::new().name(name.to_owned());
        thread.spawn(move || Asking { line: &asking, settings, link: None, fault: None, said }.run())?;
        Ok(line)
    }

    /// Asks, without waiting. `None` if the server rests, or too much waits.
    pub fn ask(&self, commands: Pipeline, undo: Option<Pipeline>) -> Option<oneshot::Receiver<Vec<Value>>> {
        let (tell, told) = oneshot::channel();
        self.add(Question { commands, bytes: 0, tell: Some(tell), undo }).then_some(told)
    }

    /// Has something done whose answer nobody waits for. False if the server rests, or too much waits.
    pub fn put(&self, commands: Pipeline, bytes: usize) -> bool {
        self.add(Question { commands, bytes, tell: None, undo: None })
    }

    fn add(&self, question: Question) -> bool {
        let mut work = self.work.lock();
        if work.rests()
            || work.questions.len() >= self.limits.questions
            || work.bytes + question.bytes > self.limits.bytes
        {
            return false;
        }
        work.bytes += question.bytes;
        work.questions.push_back(question);
        self.woken.notify_one();
        true
    }

    /// Asks nothing for a while.
    pub fn rest(&self, time: Duration) {
        self.work.lock().rests_until = Some(Instant::now() + time);
    }

    /// Whether it rests.
    pub fn rests(&self) -> bool {
        self.work.lock().rests()
    }

    /// Ends its thread.
    pub fn end(&self) {
        self.work.lock().is_over = true;
        self.woken.notify_one();
    }

    /// The next questions whose answers somebody still wants; `None` at the end.
    fn next(&self) -> Option<Vec<Question>> {
        let mut work = self.work.lock();
        loop {
            if work.is_over {
                return None;
            }
            let mut together = Vec::new();
            while together.len() < self.limits.together
                && let Some(question) = work.questions.pop_front()
            {
                work.bytes -= question.bytes;
                if !question.tell.as_ref().is_some_and(oneshot::Sender::is_closed) {
                    together.push(question);
                }
            }
            if !together.is_empty() {
                return Some(together);
            }
            self.woken.wait(&mut work);
        }
    }
}

struct Asking<'l> {
    line: &'l Line,
    settings: Settings,
    link: Option<Link>,
    fault: Option<Fault>,
    said: Arc<Hear>,
}

impl Asking<'_> {
    fn run(mut self) {
        while let Some(questions) = self.line.next() {
            match self.ask(&questions) {
                Ok(mut answers) => {
                    for question in questions {
                        let rest = answers.split_off(question.commands.len().min(answers.len()));
                        let mine = std::mem::replace(&mut answers, rest);
                        self.look_at(&mine);
                        let Some(Err(unheard)) = question.tell.map(|tell| tell.send(mine)) else { continue };
                        if let Some(undo) = question.undo.filter(|_| unheard.first() == Some(&Value::Okay)) {
                            // If too much waits, it ends by itself.
                            self.line.put(undo, 0);
                        }
                    }
                }
                Err(fault) => {
                    self.link = None;
                    self.line.rest(REST);
                    self.say(Some(fault));
                }
            }
        }
    }

    fn ask(&mut self, questions: &[Question]) -> Result<Vec<Value>, Fault> {
        let mut all = redis::pipe();
        for command in questions.iter().flat_map(|question| question.commands.cmd_iter()) {
            all.add_command(command.clone());
        }
        Link::ask_over(&mut self.link, &self.settings, |link| link.ask_each(&all))
    }

    /// Says what the server refuses.
    fn look_at(&mut self, answers: &[Value]) {
        let fault = answers.iter().find_map(|answer| self.link.as_ref()?.fault_of(answer));
        self.say(fault);
    }

    fn say(&mut self, fault: Option<Fault>) {
        if fault != self.fault {
            (self.said)(fault.as_ref());
            self.fault = fault;
        }
    }
}

/// How long nothing is asked of a server that was of no use.
const REST: Duration = Duration::from_secs(1);

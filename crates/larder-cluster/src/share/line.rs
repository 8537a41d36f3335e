//! A line of questions to the server, over a connection of its own: some that wait go out together, answers come back in their
//! order, and each question is told its own when they are there, whatever comes of those behind it.

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

/// Has `say` hear of a fault when it is another one than the last, and again after this time. That the server cannot be reached is
/// not for a line to say.
pub(crate) fn seldom(every: Duration, say: impl Fn(&Fault) + Send + Sync + 'static) -> Arc<Hear> {
    let said = Mutex::new(None::<(Fault, Instant)>);
    Arc::new(move |fault: Option<&Fault>| {
        let Some(fault) = fault.filter(|fault| !matches!(fault, Fault::Unreachable(_))) else { return };
        let mut said = said.lock();
        let is_new = |(last, at): &(Fault, Instant)| last != fault || at.elapsed() >= every;
        if said.as_ref().is_none_or(is_new) {
            *said = Some((fault.clone(), Instant::now()));
            say(fault);
        }
    })
}

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
    /// When answers last came that somebody wanted.
    told: Option<Instant>,
    /// Answers came that mean nothing: those that come next may be to other questions.
    is_doubted: bool,
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

impl Question {
    fn is_wanted(&self) -> bool {
        !self.tell.as_ref().is_some_and(oneshot::Sender::is_closed)
    }
}

impl Line {
    /// Starts one. `said` hears why the server is of no use, and `None` when it is again.
    pub fn start(name: &str, settings: Settings, limits: Limits, said: Arc<Hear>) -> std::io::Result<Arc<Self>> {
        let line = Arc::new(Self { work: Mutex::default(), woken: Condvar::new(), limits });
        let asking = Arc::clone(&line);
        let thread = thread::Builder::new().name(name.to_owned());
        thread.spawn(move || {
            let (together, faults) = (TOGETHER_MIN.min(limits.together), Faults { said, last: None });
            Asking { line: &asking, settings, link: None, faults, together }.run();
        })?;
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

    /// Has the next questions go over another connection: an answer meant nothing, and so may all that come behind it.
    pub fn doubt(&self) {
        self.work.lock().is_doubted = true;
    }

    /// Whether it rests.
    pub fn rests(&self) -> bool {
        self.work.lock().rests()
    }

    /// How long ago answers came that somebody wanted; `None` if none did yet.
    pub fn told_ago(&self) -> Option<Duration> {
        self.work.lock().told.map(|told| told.elapsed())
    }

    /// Ends its thread.
    pub fn end(&self) {
        self.work.lock().is_over = true;
        self.woken.notify_one();
    }

    /// Tells a question its answers. False if nobody wants them any more.
    fn tell(&self, question: Question, answers: Vec<Value>) -> bool {
        let Some(tell) = question.tell else { return true };
        match tell.send(answers) {
            Ok(()) => {
                self.work.lock().told = Some(Instant::now());
                true
            }
            Err(unheard) => {
                if let Some(undo) = question.undo.filter(|_| unheard.first() == Some(&Value::Okay)) {
                    // If too much waits, it ends by itself.
                    self.put(undo, 0);
                }
                false
            }
        }
    }

    /// The next questions whose answers somebody still wants; `None` at the end.
    fn next(&self, together_max: usize) -> Option<Vec<Question>> {
        let mut work = self.work.lock();
        loop {
            if work.is_over {
                return None;
            }
            let mut together = Vec::new();
            while together.len() < together_max
                && let Some(question) = work.questions.pop_front()
            {
                work.bytes -= question.bytes;
                if question.is_wanted() {
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
    faults: Faults,
    /// How many questions go out together: more while all answers are wanted when they come. What waits behind large answers
    /// that nobody wants any more comes too late itself.
    together: usize,
}

impl Asking<'_> {
    fn run(mut self) {
        while let Some(questions) = self.line.next(self.together) {
            let asked = questions.len();
            if std::mem::take(&mut self.line.work.lock().is_doubted) {
                self.link = None;
                self.faults.say(Some(Fault::Odd("what is no answer to the question".to_owned())));
            }
            match self.ask(questions) {
                Ok(wanted) if wanted == asked => self.together = (self.together * 2).min(self.line.limits.together),
                Ok(wanted) => self.together = wanted.max(1),
                Err(fault) => {
                    self.link = None;
                    self.line.rest(REST);
                    self.faults.say(Some(fault));
                }
            }
        }
    }

    /// Sends all, and tells each its answers as soon as these are there. What was not answered goes once more over another
    /// connection, if this one breaks. Returns how many answers somebody wanted.
    fn ask(&mut self, questions: Vec<Question>) -> Result<usize, Fault> {
        let Self { line, settings, link, faults, .. } = self;
        let (mut left, mut wanted) = (VecDeque::from(questions), 0);
        Link::ask_over(link, settings, |link| {
            left.retain(Question::is_wanted);
            if left.is_empty() {
                return Ok(wanted);
            }
            link.send(left.iter().flat_map(|question| question.commands.cmd_iter()))?;
            while let Some(question) = left.front() {
                let answers = link.answers(question.commands.len())?;
                faults.say(answers.iter().find_map(|answer| link.fault_of(answer)));
                wanted += left.pop_front().map_or(0, |question| usize::from(line.tell(question, answers)));
            }
            Ok(wanted)
        })
    }
}

/// What the server refuses, for who hears it.
struct Faults {
    said: Arc<Hear>,
    last: Option<Fault>,
}

impl Faults {
    fn say(&mut self, fault: Option<Fault>) {
        if fault != self.last {
            (self.said)(fault.as_ref());
            self.last = fault;
        }
    }
}

/// How long nothing is asked of a server that was of no use.
const REST: Duration = Duration::from_secs(1);
/// How many questions go out together at first.
const TOGETHER_MIN: usize = 4;

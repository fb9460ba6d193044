//! What the runner needs of whatever it runs: a pure machine that says what is to be done, and a driver
//! that does it.

use std::time::Duration;

use futures::future::BoxFuture;

/// A state machine of many keys. It waits for nothing, writes nothing and looks at no clock: `now` is
/// given, as time since the runner began.
///
/// `Zones` is one; load balancers will be another.
pub trait Machine: Send + 'static {
    /// What a step is about; its steps are asked for together.
    type Key: Ord + Clone + Send + 'static;
    /// Something to be carried out.
    type Step: Send + 'static;
    /// How a step ended.
    type Completion: Send + 'static;
    /// What there is to tell.
    type News;

    /// Keys that may have something to do now, each once.
    fn take_work(&mut self) -> Vec<Self::Key>;

    /// The next step of a key, which is carried out and completed. The runner asks again until there is
    /// none.
    fn next_step(&mut self, key: &Self::Key, now: Duration) -> Option<Self::Step>;

    /// Takes in how a step ended.
    fn complete(&mut self, key: &Self::Key, completion: Self::Completion, now: Duration);

    /// What there is to tell since the last call.
    fn take_news(&mut self) -> Self::News;

    /// When the next key has something to do by itself.
    fn next_wake(&self) -> Option<Duration>;

    /// The time has come for some keys.
    fn wake(&mut self, now: Duration);
}

/// The hands of a machine: it carries out steps, brings in what the world says and tells what came of it.
pub trait Driver<M: Machine>: Send + 'static {
    /// Something from outside.
    type Input: Send;
    /// What the driver keeps beside a step on its way.
    type Ticket: Send + 'static;

    /// The work of a step, and what is kept beside it; `None` where nobody is there to do it.
    ///
    /// Cancellation: the runner never drops such a work, except when the process ends.
    fn begin(
        &mut self,
        machine: &M,
        key: &M::Key,
        step: M::Step,
    ) -> Option<(Self::Ticket, BoxFuture<'static, M::Completion>)>;

    /// Whether a step that ended still counts.
    fn counts(&mut self, machine: &M, end: (&M::Key, &M::Completion), ticket: Self::Ticket)
    -> bool;

    /// How many steps are on their way that count no longer, and so hold up nobody.
    fn abandoned(&self) -> usize {
        0
    }

    /// Waits for the next thing from outside.
    ///
    /// Cancellation: dropped, nothing is lost.
    fn next_input(&mut self, machine: &M) -> impl Future<Output = Self::Input> + Send;

    /// Takes in what came from outside.
    fn take(&mut self, machine: &mut M, input: Self::Input, now: Duration);

    /// A step that counts was taken in by the machine.
    fn completed(&mut self, _machine: &M, _key: &M::Key) {}

    /// Tells what there is to tell.
    fn tell(&mut self, news: M::News);
}

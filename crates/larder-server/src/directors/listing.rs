//! What an operator sees of backends and directors, and what they say: `backend.list` and `backend.set_health`.

use super::health::{Admin, Health};
use super::judge::{Judge, Number};
use super::window::Window;
use super::{Director, Directors};

/// A backend or a director, as `backend.list` shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// Its name, without that of the VCL.
    pub name: String,
    /// What it is, in Varnish's words: `backend`, `round-robin`, `fallback`, `random`, `hash`, `shard`.
    pub kind: &'static str,
    /// What an operator says.
    pub admin: Admin,
    /// Whether something decides about its health if no operator does: a probe, or its members.
    pub is_judged: bool,
    /// How many of the last answers to its probe were good, or how many of its members are healthy.
    pub good: usize,
    /// Of how many.
    pub of: usize,
    /// Whether it is healthy.
    pub is_healthy: bool,
    /// When that changed, in seconds since 1970; 0 if it never has.
    pub changed: f64,
    /// What its probe has found, if it has one.
    pub window: Option<Window>,
    /// Its members, if it is a director.
    pub members: Vec<ListedMember>,
}

/// A member of a director.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedMember {
    /// Its name.
    pub name: String,
    /// Whether it is healthy.
    pub is_healthy: bool,
}

impl Listed {
    /// When its health changed, as a date of HTTP.
    pub fn changed_date(&self) -> String {
        let date = larder_http::format_date(self.changed.max(0.0) as u64);
        String::from_utf8_lossy(&date).into_owned()
    }
}

impl Directors {
    /// All backends, then all directors, in the order of the VCL.
    pub fn list(&self) -> Vec<Listed> {
        let backends = (0..).zip(&self.backends).filter(|(_, backend)| backend.was.1.is_some());
        let backends = backends.map(|(number, backend)| self.listed(number, &backend.name, &backend.health));
        let objects = self.objects.iter().enumerate().filter(|(_, object)| object.is_backend());
        let objects = objects.map(|(at, object)| self.listed(self.number(at), &object.name, &object.health));
        backends.chain(objects).collect()
    }

    fn listed(&self, number: Number, name: &str, health: &Health) -> Listed {
        let members: Vec<ListedMember> =
            self.members(number).into_iter().map(|member| self.listed_member(member)).collect();
        let window = health.window();
        let (good, of) = match &window {
            Some(window) => (window.good as usize, window.size as usize),
            None => (members.iter().filter(|member| member.is_healthy).count(), members.len()),
        };
        let director = self.director_of(number).map(|(_, director)| director);
        Listed {
            name: name.to_owned(),
            kind: director.map_or("backend", kind),
            admin: health.admin(),
            is_judged: window.is_some() || director.is_some_and(|director| !matches!(director, Director::Hash(_))),
            good,
            of,
            is_healthy: self.is_healthy(number),
            changed: self.changed(number),
            window,
            members,
        }
    }

    fn listed_member(&self, member: Number) -> ListedMember {
        ListedMember { name: self.name(member).unwrap_or_default().to_owned(), is_healthy: self.is_healthy(member) }
    }

    /// Lets an operator decide about the health of a backend or a director, at this time in seconds since 1970. False if
    /// there is none of this name.
    pub fn set_health(&self, name: &str, admin: Admin, now: f64) -> bool {
        let health = self.find(name).and_then(|number| self.health(number));
        health.map(|health| health.set_admin(admin, now)).is_some()
    }
}

fn kind(director: &Director) -> &'static str {
    match director {
        Director::RoundRobin(_) => "round-robin",
        Director::Fallback(_) => "fallback",
        Director::Random(_) => "random",
        Director::Hash(_) => "hash",
        Director::Shard(_) => "shard",
        Director::ShardParam(_) => "shard_param",
    }
}

//! All locations of a server.

use super::{Location, Rewrite, Server};

/// Hands each location of a server to `f`: its own level, those inside, and the blocks of `if` and `limit_except`.
pub fn each_location<'a>(server: &'a Server, f: &mut dyn FnMut(&'a Location)) {
    location(&server.root, f);
    script(&server.script, f);
}

fn location<'a>(of: &'a Location, f: &mut dyn FnMut(&'a Location)) {
    f(of);
    script(&of.script, f);
    if let Some(limit) = &of.limit_except {
        location(&limit.location, f);
    }
    of.locations.iter().for_each(|inside| location(inside, f));
}

fn script<'a>(steps: &'a [Rewrite], f: &mut dyn FnMut(&'a Location)) {
    for step in steps {
        if let Rewrite::If { location: of, script: inside, .. } = step {
            script(inside, f);
            if let Some(of) = of {
                location(of, f);
            }
        }
    }
}

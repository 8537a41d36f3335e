//! Every level of a configuration that has settings.

use larder_conf::model::{Config, Location, Rewrite, Server, Settings};

/// The settings of all servers, and of all locations, `if` and `limit_except` blocks in them. Not those of `http`
/// itself, which serve no request: a log that is only there, such as the default access log if every server replaces
/// it, is not opened.
pub fn settings(config: &Config) -> Vec<&Settings> {
    config.http.servers.iter().flat_map(of_server).collect()
}

/// The same of one server.
pub fn of_server(server: &Server) -> Vec<&Settings> {
    let mut found = Found(Vec::new());
    found.location(&server.root);
    found.script(&server.script);
    found.0
}

struct Found<'a>(Vec<&'a Settings>);

impl<'a> Found<'a> {
    /// Recursion is bounded, because the parser limits the depth of a configuration.
    fn location(&mut self, location: &'a Location) {
        self.0.push(&location.settings);
        self.script(&location.script);
        if let Some(limited) = &location.limit_except {
            self.location(&limited.location);
        }
        for inner in &location.locations {
            self.location(inner);
        }
    }

    fn script(&mut self, script: &'a [Rewrite]) {
        for step in script {
            if let Rewrite::If { script, location, .. } = step {
                self.script(script);
                if let Some(location) = location {
                    self.location(location);
                }
            }
        }
    }
}

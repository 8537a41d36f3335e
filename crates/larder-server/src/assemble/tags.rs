//! Which fields have the tags of pages, by zone: those that the locations with that zone name.

use std::sync::Arc;

use crate::site::{Keeps, Loc, Site};

/// Tells the zones, and those who purge in them.
pub fn tell_zones(site: &mut Site) {
    let mut names: Vec<Vec<Box<str>>> = vec![Vec::new(); site.caches.zones.len()];
    for loc in &site.locations {
        let of_loc = loc.settings.purging.tag_names();
        for zone in zones(loc, names.len()) {
            names.get_mut(zone).into_iter().for_each(|known| add(known, of_loc.iter().copied()));
        }
    }
    for (zone, names) in site.caches.zones.iter().zip(&names) {
        zone.set_tag_fields(&names.iter().map(|name| &**name).collect::<Vec<_>>());
    }
    // A purge may come in at any location of its server.
    for server in &site.servers {
        let Some(locations) = site.locations.get_mut(server.locations.clone()) else { continue };
        let mut known = Vec::new();
        for zone in locations.iter().flat_map(|loc| zones(loc, names.len())) {
            add(&mut known, names.get(zone).into_iter().flatten().map(|name| &**name));
        }
        let known: Arc<[Box<str>]> = known.into();
        for rule in locations.iter_mut().filter_map(|loc| loc.modules.purging.as_mut()) {
            rule.tag_fields = Arc::clone(&known);
        }
    }
}

/// The zones that a location may keep pages in; of a variable, any of `all`.
fn zones(loc: &Loc, all: usize) -> std::ops::Range<usize> {
    match loc.handler.keeps() {
        None => 0..0,
        Some(Keeps::Zone(zone)) => zone..zone + 1,
        Some(Keeps::Named(_)) => 0..all,
    }
}

fn add<'a>(known: &mut Vec<Box<str>>, names: impl Iterator<Item = &'a str>) {
    for name in names {
        if !known.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            known.push(name.into());
        }
    }
}

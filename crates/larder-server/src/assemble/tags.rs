//! Which fields have the tags of pages, by zone: those that the locations with that zone name.

use crate::site::{Keeps, Site};

/// Tells the zones.
pub fn tell_zones(site: &Site) {
    let zones = &site.caches.zones;
    let mut names: Vec<Vec<&str>> = vec![Vec::new(); zones.len()];
    for loc in &site.locations {
        let of_loc = loc.settings.purging.tag_names();
        let mut add = |zone: usize| {
            let Some(names) = names.get_mut(zone) else { return };
            for name in &of_loc {
                if !names.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                    names.push(name);
                }
            }
        };
        match loc.handler.keeps() {
            None => {}
            Some(Keeps::Zone(zone)) => add(zone),
            // It may be any.
            Some(Keeps::Named(_)) => (0..zones.len()).for_each(add),
        }
    }
    for (zone, names) in zones.iter().zip(names) {
        zone.set_tag_fields(&names);
    }
}

//! The ring of a shard director: where each member stands, several times, and who is next to a key.

use super::super::hash::hash;
use super::super::judge::Number;

/// How many points a ring may have; members that want more get the same number each.
pub const POINTS_MAX: usize = 1 << 20;

/// A member of a ring.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    /// The backend.
    pub backend: Number,
    /// What its places are computed from: its name, unless another was given.
    pub ident: String,
    /// How long it gets only a part of its requests after it became healthy, in seconds, if that was given for it.
    pub rampup: Option<f64>,
    /// How often it stands on the ring.
    pub replicas: u32,
}

/// Members with their places.
#[derive(Debug, Default)]
pub struct Ring {
    /// The members.
    pub members: Vec<Instance>,
    /// Places with the members that stand there, by place.
    points: Vec<(u32, u32)>,
}

impl Ring {
    /// The ring of these members.
    pub fn new(members: Vec<Instance>) -> Self {
        let each_max = POINTS_MAX / members.len().max(1);
        let mut points = Vec::new();
        for (host, member) in (0_u32..).zip(&members) {
            let replicas = (member.replicas as usize).min(each_max);
            points.extend((0..replicas).map(|replica| (hash(format!("{}{replica}", member.ident).as_bytes()), host)));
        }
        points.sort_unstable();
        Self { members, points }
    }

    /// The members from a key on, each as often as it stands there, once around.
    ///
    /// A key behind the last point belongs to that one, not to the first, as in Varnish.
    pub fn from(&self, key: u32) -> impl Iterator<Item = usize> {
        let at = self.points.partition_point(|(point, _)| *point < key).min(self.points.len().saturating_sub(1));
        let (before, behind) = self.points.split_at(at);
        behind.iter().chain(before).map(|(_, host)| *host as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub fn ring(idents: &[&str], replicas: u32) -> Ring {
        let member = |(backend, ident): (Number, &&str)| Instance {
            backend,
            ident: (*ident).to_owned(),
            rampup: None,
            replicas,
        };
        Ring::new((0..).zip(idents).map(member).collect())
    }

    #[test]
    fn members_stand_where_varnish_puts_them() {
        let ring = ring(&["s1", "s2", "s3"], 25);
        // From directors_c00007.vtc.
        for (at, point, host) in [
            (0, 0x03b6_b56a, 0),
            (1, 0x0669_86a7, 2),
            (7, 0x1112_f910, 1),
            (23, 0x564c_a84f, 0),
            (45, 0x9f33_cd30, 2),
            (74, 0xfc28_e8d2, 2),
        ] {
            assert_eq!(ring.points[at], (point, host), "{at}");
        }
        assert_eq!(ring.points.len(), 75);
        // From directors_c00003.vtc and directors_c00007.vtc.
        for (key, host) in [
            (1, 0),
            (0x7fff_ffff, 1),
            (0xffff_ffff, 2),
            (0x68b9_02f7, 0),
            (0x39dc_4613, 1),
            (0xc779_3505, 2),
            (0x564c_a84f, 0),
            (0x564c_a850, 0),
        ] {
            assert_eq!(ring.from(key).next(), Some(host), "{key:x}");
        }
    }

    #[test]
    fn a_ring_is_walked_once_around() {
        let all = ring(&["a", "b"], 3);
        assert_eq!(all.from(0x8000_0000).count(), 6);
        assert_eq!(ring(&[], 3).from(7).count(), 0);
        assert_eq!(ring(&["a", "b"], u32::MAX).points.len(), POINTS_MAX);
    }
}

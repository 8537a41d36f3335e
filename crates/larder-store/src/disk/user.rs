//! The user that this process runs as, for messages.

/// Its name in quotes, or its number where `/etc/passwd` has no name for it.
pub(super) fn own() -> String {
    let uid = rustix::process::geteuid().as_raw();
    let users = std::fs::read_to_string(USERS).unwrap_or_default();
    match name_of(uid, &users) {
        Some(name) => format!("\"{name}\""),
        None => uid.to_string(),
    }
}

fn name_of(uid: u32, users: &str) -> Option<&str> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then_some(name)
    })
}

const USERS: &str = "/etc/passwd";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_the_name_of_its_line() {
        let users = "root:x:0:0:root:/root:/bin/sh\n\n#\nwww-data:x:33:33::/var/www:\nhalf:x\n";
        for (uid, name) in [(0, Some("root")), (33, Some("www-data")), (34, None)] {
            assert_eq!(name_of(uid, users), name, "{uid}");
        }
    }
}

use super::*;
use crate::order::Challenge;
use crate::placeholder::placeholder;
use std::sync::{Arc, Mutex};

const DIRECTORY: &str = "https://ca.example:14000/dir";

struct Place {
    state_dir: tempfile::TempDir,
    store: Store,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Place {
    fn new() -> Self {
        let state_dir = tempfile::tempdir().expect("a folder for a test");
        let lines = Arc::new(Mutex::new(Vec::new()));
        let log = {
            let lines = lines.clone();
            Log::new(Box::new(move |_, text| lines.lock().expect("nobody panics with it").push(text.into())))
        };
        let store = Store::new(&state_dir.path().join("acme"), DIRECTORY, log);
        store.prepare().expect("a test can make folders");
        Self { state_dir, store, lines }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.state_dir.path().join("acme/ca.example%3a14000_dir").join(name)
    }

    fn has_said(&self, fact: &str) -> bool {
        self.lines.lock().expect("nobody panics with it").iter().any(|line| line.contains(fact))
    }
}

fn order(names: &[&str]) -> Order {
    Order::new(names, Challenge::Either).expect("the names are in order")
}

fn certificate(names: &[&str]) -> Certificate {
    let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
    let made = placeholder(&names, SystemTime::UNIX_EPOCH).expect("the names are in order");
    Certificate::new(made.cert_pem.as_bytes(), made.key_pem.as_bytes()).expect("it is one")
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

#[test]
fn what_is_saved_is_there_again_and_for_nobody_else_to_read() {
    let place = Place::new();
    let order = order(&["a.example"]);
    assert!(place.store.certificate(&order).is_none());
    let under_way = OrderUnderWay { url: "https://ca.example/1".into(), key_pem: "key".into() };
    place.store.save_order_under_way(&order, &under_way).expect("it can be written");
    let found = place.store.order_under_way(&order).expect("it was saved");
    assert_eq!((found.url, found.key_pem), (under_way.url, under_way.key_pem));
    assert_eq!(mode(&place.path(&format!("{}.order.json", order.id()))), 0o600);

    let certificate = certificate(&["a.example"]);
    place.store.save_certificate(&order, &certificate).expect("it can be written");
    assert!(place.store.certificate(&order).as_ref() == Some(&certificate));
    assert!(place.store.order_under_way(&order).is_none(), "the order is done");
    assert_eq!(mode(&place.path(&format!("{}.pem", order.id()))), 0o600);
    assert_eq!(place.store.certificates().len(), 1);

    let until = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    place.store.save_wait(&order, until).expect("it can be written");
    assert_eq!(place.store.wait(&order), Some(until));
    place.store.save_certificate(&order, &certificate).expect("it can be written");
    assert_eq!(place.store.wait(&order), None, "the CA has given what it was asked for");

    place.store.save_account_key(b"der").expect("it can be written");
    assert_eq!(mode(&place.path("account.key")), 0o600);
    place.store.save_account(&json!({ "a": 1 })).expect("it can be written");
    assert_eq!(place.store.account(), Some(json!({ "a": 1 })));
    assert_eq!(mode(&place.path("account.json")), 0o600);
    assert_eq!(place.store.account_key(), None, "it is in the account now");
    assert_eq!(mode(&place.path("")), 0o700);
}

#[test]
fn a_folder_that_others_may_read_is_closed() {
    let place = Place::new();
    fs::set_permissions(place.path(""), Permissions::from_mode(0o755)).expect("it is ours");
    place.store.prepare().expect("it is ours");
    assert_eq!(mode(&place.path("")), 0o700);
    assert!(place.has_said("had mode 755; it is 700 now"));
}

#[test]
fn what_is_damaged_is_renamed_and_said() {
    let place = Place::new();
    let order = order(&["a.example"]);
    let other = certificate(&["b.example"]).file_text();
    for (name, bytes, fact) in [
        (format!("{}.pem", order.id()), &b"garbage"[..], "there is no private key in it"),
        (format!("{}.pem", order.id()), &other, "it is not for the names that its file name says"),
        (format!("{}.order.json", order.id()), b"{\"url\":1}", "it does not say what order is under way"),
        (format!("{}.wait", order.id()), b"99999999999999999999", "it does not say until when to wait"),
        ("account.json".into(), b"{", "it is no JSON"),
        ("account.json".into(), &[b'x'; FILE_BYTES_MAX as usize + 1], "it has more than 1048576 bytes"),
    ] {
        fs::write(place.path(&name), bytes).expect("a test can write");
        let found = (place.store.certificate(&order), place.store.order_under_way(&order), place.store.account());
        assert!(matches!(found, (None, None, None)), "{name}");
        assert_eq!(place.store.wait(&order), None, "{name}");
        assert!(!place.path(&name).exists(), "{name}");
        assert!(place.path(&format!("{name}.damaged")).exists(), "{name}");
        assert!(place.has_said(fact), "{name}: {fact}");
    }
}

#[test]
fn what_a_crash_left_beside_does_not_matter() {
    let place = Place::new();
    fs::write(place.path("account.json.new"), b"half").expect("a test can write");
    assert_eq!(place.store.account(), None);
    place.store.save_account(&json!({})).expect("it can be written");
    assert_eq!(place.store.account(), Some(json!({})));
    assert!(!place.path("account.json.new").exists());
}

#[test]
fn one_process_at_a_time_orders() {
    let place = Place::new();
    let held = place.store.lock().expect("it can be opened");
    assert!(held.is_some());
    assert!(place.store.lock().expect("it can be opened").is_none());
    drop(held);
    assert!(place.store.lock().expect("it can be opened").is_some());
}

#[test]
fn a_place_that_cannot_be_written_names_itself_and_the_mend() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let file = folder.path().join("file");
    fs::write(&file, b"").expect("a test can write");
    let error = Store::new(&file, DIRECTORY, Log::nowhere()).prepare().expect_err("a file is no folder");
    let text = error.to_string();
    assert!(text.starts_with(&format!("cannot make {}/", file.display())), "{text}");
    assert!(text.ends_with("it must belong to the user that larder serves as"), "{text}");
}

#[test]
fn a_directory_has_a_folder_of_its_own() {
    for (directory, name) in [
        ("https://acme-v02.api.letsencrypt.org/directory", "acme-v02.api.letsencrypt.org_directory"),
        ("https://CA.example:14000/dir", "ca.example%3a14000_dir"),
        ("https://ca.example/a_b", "ca.example_a%5fb"),
        ("https://../../etc", "%2e._.._etc"),
        ("", ""),
    ] {
        assert_eq!(folder_name(directory), name);
    }
}

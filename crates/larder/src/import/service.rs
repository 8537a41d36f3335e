//! The service of another server: what its unit runs, and the drop-in by which it runs larder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::shown;
use super::words::{self, Reader, Variables};
use crate::machine::Machine;
use crate::unit::{Setting, Unit};

/// A command of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Its words, the program first.
    pub words: Vec<String>,
    /// Where it is written.
    pub file: PathBuf,
    /// From 1.
    pub line: usize,
    /// All lines that its words may stand in, the strongest first.
    pub lines: Vec<Line>,
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    file: PathBuf,
    /// From 1.
    number: usize,
    text: String,
}

impl Command {
    /// Where a word stands; if it is put together of several, where the command begins.
    pub fn place_of(&self, is_it: impl Fn(&str) -> bool) -> (PathBuf, usize) {
        let has_it = |line: &&Line| {
            let is_between = |letter: char| letter.is_whitespace() || "\"'\\".contains(letter);
            let mut words = line.text.split(is_between);
            words.any(|word| is_it(word) || word.split_once('=').is_some_and(|(_, value)| is_it(value)))
        };
        let found = self.lines.iter().find(has_it);
        found.map_or_else(|| (self.file.clone(), self.line), |line| (line.file.clone(), line.number))
    }
}

/// The lines of a text from `begin`, the first of which is 1, without comments.
pub fn lines(file: &Path, text: &str, begin: usize) -> impl Iterator<Item = Line> {
    let lines = text.lines().enumerate().skip(begin.saturating_sub(1));
    let lines = lines.filter(|(_, text)| !text.trim_start().starts_with(['#', ';']));
    lines.map(|(at, text)| Line { file: file.to_owned(), number: at + 1, text: text.to_owned() })
}

/// The lines of a setting: each that ends in a backslash goes on.
fn lines_of(machine: &Machine, setting: &Setting) -> Vec<Line> {
    let text = machine.text(&setting.file).unwrap_or_default();
    let mut found = Vec::new();
    for line in lines(&setting.file, &text, setting.line) {
        let goes_on = line.text.trim_end().ends_with('\\');
        found.push(line);
        if !goes_on {
            break;
        }
    }
    found
}

/// The last command of a key of the unit, with the variables that the unit sets.
pub fn command(machine: &Machine, unit: &Unit, key: &str) -> Option<Command> {
    let setting = unit.last(key)?;
    let value = setting.value.trim_start_matches(['-', '@', ':', '+', '!']);
    let words = words::split(value, &environment(machine, unit));
    let mut lines = lines_of(machine, setting);
    lines.extend(unit.all("Environment").into_iter().flat_map(|setting| lines_of(machine, setting)));
    for (file, text) in files_of_variables(machine, unit) {
        lines.extend(self::lines(&file, &text, 1));
    }
    Some(Command { words, file: setting.file.clone(), line: setting.line, lines })
}

/// The value of a key with another program in place of one whose name ends so, if it is that: its options stay as they are
/// written, with the variables and specifiers that only systemd knows.
pub fn with_program(value: &str, old: &str, new: &str) -> Option<String> {
    let bare = value.trim_start_matches(['-', '@', ':', '+', '!']);
    let (signs, _) = value.split_at(value.len() - bare.len());
    let program = bare.split_whitespace().next()?;
    program.ends_with(old).then(|| format!("{signs}{new}{}", &bare[program.len()..]))
}

fn environment(machine: &Machine, unit: &Unit) -> Variables {
    let mut variables = Variables::new();
    let mut lines = BTreeMap::new();
    for setting in unit.all("Environment") {
        for word in words::split(&setting.value, &Variables::new()) {
            if let Some((name, value)) = word.split_once('=') {
                variables.insert(name.to_owned(), value.to_owned());
            }
        }
    }
    for (_, text) in files_of_variables(machine, unit) {
        words::assign(&text, Reader::Systemd, &mut variables, &mut lines);
    }
    variables
}

/// Those of `EnvironmentFile=` that can be read.
fn files_of_variables(machine: &Machine, unit: &Unit) -> Vec<(PathBuf, String)> {
    let paths = unit.all("EnvironmentFile").into_iter().map(|setting| setting.value.trim_start_matches('-'));
    paths.filter_map(|path| Some((path.into(), machine.text(path).ok()?))).collect()
}

/// The name of a drop-in that is read after all that the unit has.
pub fn drop_in_name(unit: &Unit, own: &str) -> &'static str {
    let later = unit.files.iter().skip(1).filter(|file| !file.ends_with(own)).filter_map(|file| file.file_name());
    match later.max().is_some_and(|last| last.as_encoded_bytes() > b"larder.conf".as_slice()) {
        true => "zz-larder.conf",
        false => "larder.conf",
    }
}

/// The commands that put a drop-in into its place, if `test` succeeds, and start the service anew, and those of the way
/// back. Whoever runs them all after a test that fails starts the other server anew.
pub fn switch(service: &str, test: &str, from: &Path, name: &str) -> (Vec<String>, Vec<String>) {
    let to = format!("/etc/systemd/system/{service}.service.d/{name}");
    let there = [
        format!("{test} && install -D -m 644 {} {to} && systemctl daemon-reload", shown(from)),
        format!("systemctl restart {service}"),
    ];
    let back = [format!("rm {to} && systemctl daemon-reload"), format!("systemctl restart {service}")];
    (there.into(), back.into())
}

/// The larder that units and commands are to run: on this machine the one that runs, on another that of its package.
pub fn program(machine: &Machine, running: &Path) -> PathBuf {
    let packaged = Path::new(PROGRAM);
    // A link of the package stays when the package changes where it leads.
    match machine.is_this() && machine.followed(running) != machine.followed(packaged) {
        true => running.to_owned(),
        false => packaged.to_owned(),
    }
}

/// What has to be done first if the unit could not run `program`: the other server would be stopped for nobody.
pub fn unusable(machine: &Machine, unit: Option<&Unit>, name: &str, program: &Path) -> Option<String> {
    let shown = program.display();
    if !machine.has(program) {
        return Some(format!("# there is no {shown} on this machine: install larder, and ask again"));
    }
    let setting = unit?.hides(program)?;
    Some(format!("# {name} does not see {shown}, by {setting}: install larder in /usr/local/sbin, and ask that one"))
}

/// What has to be stopped first: larder's own service, if it is to start with the machine, wants the same ports.
pub fn own_service(machine: &Machine) -> Option<String> {
    let wanted = Path::new("/etc/systemd/system/multi-user.target.wants/larder.service");
    machine.has(wanted).then(|| "systemctl disable --now larder".to_owned())
}

/// Where packages have larder.
const PROGRAM: &str = "/usr/sbin/larder";

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Machine) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let machine = Machine::at(root.path()).unwrap();
        (root, machine)
    }

    #[test]
    fn a_command_has_the_variables_of_its_unit() {
        let unit =
            "[Service]\nEnvironment=\"A=1 2\" B=3\nEnvironmentFile=-/etc/default/v\nExecStart=-/bin/v $OPTS ${A} $B\n";
        let (_root, machine) =
            machine(&[("lib/systemd/system/v.service", unit), ("etc/default/v", "OPTS=\"-x y\"\nB=4\n")]);
        let unit = Unit::read(&machine, "v.service").unwrap().unwrap();
        let command = command(&machine, &unit, "ExecStart").unwrap();
        assert_eq!((command.words.join("|").as_str(), command.line), ("/bin/v|-x|y|1 2|4", 4));
        assert_eq!(own_service(&machine), None);
    }

    #[test]
    fn a_word_has_the_line_in_which_it_stands() {
        let unit =
            "[Service]\nExecStart=/bin/v -a \\\n# b\n  b c=1 \\\n  \"d e\" $OPTS\nExecStop=f\nEnvironmentFile=/etc/v\n";
        let (_root, machine) =
            machine(&[("lib/systemd/system/v.service", unit), ("etc/v", "A=1\nOPTS=\"-x \\\n y\"\n")]);
        let unit = Unit::read(&machine, "v.service").unwrap().unwrap();
        let command = command(&machine, &unit, "ExecStart").unwrap();
        for (word, expected) in [
            ("-a", "/lib/systemd/system/v.service:2"),
            ("b", "/lib/systemd/system/v.service:4"),
            ("c=1", "/lib/systemd/system/v.service:4"),
            ("e", "/lib/systemd/system/v.service:5"),
            ("-x", "/etc/v:2"),
            ("y", "/etc/v:3"),
            ("f", "/lib/systemd/system/v.service:2"),
            ("none", "/lib/systemd/system/v.service:2"),
        ] {
            let (file, line) = command.place_of(|own| own == word);
            assert_eq!(format!("{}:{line}", file.display()), expected, "{word}");
        }
    }

    #[test]
    fn the_program_is_one_that_the_unit_can_run() {
        let this = Machine::at(Path::new("/")).unwrap();
        let running = std::env::current_exe().unwrap();
        assert_eq!(program(&this, &running), running);
        let (_root, other) = machine(&[("usr/sbin/larder", ""), ("root/larder", "")]);
        assert_eq!(program(&other, &running), Path::new("/usr/sbin/larder"));
        for (unit, path, said) in [
            ("", "/usr/sbin/larder", None),
            ("ProtectHome=yes", "/usr/sbin/larder", None),
            ("", "/root/larder", None),
            ("ProtectHome=yes", "/root/larder", Some("v.service does not see /root/larder, by ProtectHome=yes")),
            ("", "/opt/larder", Some("there is no /opt/larder")),
        ] {
            let unit = format!("[Service]\n{unit}\n");
            fs::create_dir_all(other.outside(Path::new("/etc/systemd/system"))).unwrap();
            fs::write(other.outside(Path::new("/etc/systemd/system/v.service")), unit).unwrap();
            let unit = Unit::read(&other, "v.service").unwrap();
            let why = unusable(&other, unit.as_ref(), "v.service", Path::new(path));
            assert_eq!(why.is_some(), said.is_some(), "{why:?}");
            assert!(why.unwrap_or_default().contains(said.unwrap_or_default()), "{path}");
        }
    }

    #[test]
    fn only_the_program_of_a_command_changes() {
        for (value, expected) in [
            ("/usr/sbin/nginx -g 'daemon on;' $A", Some("/larder -g 'daemon on;' $A")),
            ("-/opt/nginx", Some("-/larder")),
            ("/usr/bin/rm -f /run/nginx", None),
            ("-", None),
            ("", None),
        ] {
            assert_eq!(with_program(value, "/nginx", "/larder").as_deref(), expected, "{value}");
        }
    }

    #[test]
    fn a_drop_in_is_read_last() {
        for (others, expected) in
            [(&[][..], "larder.conf"), (&["a.conf"], "larder.conf"), (&["override.conf"], "zz-larder.conf")]
        {
            let paths: Vec<String> =
                others.iter().map(|name| format!("etc/systemd/system/v.service.d/{name}")).collect();
            let mut files = vec![("lib/systemd/system/v.service", "[Service]\nExecStart=/v\n")];
            files.extend(paths.iter().map(|path| (path.as_str(), "[Service]\n")));
            let (_root, machine) = machine(&files);
            let unit = Unit::read(&machine, "v.service").unwrap().unwrap();
            assert_eq!(drop_in_name(&unit, "none"), expected, "{others:?}");
        }
    }
}

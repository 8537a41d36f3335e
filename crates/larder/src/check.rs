//! `-t` and `-T`: checks whether a configuration is right, and whether it could be started on this machine.

use std::io::{self, Write};
use std::process::ExitCode;

use larder_conf::model::LogLevel;

use crate::cli::Test;
use crate::configuration::{Configuration, Surroundings};
use crate::folders;
use crate::generation::{self, StartError};
use crate::logs;
use crate::paths::Paths;
use crate::pidfile;
use crate::sockets;
use crate::version;

/// Checks, prints the results as nginx does, and returns nginx's exit code.
pub fn run(test: &Test) -> ExitCode {
    if let Some(show) = test.show {
        eprint!("{}", version::text(show));
    }
    let paths = Paths::of_running(&test.options);
    let log = logs::starting_log(&paths);
    let file = paths.conf_file.display();
    let say = |text: &str| {
        if !test.options.quiet {
            eprintln!("larder: {text}");
        }
    };
    let configuration = match Configuration::read(Surroundings::new(&paths, test.options.globals.clone())) {
        Ok(configuration) => configuration,
        Err(rejected) => {
            log.write_rendered(&rejected.rendered);
            eprintln!("larder: configuration file {file} test failed");
            return ExitCode::FAILURE;
        }
    };
    if !test.options.quiet {
        eprint!("{}", configuration.rendered_notices(test.no_effect));
        eprint!("{}", configuration.render(&larder_conf::lint(&configuration.config)));
    }
    say(&format!("the configuration file {file} syntax is ok"));
    if let Err(failure) = try_out(&configuration) {
        log.write_rendered(&failure.rendered());
        eprintln!("larder: configuration file {file} test failed");
        return ExitCode::FAILURE;
    }
    say(&format!("configuration file {file} test is successful"));
    if test.dump
        && let Err(error) = dump(&configuration)
    {
        log.write(LogLevel::Emerg, &format!("the configuration could not be written out: {error}"));
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Tries what a start would do, in nginx's order, and undoes it. As with nginx, folders and log files stay.
fn try_out(configuration: &Configuration) -> Result<(), StartError> {
    let account = generation::find_account(configuration)?;
    pidfile::try_write(&configuration.pid_path())?;
    folders::make_all(&configuration.config, account.as_ref())?;
    logs::open_all(&logs::files(&configuration.config), logs::Links::All)?;
    for plan in sockets::plan(&configuration.config) {
        sockets::try_open(&plan)?;
    }
    Ok(())
}

/// Prints every file that was read, each once, as nginx does.
fn dump(configuration: &Configuration) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for (path, bytes) in configuration.sources.files() {
        writeln!(out, "# configuration file {}:", path.display())?;
        out.write_all(bytes)?;
        writeln!(out)?;
    }
    out.flush()
}

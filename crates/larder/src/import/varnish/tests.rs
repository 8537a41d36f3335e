use std::fs;

use super::*;
use crate::configuration::{Configuration, Surroundings as Around};
use crate::paths::DefaultLog;

const UNIT: &str = "[Service]\nType=simple\nExecStart=/usr/sbin/varnishd \\\n  -j unix,user=vcache \\\n  -F -a :6081 \\\n  \
    -T localhost:6082 -f /etc/varnish/default.vcl -S /etc/varnish/secret -s malloc,256m -p default_ttl=60 -p thread_pools=2\n";
const VCL: (&str, &str) = (
    "/etc/varnish/default.vcl",
    "vcl 4.1;\nimport std;\nbackend default { .host = \"127.0.0.1\"; .port = \"8080\"; }\nsub vcl_recv { std.log(\"x\"); }\n",
);

const LARDER: &str = "/usr/sbin/larder";

struct Said {
    report: Report,
    machine: Machine,
    _root: tempfile::TempDir,
}

fn said(files: &[(&str, &str)]) -> Result<Said, String> {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files.iter().chain(&[(LARDER, "")]) {
        let path = root.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let machine = Machine::at(root.path()).unwrap();
    Ok(Said { report: report(&machine, Path::new(LARDER), None)?, machine, _root: root })
}

#[test]
fn the_unit_of_a_package_works_and_its_stand_in_can_be_used() {
    let Said { report, machine, _root } = said(&[("/lib/systemd/system/varnish.service", UNIT), VCL]).unwrap();
    assert!(report.works(), "{report:?}");
    assert_eq!(report.read, "varnish: /lib/systemd/system/varnish.service");
    for line in [
        "listens: port 6081",
        "storages: s0 (256 MB of memory), Transient (its share of memory)",
        "parameters: default_ttl=60",
        "the VCL /etc/varnish/default.vcl compiles, with std",
    ] {
        assert!(report.works.iter().any(|own| own == line), "{line}: {:?}", report.works);
    }
    let differs = report.differs[0].in_a_line();
    assert_eq!(
        differs,
        "/lib/systemd/system/varnish.service:6: these parameters change nothing in larder: thread_pools"
    );
    let text = report.configuration.clone().unwrap();
    for part in [
        "listen \"0.0.0.0:6081\" backlog=1024;",
        "keys_zone=s0:1m inactive=10y larder_disk=off larder_memory=268435456;",
        "vcl \"/etc/varnish/default.vcl\";",
        "vcl_parameter default_ttl \"60\";",
        "user \"vcache\";",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // It is a configuration.
    let conf = machine.outside(Path::new("/etc/larder/stand_in.conf"));
    fs::create_dir_all(conf.parent().unwrap()).unwrap();
    fs::write(&conf, text).unwrap();
    let around = Around {
        conf_file: "/etc/larder/stand_in.conf".into(),
        conf_prefix: "/etc/larder".into(),
        prefix: "/".into(),
        globals: None,
        is_root: true,
        hostname: "h".to_owned(),
        error_log: DefaultLog::Stderr,
    };
    Configuration::by_loader(around, &mut machine.clone()).unwrap();
    let drop_in = &report.files.iter().find(|(name, _)| name.ends_with("varnish.service.d/larder.conf")).unwrap().1;
    assert!(
        drop_in.contains("ExecStart=\nExecStart=/usr/sbin/larder varnishd -j unix,user=vcache -F -a :6081 "),
        "{drop_in}"
    );
    assert_eq!(
        report.switch_over[1..],
        [
            "/usr/sbin/larder varnishd -C -j unix,user=vcache -F -a :6081 -T localhost:6082 -f /etc/varnish/default.vcl \
             -S /etc/varnish/secret -s malloc,256m -p default_ttl=60 -p thread_pools=2 && install -D -m 644 /root/larder-import/varnish.service.d/larder.conf \
             /etc/systemd/system/varnish.service.d/larder.conf && systemctl daemon-reload",
            "systemctl restart varnish"
        ]
    );
    assert_eq!(report.way_back[1], "systemctl restart varnish");
}

#[test]
fn a_drop_in_and_a_file_of_variables_are_heeded() {
    let own = "[Service]\nEnvironmentFile=/etc/default/varnish\nExecStart=\nExecStart=/usr/sbin/varnishd -F $DAEMON_OPTS\n\
               MemoryDenyWriteExecute=true\n";
    let variables = "DAEMON_OPTS=\"-a :80,PROXY -f default.vcl -s file,/var/lib/v.bin,1G\"\n";
    let files = [
        ("/lib/systemd/system/varnish.service", UNIT),
        ("/etc/systemd/system/varnish.service.d/override.conf", own),
        ("/etc/default/varnish", variables),
        VCL,
    ];
    let report = said(&files).unwrap().report;
    assert!(report.works(), "{report:?}");
    assert_eq!(report.works[0], "listens: port 80 with the PROXY protocol");
    assert!(report.differs.iter().any(|remark| remark.message.contains("/var/lib/v.bin.larder")), "{report:?}");
    assert!(report.switch_over[1].contains("zz-larder.conf"));
    let drop_in = &report.files.last().unwrap().1;
    assert!(drop_in.contains("MemoryDenyWriteExecute=no"), "{drop_in}");
    assert!(drop_in.contains("ExecStart=/usr/sbin/larder varnishd -F $DAEMON_OPTS\n"), "{drop_in}");
}

#[test]
fn readers_of_the_log_go_along_where_they_are_wanted() {
    let reader = "[Service]\nUser=varnishlog\nExecStart=/usr/bin/varnishncsa -a -w /var/log/v.log -D -P /run/v.pid\n";
    let wanted = ("/etc/systemd/system/multi-user.target.wants/varnishncsa.service", "");
    let files = [
        ("/lib/systemd/system/varnish.service", UNIT),
        ("/lib/systemd/system/varnishncsa.service", reader),
        VCL,
        wanted,
    ];
    let report = said(&files).unwrap().report;
    let (name, text) = report.files.last().unwrap();
    assert_eq!(name, Path::new("varnishncsa.service.d/larder.conf"));
    assert!(text.ends_with("ExecStart=/usr/sbin/larder varnishncsa -a -w /var/log/v.log -D -P /run/v.pid\n"), "{text}");
    let has = |commands: &[String]| commands.iter().any(|command| command == "systemctl restart varnishncsa");
    assert!(has(&report.switch_over) && has(&report.way_back), "{report:?}");
    let without = said(&files[..3]).unwrap().report;
    assert!(!has(&without.switch_over), "{without:?}");
}

#[test]
fn without_a_unit_the_init_scripts_file_counts() {
    let text = "NFILES=1\n# DAEMON_OPTS=\"-a :1\"\nDAEMON_OPTS=\"-a :6081 \\\n   -f /etc/varnish/default.vcl \\\n   -s malloc,64m\"\n";
    let report = said(&[("/etc/default/varnish", text), VCL]).unwrap().report;
    assert_eq!((report.works(), report.read.as_str()), (true, "varnish: /etc/default/varnish"));
    let options = "-a :6081 -f /etc/varnish/default.vcl -s malloc,64m";
    let test = format!("/usr/sbin/larder varnishd -C {options} && /etc/init.d/varnish stop");
    assert_eq!(report.switch_over[0], test);
    assert_eq!(report.switch_over[1], format!("/usr/sbin/larder varnishd {options} -P /run/larder-varnishd.pid"));
}

#[test]
fn each_option_has_its_line() {
    let text = "NFILES=1\nDAEMON_OPTS=\"-a :6081 \\\n   -f /etc/varnish/default.vcl \\\n   -p default_ttl=60 \\\n   -p thread_pools=2 \\\n\
                -pvcc_allow_inline_c=on -p thread_pool_min=9 \\\n   -u nobody\"\nOTHER=\"-u x\"\n";
    let report = said(&[("/etc/default/varnish", text), VCL]).unwrap().report;
    let told = |remarks: &[Remark]| remarks.iter().map(Remark::in_a_line).collect::<Vec<_>>();
    let nothing = "these parameters change nothing in larder:";
    assert_eq!(
        told(&report.differs),
        [
            format!("/etc/default/varnish:5: {nothing} thread_pools"),
            format!("/etc/default/varnish:6: {nothing} thread_pool_min, vcc_allow_inline_c"),
        ]
    );
    assert!(told(&report.refused)[0].starts_with("/etc/default/varnish:7: "), "{report:?}");
    assert!(report.works.contains(&"parameters: default_ttl=60".to_owned()), "{report:?}");
}

#[test]
fn what_does_not_work_has_its_place() {
    let unit = "[Service]\nExecStart=/usr/sbin/varnishd -F -u nobody -s tape,1G -p no_such=1 -a :80 -f /etc/varnish/default.vcl\n";
    let vcl = ("/etc/varnish/default.vcl", "vcl 4.1;\nbackend default none;\nsub vcl_recv {\n  oops;\n}\n");
    let report = said(&[("/lib/systemd/system/varnish.service", unit), vcl]).unwrap().report;
    let told: Vec<String> = report.refused.iter().map(Remark::in_a_line).collect();
    assert_eq!(told.len(), 4, "{told:?}");
    assert!(told[0].starts_with("/lib/systemd/system/varnish.service:2: ") && told[0].contains("-u"), "{told:?}");
    assert!(told[1].contains("tape") && told[2].contains("no_such"), "{told:?}");
    assert!(told[3].starts_with("/etc/varnish/default.vcl:4: "), "{told:?}");
    let drop_in = &report.files.last().unwrap().1;
    let kept = "ExecStart=/usr/sbin/larder varnishd -F -a :80 -f /etc/varnish/default.vcl\n";
    assert!(drop_in.contains(kept), "{drop_in}");
    let missing = said(&[("/lib/systemd/system/varnish.service", UNIT)]).unwrap().report;
    assert!(!missing.works() && missing.refused[0].message.contains("default.vcl"), "{missing:?}");
}

#[test]
fn whatever_the_files_say_there_is_an_answer() {
    for text in [
        "",
        "\0",
        "\u{e9}=\u{e9}",
        "ExecStart=",
        "ExecStart=/varnishd -f '",
        "ExecStart=/varnishd $A ${",
        "ExecStart=-\\",
        "DAEMON_OPTS=\"-a",
    ] {
        for path in ["/lib/systemd/system/varnish.service", "/etc/default/varnish", "/etc/varnish/default.vcl"] {
            let all = [("/lib/systemd/system/varnish.service", UNIT), VCL, (path, text)];
            let files = if path.starts_with("/etc/default") { &all[1..] } else { &all[..] };
            match said(files) {
                Ok(said) => assert!(!said.report.as_text().is_empty()),
                Err(why) => assert!(!why.is_empty(), "{path} {text:?}"),
            }
        }
    }
}

#[test]
fn what_is_no_varnish_is_told() {
    for (files, expected) in [
        (&[][..], "there is no unit varnish.service"),
        (&[("/lib/systemd/system/varnish.service", "[Service]\nExecStart=/opt/start.sh\n")], "runs /opt/start.sh"),
        (&[("/lib/systemd/system/varnish.service", "[Service]\n")], "has no ExecStart"),
        (&[("/etc/default/varnish", "NFILES=1\n")], "no DAEMON_OPTS"),
    ] {
        let error = said(files).err().unwrap();
        assert!(error.contains(expected), "{error}");
    }
}

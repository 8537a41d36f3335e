//! The frame around the configuration of a case, and the files that a case asks for.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::{Duration, SystemTime};

use larder_testkit::{Film, Folder, Layout};

use crate::case::{Case, Entry};

/// 2020-01-01, the modification time of files unless told: validators must be the same for both servers.
const MTIME_SECS: u64 = 1_577_836_800;

const MIME_TYPES: &str = "types {
    text/html html htm; text/css css; text/xml xml; text/plain txt; image/gif gif; image/jpeg jpeg jpg;
    image/png png; image/svg+xml svg; image/webp webp; image/x-icon ico; application/javascript js;
    application/json json; application/pdf pdf; application/zip zip; font/woff2 woff2; video/mp4 mp4; video/x-flv flv;
}
";

const FASTCGI_PARAMS: &str = "fastcgi_param QUERY_STRING $query_string;
fastcgi_param REQUEST_METHOD $request_method;
fastcgi_param CONTENT_TYPE $content_type;
fastcgi_param CONTENT_LENGTH $content_length;
fastcgi_param SCRIPT_NAME $fastcgi_script_name;
fastcgi_param REQUEST_URI $request_uri;
fastcgi_param DOCUMENT_URI $document_uri;
fastcgi_param DOCUMENT_ROOT $document_root;
fastcgi_param SERVER_PROTOCOL $server_protocol;
fastcgi_param REQUEST_SCHEME $scheme;
fastcgi_param HTTPS $https if_not_empty;
fastcgi_param GATEWAY_INTERFACE CGI/1.1;
fastcgi_param SERVER_SOFTWARE nginx/$nginx_version;
fastcgi_param REMOTE_ADDR $remote_addr;
fastcgi_param REMOTE_PORT $remote_port;
fastcgi_param REMOTE_USER $remote_user;
fastcgi_param SERVER_ADDR $server_addr;
fastcgi_param SERVER_PORT $server_port;
fastcgi_param SERVER_NAME $server_name;
fastcgi_param REDIRECT_STATUS 200;
";

/// Fills an empty folder with what the case needs; `fill` replaces placeholders.
pub fn build(case: &Case, folder: &Folder, fill: &dyn Fn(&str) -> String) -> io::Result<()> {
    fs::create_dir(folder.join("www"))?;
    folder.write("mime.types", MIME_TYPES)?;
    folder.write("fastcgi_params", FASTCGI_PARAMS)?;
    let script = "fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;\n";
    folder.write("fastcgi.conf", format!("{script}{FASTCGI_PARAMS}"))?;
    folder.write("nginx.conf", fill(&configuration(case)))?;
    for entry in &case.files {
        make(entry, folder, fill)?;
    }
    let folders = ["www/".to_owned()].into_iter().chain(case.files.iter().map(|entry| place(&entry.name)));
    for path in folders.filter(|path| path.starts_with("www/")) {
        for (end, _) in path.match_indices('/') {
            set_mtime(folder, path.get(..end).unwrap_or_default(), MTIME_SECS)?;
        }
    }
    for entry in case.files.iter().filter(|entry| entry.option("mode").is_some()) {
        let mode = entry.option("mode").and_then(|mode| u32::from_str_radix(mode, 8).ok()).unwrap_or(0o644);
        fs::set_permissions(folder.join(&place(&entry.name)), fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}

fn configuration(case: &Case) -> String {
    let says = |directive: &str| case.config.lines().any(|line| line.starts_with(directive));
    let user = if fs::metadata("/proc/self").is_ok_and(|own| is_root(&own)) { "user root root;" } else { "" };
    let root = if says("root ") { "" } else { "root {ROOT};" };
    let access_log = if case.mentions("access_log") { "" } else { "access_log off;" };
    let workers = if case.main.contains("worker_processes") { "" } else { "worker_processes 1;" };
    format!(
        "daemon off;\n{user}\n{workers}\npid nginx.pid;\nerror_log error.log info;\n{main}\n\
         events {{ worker_connections 256; }}\nhttp {{\n\
         client_body_temp_path {{DIR}}/temp-body; proxy_temp_path {{DIR}}/temp-proxy;\n\
         fastcgi_temp_path {{DIR}}/temp-fastcgi; uwsgi_temp_path {{DIR}}/temp-uwsgi; scgi_temp_path {{DIR}}/temp-scgi;\n\
         {root} {access_log}\n{config}}}\n",
        main = case.main,
        config = case.config,
    )
}

/// Whether our own process belongs to root: only then may a configuration name a user.
fn is_root(own: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    own.uid() == 0
}

/// Where a file of a case lies in the folder.
fn place(name: &str) -> String {
    match name.strip_prefix('/') {
        Some(beside) => beside.to_owned(),
        None => format!("www/{name}"),
    }
}

/// Makes one file, folder or link that a case asks for.
pub fn make(entry: &Entry, folder: &Folder, fill: &dyn Fn(&str) -> String) -> io::Result<()> {
    let place = place(&entry.name);
    if place.ends_with('/') {
        return fs::create_dir_all(folder.join(&place));
    }
    if let [arrow, target] = entry.options.as_slice()
        && arrow == "->"
    {
        if let Some(parent) = folder.join(&place).parent() {
            fs::create_dir_all(parent)?;
        }
        return symlink(fill(target), folder.join(&place));
    }
    let content = match entry.option("size").map(str::parse::<usize>) {
        Some(Ok(size)) => (0..size).map(|at| b'a' + u8::try_from(at % 26).unwrap_or(0)).collect(),
        Some(Err(error)) => return Err(io::Error::other(error)),
        None if entry.option("film").is_some() => film(entry.option("film").unwrap_or_default())?,
        None if entry.text.is_empty() => Vec::new(),
        None if entry.has("raw") => crate::case::unescape(&entry.text).map_err(io::Error::other)?,
        None => format!("{}\n", fill(&entry.text)).into_bytes(),
    };
    folder.write(&place, content)?;
    let mtime = entry.option("mtime").and_then(|mtime| mtime.parse().ok()).unwrap_or(MTIME_SECS);
    set_mtime(folder, &place, mtime)
}

/// A film of so many seconds, in the layout that the words behind them say: `12,wide,late`.
fn film(words: &str) -> io::Result<Vec<u8>> {
    let mut words = words.split(',');
    let seconds = words.next().unwrap_or_default().parse().map_err(io::Error::other)?;
    let mut layout = Layout::default();
    for word in words {
        match word {
            "late" => layout.data_first = true,
            "wide" => layout.is_wide = true,
            "long" => layout.long_sizes = true,
            "offsets" => layout.has_offsets = true,
            "extras" => layout.has_extras = true,
            _ => return Err(io::Error::other(format!("no film is {word:?}"))),
        }
    }
    Ok(Film::of_seconds(seconds).write(layout))
}

fn set_mtime(folder: &Folder, place: &str, seconds: u64) -> io::Result<()> {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    fs::File::open(folder.join(place))?.set_modified(time)
}

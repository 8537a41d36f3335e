//! An image from scratch, in the layout of OCI with what `docker load` reads beside it.
//!
//! Source: the OCI image specification 1.1, `image-layout.md` and `config.md`.

use std::fs;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{SHA256, digest};

use super::error::{DistError, io_at, run};
use super::program::Program;
use super::tarball::{TAR, tar};
use super::{VERSION, tree};

/// Makes it in `out`.
pub fn make(root: &Path, out: &Path, program: &Program) -> Result<PathBuf, DistError> {
    let folder = tempfile::tempdir().map_err(io_at(&std::env::temp_dir()))?;
    let (files, image) = (folder.path().join("files"), folder.path().join("image"));
    lay(root, &files, program)?;
    let layer_at = folder.path().join("layer.tar");
    run(tar(&files, &layer_at).arg("."), TAR)?;
    let layer = Blob::put(&image, fs::read(&layer_at).map_err(io_at(&layer_at))?)?;
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let config = format!(
        r#"{{"architecture":"{arch}","os":"linux","config":{{"Entrypoint":["/usr/sbin/larder"],"Cmd":["-c","/etc/larder/larder.conf","-g","daemon off;"],"ExposedPorts":{{"80/tcp":{{}}}},"StopSignal":"SIGQUIT","Volumes":{{"/var/cache/larder":{{}}}}}},"rootfs":{{"type":"layers","diff_ids":["sha256:{}"]}}}}"#,
        layer.digest
    );
    let config = Blob::put(&image, config.into_bytes())?;
    let manifest = format!(
        r#"{{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{},"layers":[{}]}}"#,
        config.descriptor("application/vnd.oci.image.config.v1+json", ""),
        layer.descriptor("application/vnd.oci.image.layer.v1.tar", ""),
    );
    let manifest = Blob::put(&image, manifest.into_bytes())?;
    let named = format!(r#","annotations":{{"org.opencontainers.image.ref.name":"larder:{VERSION}"}}"#);
    let index = format!(
        r#"{{"schemaVersion":2,"manifests":[{}]}}"#,
        manifest.descriptor("application/vnd.oci.image.manifest.v1+json", &named)
    );
    let loaded = format!(
        r#"[{{"Config":"blobs/sha256/{}","RepoTags":["larder:{VERSION}"],"Layers":["blobs/sha256/{}"]}}]"#,
        config.digest, layer.digest
    );
    for (name, text) in
        [("oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#), ("index.json", &index), ("manifest.json", &loaded)]
    {
        tree::write(&image.join(name), text.as_bytes(), 0o644)?;
    }
    let made = out.join(format!("larder-{VERSION}-oci.tar"));
    run(tar(&image, &made).arg("."), TAR)?;
    Ok(made)
}

/// The files of the image: the program, its configuration with logs to the outside, and the accounts that it names.
fn lay(root: &Path, to: &Path, program: &Program) -> Result<(), DistError> {
    tree::copy(&program.path(), &to.join("usr/sbin/larder"), 0o755)?;
    let etc = root.join("packaging/etc/larder");
    for name in ["mime.types", "fastcgi.conf"] {
        tree::copy(&etc.join(name), &to.join("etc/larder").join(name), 0o644)?;
    }
    for (name, changes) in [
        ("larder.conf", [("/var/log/larder/error.log", "stderr"), ("/var/log/larder/access.log", "/dev/stdout")]),
        // The neighbour of the compose file; IPv6 is not there in many containers.
        (
            "sites/default.conf",
            [("unix:/run/php/php-fpm.sock", "php:9000"), ("    listen [::]:80 default_server;\n", "")],
        ),
    ] {
        let from = etc.join(name);
        let mut text = fs::read_to_string(&from).map_err(io_at(&from))?;
        for (old, new) in changes {
            if !text.contains(old) {
                return Err(DistError::Program(format!("{} does not say {old:?} any more", from.display())));
            }
            text = text.replace(old, new);
        }
        tree::write(&to.join("etc/larder").join(name), text.as_bytes(), 0o644)?;
    }
    tree::write(&to.join("etc/passwd"), b"root:x:0:0::/:/\nwww-data:x:33:33::/var/www:/\n", 0o644)?;
    tree::write(&to.join("etc/group"), b"root:x:0:\nadm:x:4:\nwww-data:x:33:\n", 0o644)?;
    for folder in ["run", "tmp", "var/cache/larder", "var/log/larder", "var/lib/larder", "var/www/html"] {
        let folder = to.join(folder);
        fs::create_dir_all(&folder).map_err(io_at(&folder))?;
    }
    Ok(())
}

/// A file of the image that is named by its bytes.
struct Blob {
    digest: String,
    size: usize,
}

impl Blob {
    fn put(image: &Path, bytes: Vec<u8>) -> Result<Self, DistError> {
        let digest: String = digest(&SHA256, &bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        tree::write(&image.join("blobs/sha256").join(&digest), &bytes, 0o644)?;
        Ok(Self { digest, size: bytes.len() })
    }

    /// How other files of the image name it; `more` are further members.
    fn descriptor(&self, media_type: &str, more: &str) -> String {
        format!(r#"{{"mediaType":"{media_type}","digest":"sha256:{}","size":{}{more}}}"#, self.digest, self.size)
    }
}

//! ObjectLog: a file of objects to which changes are appended.
//!
//! One JSON value a line: an object replaces the previous one with its name, and a string such as
//! `"shop/web"` deletes it. A process that ends while it appends leaves an incomplete last line:
//! what precedes it is read, and nothing is appended to a file of an earlier process.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::PathBuf;

use autoscaler::Key;
use autoscaler::api::key_of;
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A larger file was not written by this process.
const LARGEST_BYTES: u64 = 256 << 20;

/// The path of a log. Its methods block.
#[derive(Clone, Debug)]
pub(super) struct ObjectLog(PathBuf);

// === impl ObjectLog ===

impl ObjectLog {
    pub(super) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// The objects that the file has, up to its first line that is not readable.
    pub(super) fn read<K: Resource + DeserializeOwned>(&self) -> Vec<K> {
        let mut objects = BTreeMap::new();
        match self.read_into(&mut objects) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(file = %self.0.display(), %error, objects = objects.len(), "persisted objects not readable to the end");
            }
            _ => {}
        }
        objects.into_values().collect()
    }

    fn read_into<K: Resource + DeserializeOwned>(&self, objects: &mut BTreeMap<String, K>) -> io::Result<()> {
        let file = File::open(&self.0)?;
        if file.metadata()?.len() > LARGEST_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        for line in BufReader::new(file).split(b'\n') {
            let line = line?;
            if line.first() == Some(&b'"') {
                objects.remove(serde_json::from_slice::<&str>(&line)?);
            } else {
                let object: K = serde_json::from_slice(&line)?;
                objects.extend(key_of(&object).map(|key| (key.to_string(), object)));
            }
        }
        Ok(())
    }

    /// Replaces the file atomically.
    pub(super) fn replace<'a, K: Serialize + 'a>(
        &self,
        objects: impl Iterator<Item = &'a K>,
    ) -> io::Result<()> {
        let new = self.0.with_extension("new");
        let mut file = BufWriter::new(File::create(&new)?);
        for object in objects {
            write_line(&mut file, object)?;
        }
        file.into_inner()?;
        fs::rename(new, &self.0)
    }

    /// Appends changes of objects, `None` for a deleted one.
    pub(super) fn append<'a, K: Serialize + 'a>(
        &self,
        changes: impl Iterator<Item = (&'a Key, Option<&'a K>)>,
    ) -> io::Result<()> {
        let mut file = BufWriter::new(File::options().append(true).open(&self.0)?);
        for (key, object) in changes {
            match object {
                Some(object) => write_line(&mut file, object)?,
                None => write_line(&mut file, &key.to_string())?,
            }
        }
        file.flush()
    }
}

fn write_line(file: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *file, value)?;
    file.write_all(b"\n")
}

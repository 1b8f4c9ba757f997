//! The service account token with which one part of Rouse authenticates to another.
//!
//! The kubelet projects it into the pod, with an audience of Rouse's own, and rotates it long
//! before it expires. So the file is read again for every connection. Without a file no header is
//! sent: outside a cluster there is no file, and a receiver that requires the header rejects the
//! request.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue, header};

/// Larger than any token; a larger file is rejected.
const MAX_BYTES: usize = 64 * 1024;

/// The path of the token file. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct ProjectedToken {
    path: Option<Arc<PathBuf>>,
}

/// Why an existing token file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be read.
    #[error("cannot read token file {path:?}: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    /// The content is not a token.
    #[error("file {0:?} does not contain a token")]
    Content(PathBuf),
}

// === impl ProjectedToken ===

impl ProjectedToken {
    /// The token in the file `path`.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: Some(Arc::new(path.into())) }
    }

    /// Adds an `Authorization` header, if there is a token file.
    ///
    /// # Errors
    /// When the file cannot be read or is not a token.
    pub fn authorize(&self, headers: &mut HeaderMap) -> Result<(), TokenError> {
        if let Some(authorization) = self.authorization()? {
            headers.insert(header::AUTHORIZATION, authorization);
        }
        Ok(())
    }

    /// The value of the `Authorization` header, from the current file; `None` if there is no file.
    fn authorization(&self) -> Result<Option<HeaderValue>, TokenError> {
        let Some(path) = self.path.as_deref() else { return Ok(None) };
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(TokenError::Read { path: path.clone(), source }),
        };
        let token = text.trim();
        let header = HeaderValue::from_str(&format!("Bearer {token}")).ok();
        let mut header = header
            .filter(|_| !token.is_empty() && token.len() <= MAX_BYTES)
            .ok_or_else(|| TokenError::Content(path.clone()))?;
        header.set_sensitive(true);
        Ok(Some(header))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_rotated_token_and_accepts_missing_file() {
        let directory = std::env::temp_dir().join(format!("projected-token-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("token");
        let token = ProjectedToken::at(&path);
        assert_eq!(token.authorization().unwrap(), None);
        for text in ["one", "two\n"] {
            std::fs::write(&path, text).unwrap();
            let header = token.authorization().unwrap().unwrap();
            assert_eq!(header.to_str().unwrap(), format!("Bearer {}", text.trim()));
            assert!(header.is_sensitive(), "it must not get into logs");
        }
        for nonsense in ["", "a\nb"] {
            std::fs::write(&path, nonsense).unwrap();
            assert!(matches!(token.authorization(), Err(TokenError::Content(_))), "{nonsense:?}");
        }
        assert_eq!(ProjectedToken::default().authorization().unwrap(), None);
        std::fs::remove_dir_all(directory).unwrap();
    }
}

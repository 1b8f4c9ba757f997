//! ProjectedToken: the token by which one of our parts says to another who it is.
//!
//! The kubelet writes it into the pod (a projected service account token, of our own audience) and replaces it long before it
//! ends, so it is read anew for every connection. Without the file nothing is said: a process outside of a cluster has none,
//! and a receiver that demands one says so.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue, header};

/// Larger than any token; a file of more is none.
const MAX_BYTES: usize = 64 * 1024;

/// Where the token is. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct ProjectedToken {
    path: Option<Arc<PathBuf>>,
}

/// Why there is no token though there is a file.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// It cannot be read.
    #[error("the token {path:?} cannot be read: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Its content is no token.
    #[error("the file {0:?} holds no token")]
    Content(PathBuf),
}

// === impl ProjectedToken ===

impl ProjectedToken {
    /// The token in this file.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: Some(Arc::new(path.into())) }
    }

    /// Puts it into a request's headers, if there is one.
    ///
    /// # Errors
    /// When there is a file that makes no header.
    pub fn authorize(&self, headers: &mut HeaderMap) -> Result<(), TokenError> {
        if let Some(authorization) = self.authorization()? {
            headers.insert(header::AUTHORIZATION, authorization);
        }
        Ok(())
    }

    /// The value of an `Authorization` header, as the file is now; `None` if there is no file.
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
    fn a_rotated_token_is_seen_and_a_missing_one_is_none() {
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

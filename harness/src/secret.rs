//! Random tokens, and files that only their owner can read.

use std::io::{self, Write as _};
use std::path::Path;

use ring::error::Unspecified;
use ring::rand::{SecureRandom as _, SystemRandom};

/// Returns a random token of 128 bits in hexadecimal digits.
///
/// # Errors
///
/// Returns an error if the system has no source of random numbers.
pub(crate) fn token() -> Result<String, Unspecified> {
    let mut bytes = [0_u8; 16];
    SystemRandom::new().fill(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

/// Writes a file with mode 0600 atomically: readers of `path` see the old content or the new one.
pub(crate) fn write(path: &Path, content: &str) -> io::Result<()> {
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let beside = path.with_file_name(name);
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(&beside).and_then(|mut file| file.write_all(content.as_bytes()));
    written.and_then(|()| std::fs::rename(&beside, path)).inspect_err(|_| {
        let _ = std::fs::remove_file(&beside);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn secrets_are_for_their_owner_alone_and_replaced() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        std::fs::write(&path, "old").unwrap();
        write(&path, "new").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(write(&folder.path().join("no/folder"), "x").is_err());
    }

    #[test]
    fn tokens_differ() {
        let (one, two) = (token().unwrap(), token().unwrap());
        assert_eq!(one.len(), 32);
        assert_ne!(one, two);
    }
}

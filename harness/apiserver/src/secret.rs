//! Secrets: random tokens, and files that only their owner can read.

use std::io::{self, Write as _};
use std::path::Path;

use ring::error::Unspecified;
use ring::rand::{SecureRandom as _, SystemRandom};

/// Returns 128 random bits as 32 hexadecimal digits.
///
/// # Errors
///
/// If the system has no source of random numbers.
pub fn random_token() -> Result<String, Unspecified> {
    let mut bytes = [0_u8; 16];
    SystemRandom::new().fill(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

/// Replaces the file at `path` in one step by one with this content and mode 0600.
///
/// # Errors
///
/// If the folder does not exist or cannot be written.
pub fn write_private_file(path: &Path, content: &str) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::metadata(folder)?;
    // The name of the temporary file, which the error has, means nothing to a user.
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(|error| error.kind())?;
    file.write_all(content.as_bytes())?;
    file.persist(path)?;
    Ok(())
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
        write_private_file(&path, "new").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let error = write_private_file(&folder.path().join("no/folder"), "x").unwrap_err();
        assert_eq!(error.to_string(), "No such file or directory (os error 2)");
    }

    #[test]
    fn tokens_differ() {
        let one = random_token().unwrap();
        let two = random_token().unwrap();
        assert_eq!(one.len(), 32);
        assert_ne!(one, two);
    }
}

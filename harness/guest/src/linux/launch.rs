//! Prepares a guest's command for the fork: program, arguments, environment, files.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::filter;
use super::routes;
use super::sys::{self, Launch};
use crate::outcome::GuestError;
use crate::protocol::TIME_SOCKET;
use crate::settings::{Command, Network, Settings, Stdio};

fn string(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes()).map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "it contains a zero byte"))
}

/// Finds the file of a program as `execvp` does.
fn find(program: &OsStr, path: Option<&OsStr>, directory: Option<&Path>) -> io::Result<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Ok(program.into());
    }
    let mut error = io::Error::from_raw_os_error(libc::ENOENT);
    for folder in std::env::split_paths(path.unwrap_or_else(|| OsStr::new("/usr/local/bin:/usr/bin:/bin"))) {
        let file = folder.join(program);
        let place = directory.map_or_else(|| file.clone(), |directory| directory.join(&file));
        match place.metadata() {
            Ok(metadata) if metadata.is_file() && metadata.permissions().mode() & 0o111 != 0 => return Ok(file),
            Ok(_) => error = io::Error::from_raw_os_error(libc::EACCES),
            Err(_) => {}
        }
    }
    Err(error)
}

fn open(file: Stdio, index: usize) -> io::Result<Option<OwnedFd>> {
    match file {
        Stdio::Inherit => Ok(None),
        Stdio::Null if index == 0 => Ok(Some(File::open("/dev/null")?.into())),
        Stdio::Null => Ok(Some(File::options().write(true).open("/dev/null")?.into())),
        Stdio::File(file) => Ok(Some(file)),
    }
}

/// Prepares the command of a command. The tracer's thread does it shortly before the fork.
pub(crate) fn prepare(command: Command, settings: &Settings, socket: &Path) -> Result<Launch, GuestError> {
    let program = PathBuf::from(&command.program);
    prepare_command(command, settings, socket).map_err(|source| GuestError::Program { program, source })
}

fn prepare_command(command: Command, settings: &Settings, socket: &Path) -> io::Result<Launch> {
    let inherited = std::env::vars_os();
    let mut variables: BTreeMap<OsString, OsString> = inherited.collect();
    for (name, value) in command.variables {
        match value {
            Some(value) => variables.insert(name, value),
            None => variables.remove(&name),
        };
    }
    variables.insert(TIME_SOCKET.into(), socket.into());
    let path = variables.get(OsStr::new("PATH")).map(OsString::as_os_str);
    let file = find(&command.program, path, command.directory.as_deref())?;
    let environment = variables.into_iter().map(|(name, value)| {
        let mut line = name.into_vec();
        line.push(b'=');
        line.extend(value.into_vec());
        string(OsStr::from_bytes(&line))
    });
    let mut standard = [None, None, None];
    for (index, file) in command.standard.into_iter().enumerate() {
        standard[index] = open(file, index)?;
    }
    let (user, group) = sys::user_and_group();
    let map = |id: u32| string(OsStr::new(&format!("{id} {id} 1\n")));
    Ok(Launch {
        program: string(file.as_os_str())?,
        arguments: [command.program]
            .iter()
            .chain(&command.arguments)
            .map(|text| string(text))
            .collect::<Result<_, _>>()?,
        environment: environment.collect::<Result<_, _>>()?,
        directory: command.directory.map(|directory| string(directory.as_os_str())).transpose()?,
        standard,
        filter: filter::compile(settings.seed.is_some()).map_err(io::Error::other)?,
        network: (settings.network == Network::Private).then(routes::quick_acknowledgements),
        maps: [map(user)?, map(group)?],
        files: sys::raise_file_limit(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_the_shell_finds_them() {
        let find = |program: &str, path: &str| find(OsStr::new(program), Some(OsStr::new(path)), None);
        assert_eq!(find("sh", "/nowhere:/bin").expect("a file"), Path::new("/bin/sh"));
        assert_eq!(find("./sh", "/bin").expect("a path"), Path::new("./sh"));
        assert_eq!(find("sh", "/nowhere").expect_err("nothing").raw_os_error(), Some(libc::ENOENT));
        assert_eq!(find("passwd", "/etc").expect_err("no program").raw_os_error(), Some(libc::EACCES));
    }
}

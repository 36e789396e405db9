//! Programs that do not run in virtual time are refused by name, and nothing of them is left.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use plumbline_guest::{Guest, GuestError};

use super::support::{run, shell, skip};

/// A program for i386 that ends with the code 7: its headers and its three instructions.
fn old_program(folder: &Path) -> PathBuf {
    const BASE: u32 = 0x0804_8000;
    const ENTRY: u32 = BASE + 84;
    let code = [0xb8, 1, 0, 0, 0, 0xbb, 7, 0, 0, 0, 0xcd, 0x80];
    let length = 84 + code.len() as u32;
    let mut file = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x03\0".to_vec();
    for word in [1, ENTRY, 52, 0, 0, 0x0020_0034, 1, 0] {
        file.extend(u32::to_le_bytes(word));
    }
    for word in [1, 0, BASE, BASE, length, length, 5, 0x1000] {
        file.extend(u32::to_le_bytes(word));
    }
    file.extend(code);
    write(folder, "old", &file, 0o755)
}

fn write(folder: &Path, name: &str, content: &[u8], mode: u32) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, content).expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("permissions");
    path
}

#[test]
fn programs_for_i386_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let old = old_program(folder.path());
    let error = Guest::new(&old).run().expect_err("refused");
    if std::process::Command::new(&old).status().ok().and_then(|status| status.code()) != Some(7) {
        assert!(error.to_string().contains("made for another machine"), "{error}");
        skip("guest: i386", "the kernel executes no programs for i386");
        return;
    }
    assert!(matches!(error, GuestError::Refused { .. }), "{error}");
    assert!(error.to_string().ends_with("old: it is made for i386, and only programs for x86-64 run in virtual time"));
    let finished = run(shell(&format!("{}; echo $?; sleep 5; echo over", old.display())));
    assert!(finished.output.contains("137\n") && finished.output.ends_with("over\n"), "{finished:?}");
    let call = &finished.report().unvirtual[0];
    assert_eq!((call.program.as_str(), call.count), ("old", 1));
    assert!(call.call.starts_with("program for i386 (killed"), "{call:?}");
}

/// Returns a program with the setuid bit that belongs to somebody else.
fn privileged_program(folder: &Path) -> Option<PathBuf> {
    let own = write(folder, "gains", &fs::read("/bin/true").expect("a program"), 0o755);
    let is_made = std::os::unix::fs::chown(&own, Some(65_534), None).is_ok()
        && fs::set_permissions(&own, fs::Permissions::from_mode(0o4755)).is_ok();
    if is_made {
        return Some(own);
    }
    let known = ["/usr/bin/su", "/bin/su", "/usr/bin/passwd"].map(PathBuf::from);
    known.into_iter().find(|path| path.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o4000 != 0))
}

#[test]
fn programs_with_the_setuid_bit_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = privileged_program(folder.path()) else {
        skip("guest: setuid", "there is no program with the setuid bit");
        return;
    };
    let error = Guest::new(&program).arg("--version").run().expect_err("refused");
    assert!(matches!(error, GuestError::Refused { .. }), "{error}");
    assert!(error.to_string().contains("setuid bit") && error.to_string().contains("as that user"), "{error}");
    let finished = run(shell(&format!("{} --version; echo $?", program.display())));
    assert!(finished.output.contains("137\n"), "{finished:?}");
    assert!(finished.report().unvirtual[0].call.starts_with("setuid program (killed"), "{finished:?}");
}

/// A tracer without `CAP_SYS_PTRACE`, as in a container by default, may not read programs of other users, and not see
/// whether they sleep.
#[test]
fn programs_that_change_their_user_are_refused_where_they_cannot_be_read() {
    let run = |command: &[&str]| {
        let drop = ["--bounding-set", "-sys_ptrace", "--inh-caps", "-sys_ptrace", "--no-new-privs"];
        let tracer = env!("CARGO_BIN_EXE_plumbline-guest");
        let output = std::process::Command::new("setpriv").args(drop).arg(tracer).arg("--").args(command).output();
        output.map(|output| (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned()))
    };
    let change = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let works = |command: &[&str]| std::process::Command::new("setpriv").args(command).arg("true").output();
    if !works(&change[1..]).is_ok_and(|output| output.status.success()) {
        skip("guest: setuid", "this user may not change to another one, or there is no setpriv");
        return;
    }
    let change_only = "import os, time; os.setgid(65534); os.setuid(65534); time.sleep(100)";
    let python = super::support::python_program().to_str().expect("a path");
    for command in [[&change[..], &["sleep", "100"]].concat(), vec![python, "-S", "-E", "-c", change_only]] {
        let (code, errors) = run(&command).expect("setpriv");
        assert_eq!(code, Some(137), "{errors}");
        assert!(errors.contains("refused: change of the user (killed") && errors.contains("SYS_PTRACE"), "{errors}");
    }
}

#[test]
fn a_guest_inside_of_a_guest_is_refused() {
    let finished = run(Guest::new(env!("CARGO_BIN_EXE_plumbline-guest")).args(["--", "true"]));
    assert_eq!(finished.outcome.exit_code(), 125);
    assert!(finished.output.contains("another program traces this one already"), "{finished:?}");
}

#[test]
fn the_program_names_what_it_refuses() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = privileged_program(folder.path()) else {
        skip("guest: setuid", "there is no program with the setuid bit");
        return;
    };
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_plumbline-guest")).arg("--").arg(program).output();
    let output = output.expect("the tracer");
    assert_eq!(output.status.code(), Some(126));
    assert!(String::from_utf8_lossy(&output.stderr).contains("setuid bit"), "{output:?}");
}

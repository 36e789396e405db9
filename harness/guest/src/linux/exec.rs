//! Programs that have just been executed: they get the image of the clocks.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::arch::Architecture as _;
use super::state::Tracer;
use super::sys::{self, Registers};
use super::table::{Activity, AuxiliaryVector, Habit, Mapping};
use super::waits::{HIDDEN, next_random};
use super::watch::{self, Watch};

/// The types of entries of the auxiliary vector.
const END: u64 = 0;
const IGNORE: u64 = 1;
const RANDOM: u64 = 25;
const VDSO: u64 = 33;

impl Tracer {
    /// Handles the event of an exec. All other threads of the process are gone.
    pub(crate) fn on_exec(&mut self, thread: i32) {
        let is_first = !std::mem::replace(&mut self.has_started, true);
        let Some(process) = self.table.threads.get(&thread).map(|thread| thread.process) else { return };
        let former = sys::event_message(thread).map_or(thread, |former| former as i32);
        if let Some(entry) = self.table.threads.get(&former).map(|former| (former.random, former.children))
            && let Some(thread) = self.table.threads.get_mut(&thread)
        {
            (thread.random, thread.children) = entry;
        }
        self.table.threads.retain(|number, entry| entry.process != process || *number == thread);
        self.timers.execute(process);
        let file = watch::executable(process);
        if let Some(entry) = self.table.processes.get_mut(&process) {
            let name = file.as_deref().and_then(Path::file_name);
            entry.program = name.map_or_else(|| "?".to_owned(), |name| name.to_string_lossy().into_owned());
            (entry.image, entry.last) = (None, 0);
        }
        let is_native = sys::registers(thread).is_ok_and(|registers| registers.is_native());
        let rights = file.as_deref().map_or(Rights::Own, rights);
        let is_closed =
            sys::registers(thread).is_ok_and(|registers| !sys::read_memory(thread, registers.stack(), &mut [0; 8]));
        let refusal = match rights {
            _ if is_closed && watch::is_of_another_user(process) => Some((REFUSED_USER, HIDDEN)),
            _ if is_closed => Some((REFUSED_MEMORY, "program that may not be read (killed: its clocks would be real)")),
            _ if !is_native => {
                Some((REFUSED_MACHINE, "program for i386 (killed: only those for x86-64 can be traced)"))
            }
            Rights::Owner => {
                Some((REFUSED_RIGHTS, "setuid program (killed: it would run without the rights of its owner)"))
            }
            Rights::Group | Rights::Own => None,
        };
        if let Some((reason, call)) = refusal {
            self.note(call, true, thread);
            if is_first {
                self.refusal = Some(reason);
            }
            let _ = sys::kill(process, libc::SIGKILL);
        } else if rights == Rights::Group {
            self.note("setgid program (it runs without the rights of its group)", false, thread);
        }
        if let Some(entry) = self.table.threads.get_mut(&thread) {
            // The files of the thread that had this number before show that thread.
            entry.watch = Watch::new(process, thread);
            (entry.resting, entry.sample, entry.restart, entry.socket_wait) = (None, None, None, None);
            (entry.is_vforking, entry.probe, entry.readings, entry.habit) = (false, None, None, Habit::Unknown);
            entry.activity = Activity::Mapping(Mapping::Exec);
        }
        self.resume(thread, 0);
    }

    /// Takes the next step of mapping the image.
    pub(crate) fn map_image(&mut self, thread: i32, step: Mapping) {
        let Ok(mut registers) = sys::registers(thread) else { return };
        match step {
            Mapping::Exec => self.prepare_program(thread, registers),
            Mapping::Enter(original, vector, place) => {
                self.set_activity(thread, Activity::Mapping(Mapping::Leave(original, vector, place)));
                self.resume(thread, 0);
            }
            Mapping::Leave(original, vector, None) if registers.result() > 0 => {
                let place = registers.result() as u64;
                self.map(thread, original, vector, Some(place));
            }
            Mapping::Leave(original, vector, _) => {
                let result = registers.result();
                self.finish_program(thread, result, &vector);
                registers = *original;
                let _ = sys::set_registers(thread, &registers);
                self.resume(thread, 0);
            }
        }
    }

    /// Makes a new program map the image before its first instruction.
    fn prepare_program(&mut self, thread: i32, registers: Registers) {
        let vector = auxiliary_vector(thread, registers.stack());
        if self.settings.seed.is_some()
            && let (Some(place), Some(entry)) = (vector.random, self.table.threads.get_mut(&thread))
        {
            let numbers = [next_random(&mut entry.random), next_random(&mut entry.random)];
            sys::write_memory(thread, place, &numbers.map(u64::to_ne_bytes).concat());
        }
        if vector.vdso_entry.is_none() {
            // It asks the kernel for the time.
            self.resume(thread, 0);
            return;
        }
        let process = self.table.threads.get(&thread).map_or(0, |thread| thread.process);
        // In another namespace the number of the shared memory is unknown, or that of something else.
        if self.image.is_none() || !watch::shares_memory(process) {
            self.finish_program(thread, -i64::from(libc::EINVAL), &vector);
            self.resume(thread, 0);
            return;
        }
        self.map(thread, Box::new(registers), vector, None);
    }

    /// Makes a program call for a place, or map the image at a place.
    fn map(&mut self, thread: i32, original: Box<Registers>, vector: AuxiliaryVector, place: Option<u64>) {
        let Some(image) = &self.image else { return };
        let call = place.map_or_else(|| image.reserve(), |place| image.attach(place));
        let mut changed = *original;
        changed.prepare(vector.vdso + image.system_call, &call);
        self.set_activity(thread, Activity::Mapping(Mapping::Enter(original, vector, place)));
        let _ = sys::set_registers(thread, &changed);
        self.resume(thread, 0);
    }

    /// Shows the program the image in the place of the vDSO; without one, it asks the kernel, and stops each time.
    fn finish_program(&mut self, thread: i32, mapped: i64, vector: &AuxiliaryVector) {
        let Some(entry) = vector.vdso_entry else { return };
        let is_mapped = mapped > 0;
        if is_mapped {
            sys::write_memory(thread, entry + 8, &mapped.to_ne_bytes());
        } else {
            sys::write_memory(thread, entry, &IGNORE.to_ne_bytes());
            let program = self.table.program(thread);
            self.warn(format!("{program} could not map the clocks ({mapped}): each reading of a clock is slow there"));
        }
        let process = self.table.threads.get(&thread).map(|thread| thread.process);
        if let Some(process) = process.and_then(|process| self.table.processes.get_mut(&process)) {
            process.image = is_mapped.then_some(mapped as u64);
        }
    }
}

/// The reason for which a command for i386 is refused.
const REFUSED_MACHINE: &str = "it is made for i386, and only programs for x86-64 run in virtual time";

/// The reason for which a setuid command is refused.
const REFUSED_RIGHTS: &str = "it has the setuid bit, and a traced program does not get the rights of its owner: run it as \
                              that user, or outside";

/// The reason for which a command is refused whose file its user may execute, but not read.
const REFUSED_MEMORY: &str = "its file may be executed but not read, which closes its memory to the tracer as well: \
                              permit reading (chmod +r), or run it as its owner";

/// The reason for which a command is refused that runs as another user where the tracer may not read its memory.
const REFUSED_USER: &str = "it runs as another user, whose programs the tracer may not read here: run everything as one \
                            user, or give this program the capability SYS_PTRACE (in a container: --cap-add SYS_PTRACE)";

/// The rights with which a program would run, were it not traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rights {
    /// Those of this process.
    Own,
    /// Those of its file's owner.
    Owner,
    /// Those of its file's group.
    Group,
}

/// Returns the rights that a program's file gives it.
fn rights(file: &Path) -> Rights {
    let Ok(metadata) = file.metadata() else { return Rights::Own };
    let (user, group) = sys::user_and_group();
    let mode = metadata.mode();
    let set_group = libc::S_ISGID | libc::S_IXGRP;
    if mode & libc::S_ISUID != 0 && metadata.uid() != user {
        Rights::Owner
    } else if mode & set_group == set_group && metadata.gid() != group {
        Rights::Group
    } else {
        Rights::Own
    }
}

/// Reads the auxiliary vector of a new program, which lies behind its arguments and its environment on the stack.
fn auxiliary_vector(thread: i32, stack: u64) -> AuxiliaryVector {
    let mut vector = AuxiliaryVector::default();
    let mut words = Words { thread, address: stack, buffer: Vec::new() };
    let Some(arguments) = words.next() else { return vector };
    words.skip(arguments);
    // The end of the arguments.
    words.next();
    while words.next().is_some_and(|variable| variable != 0) {}
    while let (place, Some(kind), Some(value)) = (words.address, words.next(), words.next()) {
        match kind {
            END => break,
            VDSO => (vector.vdso_entry, vector.vdso) = (Some(place), value),
            RANDOM => vector.random = Some(value),
            _ => {}
        }
    }
    vector
}

/// The words of a program's stack.
struct Words {
    thread: i32,
    address: u64,
    /// The next words, the last one first.
    buffer: Vec<u64>,
}

impl Words {
    fn skip(&mut self, count: u64) {
        self.address = self.address.saturating_add(count.saturating_mul(8));
        self.buffer.clear();
    }

    fn next(&mut self) -> Option<u64> {
        if self.buffer.is_empty() {
            // Not beyond the page, behind which there may be nothing.
            let mut bytes = vec![0; 4096 - (self.address % 4096) as usize];
            if !sys::read_memory(self.thread, self.address, &mut bytes) {
                return None;
            }
            let words = bytes.chunks_exact(8).rev();
            self.buffer.extend(words.filter_map(|word| Some(u64::from_ne_bytes(word.try_into().ok()?))));
        }
        self.address += 8;
        self.buffer.pop()
    }
}

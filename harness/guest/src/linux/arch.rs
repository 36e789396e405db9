//! The parts of the tracer that depend on the machine.

use super::sys::Registers;

/// A system call at which a thread has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    /// Its number.
    pub(crate) number: i64,
    /// Its arguments.
    pub(crate) arguments: [u64; 6],
}

/// Access to registers by the roles that they have in system calls.
pub(crate) trait Architecture {
    /// The call that waits for a signal and has no argument.
    const PAUSE: i64;

    /// Reads the system call at which the thread has stopped.
    fn call(&self) -> Call;

    /// Replaces the number of the call; -1 skips it.
    fn set_number(&mut self, number: i64);

    /// Replaces an argument of the call.
    fn set_argument(&mut self, index: usize, value: u64);

    /// Reads the result of the call.
    fn result(&self) -> i64;

    /// Replaces the result of the call.
    fn set_result(&mut self, result: i64);

    /// The address of the next instruction.
    fn instruction(&self) -> u64;

    /// Prepares a call of its own, at the address of an instruction that makes system calls.
    fn prepare(&mut self, instruction: u64, call: &Call);

    /// The top of the stack.
    fn stack(&self) -> u64;

    /// The frame pointer.
    fn frame(&self) -> u64;

    /// Returns false for a thread that runs code of another, older machine.
    fn is_native(&self) -> bool;
}

/// The most bytes of an instruction that calls a function.
pub(crate) const LONGEST_CALL: usize = 7;

/// Returns true if code ends with an instruction that calls a function: `call rel32`, or `call` of a register or of
/// memory, which has the opcode `ff` and a second byte with the number 2 in its middle.
pub(crate) fn ends_with_call(code: [u8; LONGEST_CALL]) -> bool {
    let indirect = |length: usize| {
        let at = &code[LONGEST_CALL - length..];
        at[0] == 0xff && at[1] & 0b0011_1000 == 0b0001_0000
    };
    code[LONGEST_CALL - 5] == 0xe8 || [2, 3, 4, 6, 7].into_iter().any(indirect)
}

impl Architecture for Registers {
    const PAUSE: i64 = libc::SYS_pause;

    fn call(&self) -> Call {
        Call { number: self.orig_rax as i64, arguments: [self.rdi, self.rsi, self.rdx, self.r10, self.r8, self.r9] }
    }

    fn set_number(&mut self, number: i64) {
        self.orig_rax = number as u64;
    }

    fn set_argument(&mut self, index: usize, value: u64) {
        let register = match index {
            0 => &mut self.rdi,
            1 => &mut self.rsi,
            2 => &mut self.rdx,
            3 => &mut self.r10,
            4 => &mut self.r8,
            _ => &mut self.r9,
        };
        *register = value;
    }

    fn result(&self) -> i64 {
        self.rax as i64
    }

    fn set_result(&mut self, result: i64) {
        self.rax = result as u64;
    }

    fn instruction(&self) -> u64 {
        self.rip
    }

    fn prepare(&mut self, instruction: u64, call: &Call) {
        self.rip = instruction;
        self.rax = call.number as u64;
        // Not in a call any more: nothing is restarted.
        self.orig_rax = u64::MAX;
        for (index, value) in call.arguments.iter().enumerate() {
            self.set_argument(index, *value);
        }
    }

    fn stack(&self) -> u64 {
        self.rsp
    }

    fn frame(&self) -> u64 {
        self.rbp
    }

    fn is_native(&self) -> bool {
        /// The code segment of 32-bit programs.
        const OLD: u64 = 0x23;
        self.cs != OLD
    }
}

/// The instruction that makes a system call.
pub(crate) const SYSTEM_CALL: [u8; 2] = [0x0f, 0x05];

/// The offset of `CODE` in its page, after the data that it reads.
pub(crate) const CODE_OFFSET: usize = 64;

/// The offset in the page of the monotonic clock, in nanoseconds.
pub(crate) const MONOTONIC: usize = 0;

/// The offset in the page of the difference between realtime and monotonic clocks, in nanoseconds.
pub(crate) const DIFFERENCE: usize = 8;

/// The offset in the page of a `timespec` of zero.
pub(crate) const ZERO: usize = 16;

/// The offset in the page of the most nanoseconds that are counted now.
pub(crate) const MOST_COUNTED_OFFSET: usize = 32;

/// The offset, in the page behind, of the last reading of `CLOCK_REALTIME` that was counted.
pub(crate) const LAST: usize = 4096;

/// The offset of the number of all readings of clocks, which is not exact where threads read at once.
pub(crate) const ALL_READINGS: usize = LAST + 8;

/// The functions that replace those of the vDSO: their names there, and their offsets in `CODE`.
pub(crate) const FUNCTIONS: [(&str, usize); 5] = [
    ("__vdso_clock_gettime", 0),
    ("__vdso_gettimeofday", 0xaf),
    ("__vdso_time", 0xf4),
    ("__vdso_clock_getres", 0x11c),
    ("__vdso_getrandom", 0x124),
];

/// Position-independent code that reads the clocks from the beginning of its page, each of which is one number, so that
/// it is read whole. Readings of `CLOCK_REALTIME` are counted as `Clocks::counted` says, in the page behind, and all
/// readings beside them.
#[rustfmt::skip]
pub(crate) const CODE: [u8; 0x12c] = [
    // clock_gettime(edi: clock, rsi: timespec)
    0x83, 0xff, 0x0b,                                      //        cmp    edi, 11
    0x0f, 0x87, 0x9e, 0x00, 0x00, 0x00,                    //        ja     kernel
    0xb8, 0xf3, 0x0b, 0x00, 0x00,                          //        mov    eax, 0xbf3  both families
    0x0f, 0xa3, 0xf8,                                      //        bt     eax, edi
    0x0f, 0x83, 0x90, 0x00, 0x00, 0x00,                    //        jae    kernel
    0x48, 0xff, 0x05, 0xaa, 0x0f, 0x00, 0x00,              //        inc    qword [ALL_READINGS]
    0x48, 0x8b, 0x05, 0x9b, 0xff, 0xff, 0xff,              //        mov    rax, [MONOTONIC]
    0xb9, 0x21, 0x09, 0x00, 0x00,                          //        mov    ecx, 0x921  realtime clocks
    0x0f, 0xa3, 0xf9,                                      //        bt     ecx, edi
    0x73, 0x64,                                            //        jae    split
    0x48, 0x03, 0x05, 0x92, 0xff, 0xff, 0xff,              //        add    rax, [DIFFERENCE]
    0x85, 0xff,                                            //        test   edi, edi
    0x75, 0x59,                                            //        jne    split       only CLOCK_REALTIME is counted
    0x49, 0x89, 0xc0,                                      //        mov    r8, rax     now
    0x4c, 0x8b, 0x0d, 0x9c, 0xff, 0xff, 0xff,              //        mov    r9, [MOST_COUNTED_OFFSET]
    0x48, 0x8b, 0x05, 0x75, 0x0f, 0x00, 0x00,              //        mov    rax, [LAST]
    0x49, 0x89, 0xc2,                                      // again: mov    r10, rax
    0x4d, 0x29, 0xc2,                                      //        sub    r10, r8
    0x72, 0x0b,                                            //        jb     moved
    0x4d, 0x39, 0xca,                                      //        cmp    r10, r9
    0x73, 0x37,                                            //        jae    most
    0x4c, 0x8d, 0x50, 0x01,                                //        lea    r10, [rax+1]
    0xeb, 0x21,                                            //        jmp    store
    0x49, 0x89, 0xc3,                                      // moved: mov    r11, rax
    0x31, 0xd2,                                            //        xor    edx, edx
    0xb9, 0xe8, 0x03, 0x00, 0x00,                          //        mov    ecx, 1000
    0x48, 0xf7, 0xf1,                                      //        div    rcx
    0x4c, 0x89, 0xd8,                                      //        mov    rax, r11
    0x4c, 0x89, 0xc9,                                      //        mov    rcx, r9
    0x48, 0xd1, 0xe9,                                      //        shr    rcx, 1
    0x48, 0x39, 0xca,                                      //        cmp    rdx, rcx
    0x72, 0x02,                                            //        jb     keep
    0x31, 0xd2,                                            //        xor    edx, edx
    0x4d, 0x8d, 0x14, 0x10,                                // keep:  lea    r10, [r8+rdx]
    0xf0, 0x4c, 0x0f, 0xb1, 0x15, 0x38, 0x0f, 0x00, 0x00,  // store: lock cmpxchg [LAST], r10
    0x75, 0xc1,                                            //        jne    again
    0x4c, 0x89, 0xd0,                                      //        mov    rax, r10
    0xeb, 0x04,                                            //        jmp    split
    0x4b, 0x8d, 0x04, 0x08,                                // most:  lea    rax, [r8+r9]
    0x31, 0xd2,                                            // split: xor    edx, edx
    0xb9, 0x00, 0xca, 0x9a, 0x3b,                          //        mov    ecx, 1000000000
    0x48, 0xf7, 0xf1,                                      //        div    rcx
    0x48, 0x89, 0x06,                                      //        mov    [rsi], rax
    0x48, 0x89, 0x56, 0x08,                                //        mov    [rsi+8], rdx
    0x31, 0xc0,                                            //        xor    eax, eax
    0xc3,                                                  //        ret
    0xb8, 0xe4, 0x00, 0x00, 0x00,                          // kernel:mov    eax, 228
    0x0f, 0x05,                                            //        syscall
    0xc3,                                                  //        ret
    // gettimeofday(rdi: timeval, rsi: timezone)
    0x48, 0x85, 0xff,                                      //        test   rdi, rdi
    0x74, 0x31,                                            //        je     zone
    0x48, 0xff, 0x05, 0x0d, 0x0f, 0x00, 0x00,              //        inc    qword [ALL_READINGS]
    0x48, 0x8b, 0x05, 0xfe, 0xfe, 0xff, 0xff,              //        mov    rax, [MONOTONIC]
    0x48, 0x03, 0x05, 0xff, 0xfe, 0xff, 0xff,              //        add    rax, [DIFFERENCE]
    0x31, 0xd2,                                            //        xor    edx, edx
    0xb9, 0x00, 0xca, 0x9a, 0x3b,                          //        mov    ecx, 1000000000
    0x48, 0xf7, 0xf1,                                      //        div    rcx
    0x48, 0x89, 0x07,                                      //        mov    [rdi], rax
    0x89, 0xd0,                                            //        mov    eax, edx
    0x31, 0xd2,                                            //        xor    edx, edx
    0xb9, 0xe8, 0x03, 0x00, 0x00,                          //        mov    ecx, 1000
    0xf7, 0xf1,                                            //        div    ecx
    0x48, 0x89, 0x47, 0x08,                                //        mov    [rdi+8], rax
    0x48, 0x85, 0xf6,                                      // zone:  test   rsi, rsi
    0x74, 0x07,                                            //        je     done
    0x48, 0xc7, 0x06, 0x00, 0x00, 0x00, 0x00,              //        mov    qword [rsi], 0
    0x31, 0xc0,                                            // done:  xor    eax, eax
    0xc3,                                                  //        ret
    // time(rdi: time_t)
    0x48, 0xff, 0x05, 0xcd, 0x0e, 0x00, 0x00,              //        inc    qword [ALL_READINGS]
    0x48, 0x8b, 0x05, 0xbe, 0xfe, 0xff, 0xff,              //        mov    rax, [MONOTONIC]
    0x48, 0x03, 0x05, 0xbf, 0xfe, 0xff, 0xff,              //        add    rax, [DIFFERENCE]
    0x31, 0xd2,                                            //        xor    edx, edx
    0xb9, 0x00, 0xca, 0x9a, 0x3b,                          //        mov    ecx, 1000000000
    0x48, 0xf7, 0xf1,                                      //        div    rcx
    0x48, 0x85, 0xff,                                      //        test   rdi, rdi
    0x74, 0x03,                                            //        je     end
    0x48, 0x89, 0x07,                                      //        mov    [rdi], rax
    0xc3,                                                  // end:   ret
    // clock_getres(edi: clock, rsi: timespec)
    0xb8, 0xe5, 0x00, 0x00, 0x00,                          //        mov    eax, 229
    0x0f, 0x05,                                            //        syscall
    0xc3,                                                  //        ret
    // getrandom(…): the C library makes the system call instead
    0x48, 0xc7, 0xc0, 0xda, 0xff, 0xff, 0xff,              //        mov    rax, -ENOSYS
    0xc3,                                                  //        ret
];

/// The length of a jump instruction.
pub(crate) const JUMP_LENGTH: usize = 5;

/// Encodes a jump from one offset to another.
pub(crate) fn jump(from: usize, to: usize) -> [u8; JUMP_LENGTH] {
    let distance = (to as i64 - (from + JUMP_LENGTH) as i64) as i32;
    let mut code = [0xe9; JUMP_LENGTH];
    code[1..].copy_from_slice(&distance.to_le_bytes());
    code
}

//! The seccomp filter: it stops a thread only at calls that wait for a time, read a clock, or are not virtual.
//!
//! The kernel looks at the arguments, so that waits without a limit, polls and wakes never stop.

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Op, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use super::calls::{
    ALL, CLONE_UNTRACED, FUTEX_TIMED, FUTEX_WAIT_CALL, IO_PGETEVENTS, KEY_TIMEOUT, LEASE, NO_WAIT, SET_TERMINAL,
    SOCKET_TIMEOUTS, UNLOCK_TERMINAL,
};

/// A test of one argument.
type Condition = (u8, Length, Op, u64);

/// The calls that stop with all arguments.
const ALWAYS: [i64; 22] = [
    libc::SYS_connect,
    libc::SYS_gettimeofday,
    libc::SYS_time,
    libc::SYS_times,
    libc::SYS_sysinfo,
    libc::SYS_alarm,
    libc::SYS_timerfd_settime,
    libc::SYS_timerfd_gettime,
    libc::SYS_timer_create,
    libc::SYS_timer_settime,
    libc::SYS_timer_gettime,
    libc::SYS_timer_getoverrun,
    libc::SYS_timer_delete,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_clone3,
    libc::SYS_io_uring_setup,
    libc::SYS_ptrace,
    libc::SYS_io_submit,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_settimeofday,
];

/// Returns the calls at which threads stop: numbers, and alternatives of conditions. Without alternatives, each such
/// call stops.
pub(crate) fn stops(seeded: bool) -> Vec<(i64, Vec<Vec<Condition>>)> {
    let is_set = |argument| vec![vec![(argument, Length::Qword, Op::Ne, 0)]];
    let is = |argument, value| (argument, Length::Dword, Op::Eq, value);
    let is_positive =
        |argument| vec![vec![(argument, Length::Dword, Op::Gt, 0), (argument, Length::Dword, Op::Le, 0x7fff_ffff)]];
    let clocks = [0, 1, 4, 5, 6, 7, 8, 9, 11].map(|clock| vec![is(0, clock)]).to_vec();
    let timed_futex = FUTEX_TIMED
        .map(|operation| vec![(1, Length::Dword, Op::MaskedEq(0x7f), operation), (3, Length::Qword, Op::Ne, 0)]);
    let options = SOCKET_TIMEOUTS.into_iter().chain([libc::SO_LINGER]);
    let options: Vec<_> = options.map(|option| vec![is(1, libc::SOL_SOCKET as u64), is(2, option as u64)]).collect();
    let terminals = SET_TERMINAL.into_iter().chain([UNLOCK_TERMINAL]).map(|request| vec![is(1, request)]).collect();
    let untraced = vec![vec![(0, Length::Qword, Op::MaskedEq(CLONE_UNTRACED), CLONE_UNTRACED)]];
    let mut stops = vec![
        (libc::SYS_nanosleep, vec![]),
        (libc::SYS_clock_nanosleep, vec![]),
        (libc::SYS_poll, is_positive(2)),
        (libc::SYS_ppoll, is_set(2)),
        (libc::SYS_select, is_set(4)),
        (libc::SYS_pselect6, is_set(4)),
        (libc::SYS_epoll_wait, is_positive(3)),
        (libc::SYS_epoll_pwait, is_positive(3)),
        (libc::SYS_epoll_pwait2, is_set(3)),
        (libc::SYS_futex, timed_futex.to_vec()),
        (libc::SYS_futex_waitv, is_set(3)),
        (FUTEX_WAIT_CALL, is_set(4)),
        (libc::SYS_semtimedop, is_set(3)),
        (libc::SYS_mq_timedsend, is_set(4)),
        (libc::SYS_mq_timedreceive, is_set(4)),
        (libc::SYS_recvmmsg, is_set(4)),
        (libc::SYS_io_getevents, is_set(4)),
        (IO_PGETEVENTS, is_set(4)),
        (libc::SYS_recvfrom, vec![vec![(3, Length::Dword, Op::MaskedEq(ALL), ALL)]]),
        (libc::SYS_recvmsg, vec![vec![(2, Length::Dword, Op::MaskedEq(ALL), ALL)]]),
        (libc::SYS_setsockopt, options.clone()),
        (libc::SYS_fcntl, vec![vec![is(1, LEASE)]]),
        (libc::SYS_prctl, vec![vec![is(0, libc::PR_SET_DUMPABLE as u64), (1, Length::Qword, Op::Eq, 0)]]),
        (libc::SYS_keyctl, vec![vec![is(0, KEY_TIMEOUT)]]),
        (libc::SYS_getsockopt, options),
        (libc::SYS_clock_gettime, clocks),
        (libc::SYS_clone, untraced),
        (libc::SYS_ioctl, terminals),
        (libc::SYS_wait4, vec![vec![(2, Length::Dword, Op::MaskedEq(NO_WAIT), NO_WAIT)]]),
        (libc::SYS_waitid, vec![vec![(3, Length::Dword, Op::MaskedEq(NO_WAIT), NO_WAIT)]]),
        (libc::SYS_setitimer, vec![vec![is(0, 0)]]),
        (libc::SYS_getitimer, vec![vec![is(0, 0)]]),
    ];
    stops.extend(ALWAYS.map(|number| (number, vec![])));
    if seeded {
        stops.push((libc::SYS_getrandom, vec![]));
    }
    stops
}

/// The calls that may send in pieces, each of which waits: all of them have one timeout.
pub(crate) const SENDS: [i64; 4] = [libc::SYS_write, libc::SYS_writev, libc::SYS_sendto, libc::SYS_sendmsg];

/// A filter of its own for programs that have set such a timeout, which stops at these calls. Others send often.
///
/// Each instruction is one number: from its lowest bits, 16 of the operation, 8 and 8 of the distances to jump if a
/// comparison is true or false, and 32 of the operand.
pub(crate) const SEND_FILTER: [u64; 7] = {
    const fn instruction(operation: u64, if_true: u64, operand: u64) -> u64 {
        operation | if_true << 16 | operand << 32
    }
    const LOAD: u64 = 0x20;
    const IS_EQUAL: u64 = 0x15;
    const RETURN: u64 = 0x06;
    [
        // The number of the call; that of the machine was looked at by the first filter.
        instruction(LOAD, 0, 0),
        instruction(IS_EQUAL, 4, SENDS[0] as u64),
        instruction(IS_EQUAL, 3, SENDS[1] as u64),
        instruction(IS_EQUAL, 2, SENDS[2] as u64),
        instruction(IS_EQUAL, 1, SENDS[3] as u64),
        instruction(RETURN, 0, libc::SECCOMP_RET_ALLOW as u64),
        instruction(RETURN, 0, libc::SECCOMP_RET_TRACE as u64),
    ]
};

/// Compiles the filter. A call of another machine, such as one for i386, ends its process.
pub(crate) fn compile(seeded: bool) -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules = std::collections::BTreeMap::new();
    for (number, alternatives) in stops(seeded) {
        let mut compiled = Vec::new();
        for conditions in alternatives {
            let conditions = conditions
                .into_iter()
                .map(|(argument, length, operator, value)| SeccompCondition::new(argument, length, operator, value));
            compiled.push(SeccompRule::new(conditions.collect::<Result<_, _>>()?)?);
        }
        rules.insert(number, compiled);
    }
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Trace(0), TargetArch::x86_64)?;
    filter.try_into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::arch::Call;
    use super::super::calls::{self, Plan, tests::Numbers, tests::arguments};
    use super::super::clocks::Clocks;
    use super::*;

    const ALLOW: u32 = 0x7fff_0000;
    const TRACE: u32 = 0x7ff0_0000;
    const KILL: u32 = 0x8000_0000;

    /// `AUDIT_ARCH_X86_64`.
    const NATIVE: u32 = 0xc000_003e;

    /// Runs a filter as the kernel does, as far as its instructions are used here.
    fn decide(program: &BpfProgram, call: &Call, machine: u32) -> u32 {
        let mut data = [(call.number as u32).to_le_bytes(), machine.to_le_bytes(), [0; 4], [0; 4]].concat();
        data.extend(call.arguments.iter().flat_map(|argument| argument.to_le_bytes()));
        let mut place = 0;
        let mut value = 0_u32;
        loop {
            let instruction = &program[place];
            let operand = instruction.k;
            let jump = |is_true| usize::from(if is_true { instruction.jt } else { instruction.jf });
            place += 1;
            match instruction.code {
                0x20 => {
                    let bytes = &data[operand as usize..operand as usize + 4];
                    value = u32::from_le_bytes(bytes.try_into().expect("four bytes"));
                }
                0x54 => value &= operand,
                0x05 => place += operand as usize,
                0x15 => place += jump(value == operand),
                0x25 => place += jump(value > operand),
                0x35 => place += jump(value >= operand),
                0x45 => place += jump(value & operand != 0),
                0x06 => return operand,
                code => panic!("instruction {code:#x}"),
            }
        }
    }

    fn filter(seeded: bool) -> BpfProgram {
        compile(seeded).expect("a filter")
    }

    #[test]
    fn each_call_has_one_entry() {
        let mut numbers: Vec<i64> = stops(true).into_iter().map(|(number, _)| number).collect();
        let length = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), length);
        assert!(filter(true).len() < 4096, "the kernel's limit");
    }

    #[test]
    fn programs_with_timeouts_of_sends_stop_at_sends() {
        let instruction = |code: &u64| seccompiler::sock_filter {
            code: *code as u16,
            jt: (code >> 16) as u8,
            jf: (code >> 24) as u8,
            k: (code >> 32) as u32,
        };
        let filter: BpfProgram = SEND_FILTER.iter().map(instruction).collect();
        for number in 0..470 {
            let decision = decide(&filter, &Call { number, arguments: [1; 6] }, NATIVE);
            assert_eq!(decision == TRACE, SENDS.contains(&number), "{number}");
            assert!([TRACE, ALLOW].contains(&decision), "{number}");
        }
    }

    #[test]
    fn frequent_calls_do_not_stop() {
        let decision = |number, arguments| decide(&filter(false), &Call { number, arguments }, NATIVE);
        assert_eq!(decision(libc::SYS_read, [1; 6]), ALLOW);
        assert_eq!(decision(libc::SYS_getrandom, [1; 6]), ALLOW);
        assert_eq!(decision(libc::SYS_epoll_wait, [3, 16, 1, u64::MAX, 0, 0]), ALLOW, "without a limit");
        assert_eq!(decision(libc::SYS_epoll_wait, [3, 16, 1, 0, 0, 0]), ALLOW, "a poll");
        assert_eq!(decision(libc::SYS_epoll_wait, [3, 16, 1, 1, 0, 0]), TRACE);
        assert_eq!(decision(libc::SYS_futex, [16, 128, 1, 0, 0, 0]), ALLOW, "without a limit");
        assert_eq!(decision(libc::SYS_futex, [16, 129, 1, 16, 0, 0]), ALLOW, "a wake");
        assert_eq!(decision(libc::SYS_futex, [16, 128 | 256 | 9, 1, 1 << 40, 0, 0]), TRACE);
        assert_eq!(decision(libc::SYS_clock_gettime, [2, 16, 0, 0, 0, 0]), ALLOW, "processor time");
        assert_eq!(decision(libc::SYS_clock_gettime, [1, 16, 0, 0, 0, 0]), TRACE);
        assert_eq!(decision(libc::SYS_setsockopt, [3, 6, 20, 16, 16, 0]), ALLOW, "another level");
        assert_eq!(decision(libc::SYS_clone, [0x003d_0f00, 0, 0, 0, 0, 0]), ALLOW);
        assert_eq!(decide(&filter(false), &Call { number: 162, arguments: [0; 6] }, 0x4000_0003), KILL, "i386");
    }

    proptest! {
        /// Nothing that is not left to the kernel as it is gets past the filter.
        #[test]
        fn the_filter_stops_at_all_that_is_planned(
            number in prop_oneof![prop::sample::select(stops(true)).prop_map(|(number, _)| number), 0_i64..470],
            arguments in arguments(),
            seconds in 0_i64..10_000,
            seeded: bool,
        ) {
            let call = Call { number, arguments };
            let clocks = Clocks { elapsed: 5, monotonic_start: 100, realtime_start: 5000 };
            let plan = calls::plan(&call, &Numbers(seconds, 1), &clocks, None);
            let is_random = number == libc::SYS_getrandom;
            match decide(&filter(seeded), &call, NATIVE) {
                TRACE => {}
                ALLOW => prop_assert!(plan == Plan::Pass || is_random && !seeded, "{:?} is missed", plan),
                decision => prop_assert!(false, "{:#x}", decision),
            }
        }
    }
}

//! Memory of runs in this process.

/// Makes Linux give this process memory in pages of 4 KiB.
///
/// With huge pages Linux clears 2 MiB at each place where the heap of a thread grows by a little: a sixth of the
/// suite's processor time. Programs that this process starts would inherit the setting, so it is only for runs that
/// start none.
pub(super) fn use_small_pages() {
    // Without it, runs are only slower.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

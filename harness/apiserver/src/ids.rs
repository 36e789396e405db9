//! Uids, name suffixes and other pseudo-random numbers. Pure: equal seeds give equal sequences.
//! See `staging/src/k8s.io/apiserver/pkg/storage/names/generate.go`.

/// A generator of uids, name suffixes and other pseudo-random numbers; equal seeds give equal sequences.
///
/// It is `SplitMix64`: small, well mixed, and of full period. A crate's generator could give other numbers in another
/// version, and generated names are part of every recorded transcript.
#[derive(Clone, Debug)]
pub(crate) struct IdGenerator(u64);

impl IdGenerator {
    /// Creates a generator from a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed ^ 0x706c_756d_626c_696e)
    }

    /// Returns the next number.
    pub(crate) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a uid in the form of a version 4 UUID.
    pub(crate) fn uid(&mut self) -> String {
        let (high, low) = (self.number(), self.number());
        format!(
            "{:08x}-{:04x}-4{:03x}-{:x}{:03x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            8 + ((low >> 62) & 3),
            (low >> 48) & 0xfff,
            low & 0xffff_ffff_ffff
        )
    }

    /// Appends five characters of upstream's alphabet to `prefix`, which is truncated so that the name has at most 63
    /// characters (`staging/src/k8s.io/apiserver/pkg/storage/names/generate.go`).
    pub(crate) fn name(&mut self, prefix: &str) -> String {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        const SUFFIX: usize = 5;
        const NAME_MAX: usize = 63;
        let mut name: String = prefix.chars().take(NAME_MAX - SUFFIX).collect();
        for _ in 0..SUFFIX {
            let at = self.number() % ALPHABET.len() as u64;
            name.push(char::from(ALPHABET[at as usize]));
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_repeatable_and_look_like_upstreams() {
        let (mut a, mut b) = (IdGenerator::new(7), IdGenerator::new(7));
        let uid = a.uid();
        assert_eq!(uid, b.uid());
        assert_ne!(uid, a.uid());
        assert_eq!(uid.len(), 36);
        assert_eq!(uid.as_bytes()[14], b'4');
        assert!(b"89ab".contains(&uid.as_bytes()[19]));
        let name = a.name(&"x".repeat(80));
        assert_eq!(name.len(), 63);
        assert!(a.name("web-").starts_with("web-"));
    }
}

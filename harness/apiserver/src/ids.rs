//! Uids, name suffixes and other pseudo-random numbers. Pure: equal seeds give equal sequences.
//! See `staging/src/k8s.io/apiserver/pkg/storage/names/generate.go`.

use std::collections::BTreeMap;

/// A generator of uids, name suffixes and other pseudo-random numbers; equal seeds give equal sequences.
///
/// It is `SplitMix64`: small, well mixed, and of full period. A crate's generator could give other numbers in another
/// version, and generated names are part of every recorded transcript.
#[derive(Clone, Debug)]
pub(crate) struct IdGenerator {
    state: u64,
    /// By object, the number of ids that it has got; `None` if all objects get theirs from one sequence.
    by_object: Option<BTreeMap<u64, u64>>,
}

impl IdGenerator {
    /// Creates a generator from a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed ^ 0x706c_756d_626c_696e, by_object: None }
    }

    /// Gives each object a sequence of its own, so that its ids do not depend on requests about others.
    pub(crate) fn by_object(self) -> Self {
        Self { by_object: Some(BTreeMap::new()), ..self }
    }

    /// Returns the uid of the object that `key` describes.
    pub(crate) fn uid_of(&mut self, key: &[&str]) -> String {
        match self.sequence_of("uid", key) {
            Some(mut own) => own.uid(),
            None => self.uid(),
        }
    }

    /// Returns a name for an object that `key` describes; see [`Self::name`].
    pub(crate) fn name_of(&mut self, key: &[&str], prefix: &str) -> String {
        match self.sequence_of("name", key) {
            Some(mut own) => own.name(prefix),
            None => self.name(prefix),
        }
    }

    /// Returns the next sequence of an object, if objects have their own.
    fn sequence_of(&mut self, what: &str, key: &[&str]) -> Option<Self> {
        let counts = self.by_object.as_mut()?;
        // FNV-1a; a byte that no name has ends each part.
        let bytes = std::iter::once(&what).chain(key).flat_map(|part| part.bytes().chain([0xff]));
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let count = counts.entry(hash).or_insert(0);
        *count += 1;
        let mut mixed = Self { state: self.state ^ hash, by_object: None };
        let state = mixed.number() ^ *count;
        Some(Self { state, by_object: None })
    }

    /// Returns the next number.
    pub(crate) fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a uid in the form of a version 4 UUID.
    pub(crate) fn uid(&mut self) -> String {
        let high = self.number();
        let low = self.number();
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
        let mut a = IdGenerator::new(7);
        let mut b = IdGenerator::new(7);
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

    #[test]
    fn ids_of_an_object_do_not_depend_on_others() {
        let mut a = IdGenerator::new(7).by_object();
        let mut b = IdGenerator::new(7).by_object();
        let x = ["pods", "default", "x-"];
        let y = ["pods", "default", "y-"];
        let first = [a.name_of(&x, "x-"), a.name_of(&x, "x-"), a.name_of(&y, "y-"), a.uid_of(&x)];
        let then = [b.uid_of(&x), b.name_of(&y, "y-"), b.name_of(&x, "x-"), b.name_of(&x, "x-")];
        assert_eq!(first, [then[2].clone(), then[3].clone(), then[1].clone(), then[0].clone()]);
        assert!(first[0] != first[1] && first[0][2..] != first[2][2..], "{first:?}");
        assert_ne!(IdGenerator::new(8).by_object().uid_of(&x), first[3]);
    }
}

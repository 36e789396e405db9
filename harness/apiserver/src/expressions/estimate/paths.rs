//! Paths from a variable to the parts of its value, as the estimator of cel-go keeps them. PURE.
//!
//! cel-go extends a path with Go's `append`, so that two paths can share an array: a later path can overwrite the last
//! step of an earlier one. The estimates of accepted definitions depend on it.

use smol_str::SmolStr;

/// A path: the first steps of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AstPath {
    array: usize,
    length: usize,
}

/// The arrays behind paths.
#[derive(Debug, Default)]
pub(super) struct Paths {
    /// The capacity of an array with its steps.
    arrays: Vec<(usize, Vec<SmolStr>)>,
}

impl Paths {
    /// Returns a path of one step, the name of a variable.
    pub(super) fn variable(&mut self, name: &str) -> AstPath {
        self.arrays.push((1, vec![SmolStr::new(name)]));
        AstPath { array: self.arrays.len() - 1, length: 1 }
    }

    /// Appends a step as Go does: an array with room is written to, a full one is copied to one twice as large.
    pub(super) fn append(&mut self, path: Option<AstPath>, step: &str) -> AstPath {
        let Some(path) = path else { return self.variable(step) };
        let (capacity, steps) = &mut self.arrays[path.array];
        if path.length < *capacity {
            match steps.get_mut(path.length) {
                Some(shared) => *shared = SmolStr::new(step),
                None => steps.push(SmolStr::new(step)),
            }
            return AstPath { length: path.length + 1, ..path };
        }
        let mut copied = steps[..path.length].to_vec();
        copied.push(SmolStr::new(step));
        self.arrays.push((path.length * 2, copied));
        AstPath { array: self.arrays.len() - 1, length: path.length + 1 }
    }

    /// Copies a path with one more step.
    pub(super) fn copied(&mut self, path: AstPath, step: &str) -> AstPath {
        let mut steps = self.arrays[path.array].1[..path.length].to_vec();
        steps.push(SmolStr::new(step));
        self.arrays.push((steps.len(), steps));
        AstPath { array: self.arrays.len() - 1, length: path.length + 1 }
    }

    /// Returns the steps of a path.
    pub(super) fn steps(&self, path: AstPath) -> &[SmolStr] {
        &self.arrays[path.array].1[..path.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_share_arrays_with_room() {
        let mut paths = Paths::default();
        let root = paths.variable("self");
        let list = paths.append(Some(root), "list");
        let item = paths.append(Some(list), "@items");
        let first = paths.append(Some(item), "a");
        let second = paths.append(Some(item), "b");
        assert_eq!(paths.steps(second), ["self", "list", "@items", "b"]);
        assert_eq!(paths.steps(first), ["self", "list", "@items", "b"], "Go's append writes to the shared array");
        assert_eq!(paths.steps(list), ["self", "list"]);
        let deep = paths.append(Some(second), "c");
        let other = paths.append(Some(second), "d");
        assert_eq!(paths.steps(deep), ["self", "list", "@items", "b", "c"], "a full array is copied");
        assert_eq!(paths.steps(other), ["self", "list", "@items", "b", "d"]);
    }
}

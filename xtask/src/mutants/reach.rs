//! Which tests reach which mutants, so that a mutant costs only these, and the quick ones first.

use std::collections::{BTreeMap, BTreeSet};

/// Microseconds that the first group of tests takes; each group may take so many times the one before.
const FIRST_GROUP_MICROS: u64 = 20_000;
const GROWTH: u64 = 10;

/// What the tests of a program reach.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Reach {
    /// The tests, each with the microseconds that it takes, quick ones first.
    tests: Vec<(u64, String)>,
    /// The tests that reach a mutant, by their place in the list.
    of_mutant: BTreeMap<usize, BTreeSet<usize>>,
    /// Mutants that a thread reached which is no test's: any test may be why.
    of_any: BTreeSet<usize>,
}

impl Reach {
    /// Reads what the threads of a run wrote: name, microseconds, mutants. `listed` is what the program
    /// lists: `name: test`.
    pub(super) fn read(written: &str, listed: &str) -> Self {
        let names = listed
            .lines()
            .filter_map(|line| line.strip_suffix(": test"));
        let names: BTreeSet<&str> = names.collect();
        let mut reach = Self::default();
        let mut of_test: BTreeMap<&str, (u64, BTreeSet<usize>)> = BTreeMap::new();
        for line in written.lines() {
            let mut words = line.split('\t');
            let name = words.next().unwrap_or_default();
            let micros = words.next().and_then(|word| word.parse().ok());
            let mutants = words.next().unwrap_or_default().split_whitespace();
            let mutants = mutants.filter_map(|word| word.parse::<usize>().ok());
            if names.contains(name) {
                let (took, reached) = of_test.entry(name).or_default();
                *took += micros.unwrap_or(0);
                reached.extend(mutants);
            } else {
                reach.of_any.extend(mutants);
            }
        }
        let mut of_test: Vec<_> = of_test.into_iter().collect();
        of_test.sort_by_key(|(_, (took, _))| *took);
        for (at, (name, (took, reached))) in of_test.into_iter().enumerate() {
            reach.tests.push((took, name.to_owned()));
            for mutant in reached {
                reach.of_mutant.entry(mutant).or_default().insert(at);
            }
        }
        reach
    }

    /// The arguments of the runs that try a mutant, one after the other; none where no test reaches it.
    pub(super) fn runs(&self, mutant: usize) -> Vec<Vec<&str>> {
        if self.of_any.contains(&mutant) {
            return vec![Vec::new()];
        }
        let mut runs = Vec::new();
        let (mut limit, mut took) = (FIRST_GROUP_MICROS, 0);
        let tests = self.of_mutant.get(&mutant).into_iter().flatten();
        for (micros, name) in tests.filter_map(|at| self.tests.get(*at)) {
            if runs.is_empty() || took > limit {
                if !runs.is_empty() {
                    (limit, took) = (limit * GROWTH, 0);
                }
                runs.push(vec!["--exact", "--test-threads", "1"]);
            }
            took += micros;
            runs.last_mut().into_iter().for_each(|run| run.push(name));
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: &str = "a::slow: test\na::quick: test\n\n2 tests, 0 benchmarks\n";

    #[test]
    fn a_mutant_is_tried_by_the_tests_that_reach_it_quick_ones_first() {
        let written = "a::slow\t900000\t1 2 \na::quick\t30000\t2 3 \n";
        let reach = Reach::read(written, LISTED);
        let head = ["--exact", "--test-threads", "1"];
        let run = |name| [&head[..], &[name]].concat();
        assert_eq!(reach.runs(2), [run("a::quick"), run("a::slow")]);
        assert_eq!(reach.runs(3), [run("a::quick")]);
        assert!(reach.runs(4).is_empty());
    }

    #[test]
    fn what_another_thread_reaches_may_be_any_tests() {
        let reach = Reach::read("a::quick\t1\t2 \nworker\t1\t2 ", LISTED);
        assert_eq!(reach.runs(2), [Vec::<&str>::new()]);
    }
}

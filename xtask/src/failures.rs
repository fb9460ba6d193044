//! What failed tests said, picked from the output of many test programs.

use std::fmt;

/// Lines that are kept of one test, without the blank ones.
const LINES_MAX: usize = 8;

/// Tests that are kept.
const TESTS_MAX: usize = 20;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    tests: Vec<Vec<String>>,
    is_within: bool,
}

impl Failures {
    /// Takes the next line of the output.
    pub(crate) fn look(&mut self, line: &str) {
        if line.starts_with("---- ") && line.ends_with(" ----") {
            self.is_within = self.tests.len() < TESTS_MAX;
            if self.is_within {
                self.tests.push(vec![line.to_owned()]);
            }
        } else if line == "failures:" || line.starts_with("test result:") {
            self.is_within = false;
        } else if self.is_within
            && !line.trim().is_empty()
            && let Some(test) = self.tests.last_mut()
            && test.len() <= LINES_MAX
        {
            test.push(line.to_owned());
        }
    }
}

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tests said why they failed", self.tests.len())?;
        for line in self.tests.iter().flatten() {
            write!(f, "\n  {line}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(output: &str) -> String {
        let mut failures = Failures::default();
        output.lines().for_each(|line| failures.look(line));
        failures.to_string()
    }

    #[test]
    fn what_failed_tests_said_is_kept_and_nothing_else() {
        let output = "running 2 tests\n.F\nfailures:\n\n---- a stdout ----\n\nthread 'a' panicked at \
                      x.rs:1:\nit is lost\n\n\nfailures:\n    a\n\ntest result: FAILED. 1 passed\n\
                      running 1 test\n---- b ----\nno answer\n\ntest result: FAILED.";
        assert_eq!(
            seen(output),
            "2 tests said why they failed\n  ---- a stdout ----\n  thread 'a' panicked at x.rs:1:\n  \
             it is lost\n  ---- b ----\n  no answer"
        );
    }

    #[test]
    fn a_talkative_test_does_not_hide_the_next() {
        let mut output = "---- a ----\n".to_owned() + &"word\n".repeat(100);
        output += "---- b ----\nshort\n";
        let said = seen(&output);
        assert_eq!(said.matches("word").count(), LINES_MAX);
        assert!(said.ends_with("---- b ----\n  short"), "{said}");
    }
}

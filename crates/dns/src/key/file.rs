//! BIND's key-file format: a tokenizer and the one statement that matters.

use zeroize::Zeroizing;

use super::{Algorithm, Key, KeyProblem};

/// Reads the one key of `text`.
pub(super) fn parse(text: &str) -> Result<Key, KeyProblem> {
    let mut tokens = Tokens {
        rest: text,
        line: 1,
    };
    let mut keys = Vec::new();
    while let Some(token) = tokens.next()? {
        if !matches!(&token, Token::Word(word) if word.as_str() == "key") {
            return Err(tokens.problem(format!("expected `key`, found {}", token.shown())));
        }
        keys.push(statement(&mut tokens)?);
    }
    match keys.len() {
        0 => Err(KeyProblem::NoKey),
        1 => keys.pop().ok_or(KeyProblem::NoKey),
        count => Err(KeyProblem::ManyKeys { count }),
    }
}

/// Reads `"name" { algorithm …; secret …; };`, the word `key` being read already.
fn statement(tokens: &mut Tokens<'_>) -> Result<Key, KeyProblem> {
    let name = tokens.word("the key's name")?;
    tokens.mark('{')?;
    let mut algorithm = None;
    let mut secret = None;
    loop {
        let word = match tokens.next()? {
            Some(Token::Word(word)) => word,
            Some(Token::Mark('}')) => break,
            Some(other) => {
                return Err(tokens.problem(format!("unexpected {}", other.shown())));
            }
            None => return Err(tokens.problem("the key statement does not end".to_owned())),
        };
        match word.as_str() {
            "algorithm" => {
                algorithm = Some(tokens.word("the algorithm")?.parse::<Algorithm>()?);
            }
            "secret" => secret = Some(tokens.word("the secret")?),
            _ => return Err(tokens.problem("expected `algorithm` or `secret`".to_owned())),
        }
        tokens.mark(';')?;
    }
    tokens.mark(';')?;
    let algorithm = algorithm.ok_or_else(|| tokens.problem("no algorithm".to_owned()))?;
    let secret = secret.ok_or_else(|| tokens.problem("no secret".to_owned()))?;
    Key::from_base64(&name, algorithm, &secret)
}

/// A word (quoted or not; it may be the secret, hence zeroed) or one of `{`, `}`, `;`.
enum Token {
    Word(Zeroizing<String>),
    Mark(char),
}

impl Token {
    /// The token for an error message; words are not shown, since one may be a secret.
    fn shown(&self) -> String {
        match self {
            Self::Word(_) => "another word".to_owned(),
            Self::Mark(mark) => format!("`{mark}`"),
        }
    }
}

struct Tokens<'a> {
    rest: &'a str,
    line: usize,
}

impl Tokens<'_> {
    fn problem(&self, problem: String) -> KeyProblem {
        KeyProblem::Syntax {
            line: self.line,
            problem,
        }
    }

    fn word(&mut self, what: &str) -> Result<Zeroizing<String>, KeyProblem> {
        match self.next()? {
            Some(Token::Word(word)) => Ok(word),
            Some(Token::Mark(mark)) => {
                Err(self.problem(format!("expected {what}, found `{mark}`")))
            }
            None => Err(self.problem(format!("expected {what}, found the end"))),
        }
    }

    fn mark(&mut self, wanted: char) -> Result<(), KeyProblem> {
        match self.next()? {
            Some(Token::Mark(mark)) if mark == wanted => Ok(()),
            Some(_) | None => Err(self.problem(format!("expected `{wanted}`"))),
        }
    }

    fn advance(&mut self, bytes: usize) {
        let (passed, rest) = self.rest.split_at(bytes);
        self.line += passed.matches('\n').count();
        self.rest = rest;
    }

    /// Passes over white space and the three kinds of comment.
    fn skip_blank(&mut self) -> Result<(), KeyProblem> {
        loop {
            let blank = self.rest.len() - self.rest.trim_start().len();
            self.advance(blank);
            if self.rest.starts_with('#') || self.rest.starts_with("//") {
                self.advance(self.rest.find('\n').unwrap_or(self.rest.len()));
            } else if self.rest.starts_with("/*") {
                let Some(end) = self.rest.find("*/") else {
                    return Err(self.problem("the comment does not end".to_owned()));
                };
                self.advance(end + 2);
            } else {
                return Ok(());
            }
        }
    }

    fn next(&mut self) -> Result<Option<Token>, KeyProblem> {
        self.skip_blank()?;
        let Some(first) = self.rest.chars().next() else {
            return Ok(None);
        };
        if matches!(first, '{' | '}' | ';') {
            self.advance(1);
            return Ok(Some(Token::Mark(first)));
        }
        if first == '"' {
            let Some(end) = self.rest[1..].find('"') else {
                return Err(self.problem("the quoted string does not end".to_owned()));
            };
            let word = Zeroizing::new(self.rest[1..=end].to_owned());
            self.advance(end + 2);
            return Ok(Some(Token::Word(word)));
        }
        let end = self
            .rest
            .find(|c: char| c.is_whitespace() || matches!(c, '{' | '}' | ';' | '"'))
            .unwrap_or(self.rest.len());
        let word = Zeroizing::new(self.rest[..end].to_owned());
        self.advance(end);
        Ok(Some(Token::Word(word)))
    }
}

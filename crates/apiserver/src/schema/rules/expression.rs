//! One expression: parsed, checked against the schema, and run.

use kube_cel::cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};
use kube_cel::cel::parser::Parser;
use kube_cel::cel::{Context, ExecutionError, Value};

use crate::schema::node::{Additional, Node, Type};
use crate::schema::rules::bind::escape;
use crate::schema::rules::functions::{OPTIONAL_SELECT, PRINTED_TIME, is_known};

/// Longest expression that is read; real ones stay far below.
const LENGTH_MAX: usize = 16 * 1024;
/// Deepest expression that is run, which bounds the stack.
const DEPTH_MAX: usize = 120;

/// What an expression is checked against.
pub(crate) struct Scope<'a> {
    pub(crate) node: &'a Node,
    /// Whether `self` is a resource with metadata.
    pub(crate) is_resource: bool,
}

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Expression {
    root: IdedExpr,
    uses_old_self: bool,
    loop_depth: u32,
}

impl Expression {
    /// Parses and checks an expression.
    ///
    /// # Errors
    /// What is wrong, in the words of the real server where the mistake is the same.
    pub(crate) fn compile(source: &str, scope: &Scope<'_>) -> Result<Self, String> {
        if source.len() > LENGTH_MAX {
            return Err(format!(
                "compilation failed: it is longer than {LENGTH_MAX} bytes"
            ));
        }
        let mut root = Parser::new()
            .enable_optional_syntax(true)
            .parse(source)
            .map_err(|error| format!("compilation failed: {error}").replace("\n| ", "\n | "))?;
        let mut survey = Survey {
            source,
            scope,
            uses_old_self: false,
            loop_depth: 0,
            problem: None,
        };
        survey.visit(&mut root, 0, 0);
        match survey.problem {
            Some(problem) => Err(format!("compilation failed: {problem}")),
            None => Ok(Self {
                uses_old_self: survey.uses_old_self,
                loop_depth: survey.loop_depth,
                root,
            }),
        }
    }

    /// Whether it looks at the old value.
    pub(crate) fn uses_old_self(&self) -> bool {
        self.uses_old_self
    }

    /// Whether its result is another type than a boolean beyond doubt.
    pub(crate) fn is_surely_no_bool(&self, scope: &Scope<'_>) -> bool {
        match &self.root.expr {
            Expr::Literal(literal) => !matches!(literal, LiteralValue::Boolean(_)),
            Expr::List(_) | Expr::Map(_) => true,
            Expr::Call(call) => [
                "_+_", "_-_", "_*_", "_/_", "_%_", "-_", "size", "int", "string",
            ]
            .contains(&call.func_name.as_str()),
            Expr::Ident(_) | Expr::Select(_) => node_of(scope, &self.root)
                .is_some_and(|node| !matches!(node.kind, Type::Boolean | Type::Any)),
            Expr::Comprehension(_) | Expr::Struct(_) | Expr::Unspecified => false,
        }
    }

    /// How deep its loops are nested.
    pub(crate) fn loop_depth(&self) -> u32 {
        self.loop_depth
    }

    /// The result with these variables.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn run(&self, context: &Context<'_>) -> Result<Value, ExecutionError> {
        context.resolve(&self.root)
    }
}

/// An error of a run in the words of the real server.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the enum is the interpreter's and grows with it"
)]
pub(crate) fn words(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(name) => format!("no such key: {name}"),
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::IndexOutOfBounds(Value::Int(index)) => {
            format!("index out of bounds: {index}")
        }
        ExecutionError::NoSuchOverload
        | ExecutionError::UnsupportedBinaryOperator(..)
        | ExecutionError::UnsupportedUnaryOperator(..)
        | ExecutionError::ValuesNotComparable(..)
        | ExecutionError::UnexpectedType { .. } => "no such overload".to_owned(),
        ExecutionError::FunctionError { message, .. } => message.clone(),
        other => other.to_string(),
    }
}

struct Survey<'a> {
    source: &'a str,
    scope: &'a Scope<'a>,
    uses_old_self: bool,
    loop_depth: u32,
    problem: Option<String>,
}

impl Survey<'_> {
    fn visit(&mut self, expression: &mut IdedExpr, depth: usize, loops: u32) {
        if depth > DEPTH_MAX {
            self.refuse("the expression is nested too deeply".to_owned());
        }
        if self.problem.is_some() {
            return;
        }
        match &mut expression.expr {
            Expr::Unspecified | Expr::Struct(_) => {
                self.refuse("struct literals are not supported".to_owned());
            }
            Expr::Literal(_) => {}
            Expr::Ident(name) => self.uses_old_self |= name == "oldSelf",
            Expr::Call(call) => self.call(call, depth, loops),
            Expr::Select(select) => {
                self.visit(&mut select.operand, depth + 1, loops);
                if let Some(problem) = self.missing_field(&select.operand, &select.field) {
                    self.refuse(problem);
                }
                let is_optional = matches!(&select.operand.expr, Expr::Call(call)
                    if call.func_name == OPTIONAL_SELECT);
                if is_optional && !select.test {
                    // What follows `.?` is optional as well.
                    let operand = std::mem::take(&mut *select.operand);
                    let field = LiteralValue::String(select.field.as_str().into());
                    let field = IdedExpr {
                        id: expression.id,
                        expr: Expr::Literal(field),
                    };
                    expression.expr = Expr::Call(CallExpr {
                        func_name: OPTIONAL_SELECT.to_owned(),
                        target: None,
                        args: vec![operand, field],
                    });
                }
            }
            Expr::List(list) => {
                for element in &mut list.elements {
                    self.visit(element, depth + 1, loops);
                }
            }
            Expr::Map(map) => {
                for entry in &mut map.entries {
                    match &mut entry.expr {
                        EntryExpr::StructField(field) => {
                            self.visit(&mut field.value, depth + 1, loops);
                        }
                        EntryExpr::MapEntry(entry) => {
                            self.visit(&mut entry.key, depth + 1, loops);
                            self.visit(&mut entry.value, depth + 1, loops);
                        }
                    }
                }
            }
            Expr::Comprehension(comprehension) => {
                self.loop_depth = self.loop_depth.max(loops + 1);
                self.visit(&mut comprehension.iter_range, depth + 1, loops);
                for part in [
                    &mut comprehension.accu_init,
                    &mut comprehension.loop_cond,
                    &mut comprehension.loop_step,
                    &mut comprehension.result,
                ] {
                    self.visit(part, depth + 1, loops + 1);
                }
            }
        }
    }

    fn call(&mut self, call: &mut CallExpr, depth: usize, loops: u32) {
        let is_operator = call.func_name.contains(['_', '@']);
        if !is_operator && !is_known(&call.func_name) {
            let name = &call.func_name;
            let problem = format!("undeclared reference to '{name}' (in container '')");
            self.refuse(self.located(&format!("{name}("), &problem));
        }
        if call.func_name == operators::OPT_SELECT {
            // The interpreter fails on a member that is missing, which is what `.?` is for.
            OPTIONAL_SELECT.clone_into(&mut call.func_name);
        }
        if let Some(target) = &mut call.target {
            let is_namespace = matches!(&target.expr, Expr::Ident(name)
                if ["math", "sets", "lists", "strings", "base64", "format", "optional", "ip", "jsonpatch"]
                    .contains(&name.as_str()));
            if !is_namespace {
                self.visit(target, depth + 1, loops);
            }
        }
        for argument in &mut call.args {
            self.visit(argument, depth + 1, loops);
        }
        if call.func_name == "string" && call.target.is_none() {
            // The interpreter does not print times and durations as Kubernetes does.
            for argument in &mut call.args {
                let inner = std::mem::take(argument);
                argument.id = inner.id;
                argument.expr = Expr::Call(CallExpr {
                    func_name: PRINTED_TIME.to_owned(),
                    target: None,
                    args: vec![inner],
                });
            }
        }
    }

    /// Selecting a field that the schema does not have is refused when the rule is written.
    fn missing_field(&self, operand: &IdedExpr, field: &str) -> Option<String> {
        let node = node_of(self.scope, operand)?;
        let is_root = matches!(&operand.expr, Expr::Ident(_)) && self.scope.is_resource;
        let has_metadata = is_root && ["metadata", "apiVersion", "kind"].contains(&field);
        let is_closed = node.kind == Type::Object
            && matches!(node.additional, Additional::Unsaid)
            && !node.embedded;
        if has_metadata || !is_closed || member(node, field).is_some() {
            return None;
        }
        let problem = format!("undefined field '{field}'");
        Some(self.located(&format!(".{field}"), &problem))
    }

    /// The problem with its place, as far as that can be found again in the text.
    fn located(&self, part: &str, problem: &str) -> String {
        let at = self.source.find(part).unwrap_or(0);
        let before = &self.source[..at];
        let line = before.matches('\n').count();
        let column = before.rsplit('\n').next().unwrap_or_default().len();
        let text = self.source.lines().nth(line).unwrap_or_default();
        let dots = ".".repeat(column);
        let (line, place) = (line + 1, column + 1);
        format!("ERROR: <input>:{line}:{place}: {problem}\n | {text}\n | {dots}^")
    }

    fn refuse(&mut self, problem: String) {
        self.problem.get_or_insert(problem);
    }
}

/// The schema of a chain of fields that begins at `self`.
fn node_of<'a>(scope: &Scope<'a>, expression: &IdedExpr) -> Option<&'a Node> {
    match &expression.expr {
        Expr::Ident(name) if name == "self" || name == "oldSelf" => Some(scope.node),
        Expr::Select(select) if !select.test => {
            let holder = node_of(scope, &select.operand)?;
            if select.field == "metadata" && scope.is_resource {
                return None;
            }
            member(holder, &select.field)
        }
        Expr::Ident(_)
        | Expr::Select(_)
        | Expr::Unspecified
        | Expr::Call(_)
        | Expr::Comprehension(_)
        | Expr::List(_)
        | Expr::Literal(_)
        | Expr::Map(_)
        | Expr::Struct(_) => None,
    }
}

fn member<'a>(node: &'a Node, field: &str) -> Option<&'a Node> {
    node.properties.get(field).or_else(|| {
        node.properties
            .iter()
            .find(|(name, _)| escape(name) == field)
            .map(|(_, property)| property)
    })
}

use proptest::prelude::*;

use super::*;

fn labels(text: &str) -> Labels {
    text.split_whitespace()
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

/// Reads `a=1 b in 1,2 c notin 1 d exists e absent`, one requirement per word group.
fn selector(expressions: &[(&str, &str, &[&str])]) -> Result<Selector, Vec<Problem>> {
    let values: Vec<Vec<String>> = expressions
        .iter()
        .map(|(.., values)| values.iter().map(|&value| value.to_owned()).collect())
        .collect();
    let expressions: Vec<Expression<'_>> = expressions
        .iter()
        .zip(&values)
        .map(|((key, operator, _), values)| Expression {
            key,
            operator,
            values,
        })
        .collect();
    Selector::new(&Labels::new(), &expressions, "spec.recordsFrom[0].selector")
}

fn check_problem(expression: (&str, &str, &[&str]), expected: &str) {
    let problems = selector(&[expression]).expect_err("the expression is wrong");
    assert_eq!(Problem::summary(&problems), expected);
}

#[test]
fn operators_mean_what_kubernetes_says() {
    let labelled = labels("zone=a tier=front");
    let check = |expression, expected| {
        let selector = selector(&[expression]).expect("a good expression");
        assert_eq!(selector.matches(&labelled), expected, "{expression:?}");
    };
    check(("zone", "In", &["a", "b"]), true);
    check(("zone", "In", &["b"]), false);
    check(("zone", "NotIn", &["a"]), false);
    check(("zone", "NotIn", &["b"]), true);
    check(("absent", "NotIn", &["b"]), true);
    check(("absent", "In", &["b"]), false);
    check(("zone", "Exists", &[]), true);
    check(("absent", "Exists", &[]), false);
    check(("zone", "DoesNotExist", &[]), false);
    check(("absent", "DoesNotExist", &[]), true);
    assert!(
        Selector::default().matches(&labelled),
        "an empty selector matches everything"
    );
}

#[test]
fn a_bad_expression_is_named_by_its_field() {
    let at = "spec.recordsFrom[0].selector.matchExpressions[0]";
    check_problem(
        ("zone", "Matches", &["a"]),
        &format!(
            "{at}.operator: unknown operator \"Matches\": write In, NotIn, Exists or DoesNotExist"
        ),
    );
    check_problem(
        ("zone", "In", &[]),
        &format!("{at}.values: is empty: operator In needs at least one value"),
    );
    check_problem(
        ("zone", "Exists", &["a"]),
        &format!("{at}.values: operator Exists takes no values: remove them"),
    );
    check_problem(
        ("", "Exists", &[]),
        &format!("{at}.key: is empty: write a label's key"),
    );
}

#[test]
fn removing_leaves_nothing_behind() {
    let one = selector(&[("zone", "In", &["a"])]).expect("good");
    let mut index = Index::default();
    index.insert(1, "default", vec![one.clone(), Selector::default()]);
    assert_eq!(index.find("default", &labels("zone=a")), [1]);
    assert_eq!(index.find("other", &labels("zone=a")), [0; 0]);
    index.insert(1, "other", vec![one.clone()]);
    assert_eq!(index.find("default", &labels("zone=a")), [0; 0]);
    index.remove(&1);
    assert_eq!(
        format!("{index:?}"),
        format!("{:?}", Index::<i32>::default())
    );
    let exists = selector(&[("tier", "Exists", &[])]).expect("good");
    for (goes, stays) in [
        (&one, &exists),
        (&exists, &one),
        (&one, &Selector::default()),
    ] {
        let mut index = Index::default();
        index.insert(1, "default", vec![goes.clone()]);
        index.insert(2, "default", vec![stays.clone()]);
        index.remove(&1);
        assert_eq!(index.find("default", &labels("zone=a tier=b")), [2]);
    }
    let mut objects = LabelIndex::default();
    objects.insert(1, "default", &labels("zone=a tier=b"));
    objects.insert(2, "default", &labels("tier=b"));
    assert_eq!(objects.find("default", &one), [1], "the other is shorter");
    objects.remove(&2, "default");
    assert_eq!(objects.find("default", &one), [1]);
    objects.insert(1, "default", &labels("zone=b"));
    assert_eq!(objects.find("default", &one), [0; 0]);
    objects.remove(&1, "default");
    assert_eq!(
        format!("{objects:?}"),
        format!("{:?}", LabelIndex::<i32>::default())
    );
}

fn any_word(words: &'static [&'static str]) -> impl Strategy<Value = String> {
    proptest::sample::select(words).prop_map(str::to_owned)
}

fn any_labels() -> impl Strategy<Value = Labels> {
    let pair = (any_word(&["a", "b", "c", "d"]), any_word(&["1", "2", "3"]));
    proptest::collection::btree_map(pair.0, pair.1, 0..4)
}

fn any_selector() -> impl Strategy<Value = Selector> {
    let values = || {
        proptest::collection::vec(
            any_word(&["1", "2", "3"]).prop_map(String::into_boxed_str),
            1..3,
        )
        .prop_map(Vec::into_boxed_slice)
    };
    let test = prop_oneof![
        4 => values().prop_map(Test::In),
        2 => values().prop_map(Test::NotIn),
        1 => Just(Test::Exists),
        1 => Just(Test::DoesNotExist),
    ];
    let requirement = (any_word(&["a", "b", "c", "d"]), test).prop_map(|(key, test)| Requirement {
        key: key.into(),
        test,
    });
    proptest::collection::vec(requirement, 0..4)
        .prop_map(|requirements| Selector(requirements.into()))
}

/// A registration or, where nothing is given, a removal.
type Step<T> = (u8, bool, Option<T>);

fn steps<T: std::fmt::Debug + Clone>(
    value: impl Strategy<Value = T>,
) -> impl Strategy<Value = Vec<Step<T>>> {
    proptest::collection::vec(
        (
            0u8..12,
            any::<bool>(),
            proptest::option::weighted(0.8, value),
        ),
        0..40,
    )
}

const fn namespace(other: bool) -> &'static str {
    if other { "other" } else { "default" }
}

proptest! {
    #[test]
    fn the_index_of_selectors_agrees_with_a_naive_scan(
        steps in steps(proptest::collection::vec(any_selector(), 0..3)),
        probes in proptest::collection::vec((any::<bool>(), any_labels()), 1..8),
    ) {
        let mut index = Index::default();
        let mut naive = BTreeMap::new();
        for (id, other, selectors) in steps {
            if let Some(selectors) = selectors {
                    index.insert(id, namespace(other), selectors.clone());
                    naive.insert(id, (other, selectors));
            } else {
                    index.remove(&id);
                    naive.remove(&id);
            }
        }
        for (other, labels) in probes {
            let expected: Vec<u8> = naive
                .iter()
                .filter(|(_, (there, selectors))| {
                    *there == other && selectors.iter().any(|selector| selector.matches(&labels))
                })
                .map(|(id, _)| *id)
                .collect();
            prop_assert_eq!(index.find(namespace(other), &labels), expected);
        }
    }

    #[test]
    fn the_index_of_objects_agrees_with_a_naive_scan(
        steps in steps(any_labels()),
        probes in proptest::collection::vec((any::<bool>(), any_selector()), 1..8),
    ) {
        let mut index = LabelIndex::default();
        let mut naive = BTreeMap::new();
        for (id, other, labels) in steps {
            if let Some(labels) = labels {
                index.insert(id, namespace(other), &labels);
                naive.insert((other, id), labels);
            } else {
                index.remove(&id, namespace(other));
                naive.remove(&(other, id));
            }
        }
        for (other, selector) in probes {
            let expected: Vec<u8> = naive
                .iter()
                .filter(|((there, _), labels)| *there == other && selector.matches(labels))
                .map(|((_, id), _)| *id)
                .collect();
            prop_assert_eq!(index.find(namespace(other), &selector), expected);
        }
    }
}

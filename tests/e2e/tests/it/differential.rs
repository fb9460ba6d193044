//! The same requests to both servers must bring the same answers: random ones, and some word for word.
//!
//! Each seed is a trial of its own: a failing one is named by the test and replayed by its name.

mod compare;
mod random;
mod requests;
mod words;

use bindery_e2e::http::Http;
use libtest_mimic::{Failed, Trial};

use crate::subject::{Subject, block_on};
use random::Random;

/// Seeds of every run, about 25 requests each.
const SEEDS: u64 = 40;
const REQUESTS: usize = 25;

/// One trial per seed, and one that compares words.
pub(crate) fn trials() -> Vec<Trial> {
    let words = Trial::test("both::differential::words", compare_words);
    let seeds = (0..SEEDS).map(|seed| {
        Trial::test(format!("both::differential::seed_{seed}"), move || {
            run(seed)
        })
    });
    seeds.chain([words]).collect()
}

fn compare_words() -> Result<(), Failed> {
    let real = Subject::Real.http().map_err(Failed::from)?;
    let embedded = Subject::Embedded.http().map_err(Failed::from)?;
    block_on(words::play(&real, &embedded)).map_err(Failed::from)
}

fn run(seed: u64) -> Result<(), Failed> {
    let real = Subject::Real.http().map_err(Failed::from)?;
    let embedded = Subject::Embedded.http().map_err(Failed::from)?;
    block_on(play(seed, &real, &embedded)).map_err(Failed::from)
}

/// Sends the requests of a seed to both and stops at the first difference.
async fn play(seed: u64, real: &Http, embedded: &Http) -> Result<(), String> {
    let mut random = Random::new(seed);
    let namespace = format!("differential-{seed}");
    for http in [real, embedded] {
        let answer = http.send(requests::namespace(&namespace)).await;
        let answer = answer.map_err(|fault| format!("{fault:#}"))?;
        assert_eq!(answer.code, 201, "{}", answer.text);
    }
    let mut story = Vec::new();
    for _ in 0..REQUESTS {
        let request = requests::draw(&mut random, &namespace);
        story.push(request.to_string());
        let ours = request
            .send(embedded)
            .await
            .map_err(|fault| format!("{fault:#}"))?;
        let theirs = request
            .send(real)
            .await
            .map_err(|fault| format!("{fault:#}"))?;
        if let Some(difference) = compare::difference(&theirs, &ours) {
            return Err(format!("{}\n{difference}", story.join("\n")));
        }
    }
    Ok(())
}

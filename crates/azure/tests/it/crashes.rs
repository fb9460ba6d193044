//! The process ends at any point: the next one reaches the same end.

use crate::engine::{Process, Wish, check_truth, uid, wish};
use crate::stage::Stage;

/// More changes than making or removing everything of [`wish`] takes.
const CHANGES_MAX: usize = 30;

#[tokio::test]
async fn a_process_that_ends_anywhere_leaves_nothing_behind() {
    for is_done in [false, true] {
        let mut is_over = false;
        for after in 0..CHANGES_MAX {
            let what = format!("after {after} changes, the next one done: {is_done}");
            let stage = Stage::new().await;
            let wish = wish();
            is_over = crash(&stage, &wish, (after, is_done), |process| {
                process.tell(&wish);
            })
            .await;
            let next = Process::start(&stage);
            next.tell(&wish);
            next.settle(&wish).await;
            check_truth(&stage, &wish, &what);
            next.stop().await;
            if is_over {
                break;
            }
        }
        assert!(is_over, "there is no end");
    }
}

#[tokio::test]
async fn a_process_that_ends_while_things_go_takes_them_along_the_next_time() {
    for is_done in [false, true] {
        let mut is_over = false;
        for after in 0..CHANGES_MAX {
            let what = format!("after {after} changes, the next one done: {is_done}");
            let stage = Stage::new().await;
            let before = wish();
            let process = Process::start(&stage);
            process.tell(&before);
            process.settle(&before).await;
            process.stop().await;
            let mut left = before.clone();
            left.services.remove(&1);
            left.services.remove(&2);
            left.labels.clear();
            is_over = crash(&stage, &left, (after, is_done), |process| {
                process.engine.retire(uid(1));
                process.engine.retire(uid(2));
                process.tell(&left);
            })
            .await;
            // Nobody speaks for what is left of them: it is swept.
            let next = Process::start(&stage);
            next.engine.retire(uid(1));
            next.engine.retire(uid(2));
            next.tell(&left);
            next.settle(&left).await;
            check_truth(&stage, &left, &what);
            next.stop().await;
            if is_over {
                break;
            }
        }
        assert!(is_over, "there is no end");
    }
}

/// Runs a process until it has made so many changes, and ends it there; whether it came to its end before.
async fn crash(stage: &Stage, wish: &Wish, at: (usize, bool), tell: impl FnOnce(&Process)) -> bool {
    stage.azure.lock().silent_after = Some(at);
    let process = Process::start(stage);
    tell(&process);
    let is_over = tokio::select! {
        biased;
        () = stage.azure.wait_for(bindery_testkit::azure::AzureState::is_silent) => false,
        () = process.settle(wish) => true,
    };
    process.kill().await;
    stage.azure.lock().speak();
    is_over
}

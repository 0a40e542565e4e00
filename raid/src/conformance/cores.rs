//! Words, cores and parkers.

use super::{LABEL, lone_word, on_all_cores, participants};
use crate::platform::{Cpu, Ordering, Parker, Place, Platform, Word};
use std::cell::Cell;
use std::rc::Rc;

/// Words do what their operations say, alone and from all cores at once.
pub async fn words<P: Platform>(cpu: &P::Cpu) {
    word_operations::<P>(cpu).await;
    words_of_a_region::<P>(cpu).await;
    words_under_contention::<P>(cpu).await;
}

async fn word_operations<P: Platform>(cpu: &P::Cpu) {
    let word = lone_word(cpu.platform(), 7);
    assert_eq!(word.load(cpu, Ordering::Acquire).await, 7);
    word.store(cpu, 8, Ordering::Release).await;
    assert_eq!(word.swap(cpu, 16, Ordering::AcqRel).await, 8, "a core sees its own store");
    assert_eq!(word.fetch_add(cpu, 3, Ordering::Relaxed).await, 16);
    word.add(cpu, u64::MAX, Ordering::Release).await;
    assert_eq!(word.fetch_or(cpu, 0b101, Ordering::AcqRel).await, 18, "addition wraps");
    assert_eq!(word.compare_exchange(cpu, 0, 1, Ordering::AcqRel).await, Err(0b10111));
    assert_eq!(word.compare_exchange(cpu, 0b10111, 1, Ordering::AcqRel).await, Ok(0b10111));
    assert_eq!(word.spin_until(cpu, Ordering::Acquire, |value| value == 1).await, 1);
}

/// The last word of a region fits, and neighbours keep their values apart.
async fn words_of_a_region<P: Platform>(cpu: &P::Cpu) {
    let platform = cpu.platform();
    let region = platform.region(LABEL, 88, 64);
    let words: Vec<_> = (0..8_u32)
        .map(|index| {
            let place = Place::Within { region: &region, offset_bytes: index * 8 };
            platform.word(LABEL, place, u64::from(index))
        })
        .collect();
    drop(region);
    words[3].store(cpu, u64::MAX, Ordering::Release).await;
    for (index, word) in words.iter().enumerate() {
        let expected = if index == 3 { u64::MAX } else { index as u64 };
        assert_eq!(word.load(cpu, Ordering::Acquire).await, expected);
    }
}

async fn words_under_contention<P: Platform>(cpu: &P::Cpu) {
    const ROUNDS: u64 = 100;
    let sum = lone_word(cpu.platform(), 0);
    let shared = sum.clone();
    on_all_cores::<P, _>(cpu, 2, move |cpu, _| {
        let sum = shared.clone();
        async move {
            for _ in 0..ROUNDS {
                sum.add(&cpu, 1, Ordering::Relaxed).await;
                let mut seen = sum.load(&cpu, Ordering::Relaxed).await;
                while let Err(found) =
                    sum.compare_exchange(&cpu, seen, seen + 1, Ordering::Relaxed).await
                {
                    seen = found;
                }
            }
        }
    })
    .await;
    let tasks = 2 * participants(cpu.platform()).count() as u64;
    assert_eq!(sum.load(cpu, Ordering::Acquire).await, 2 * ROUNDS * tasks, "no addition is lost");
}

/// Tasks start where they are told to, take turns, and sleep no shorter than they ask.
pub async fn cores<P: Platform>(cpu: &P::Cpu) {
    let platform = cpu.platform();
    let here = cpu.id();
    assert_eq!(cpu.node(), platform.topology().node_of(here));
    for core in participants(platform) {
        let (started, parker) = (lone_word(platform, 0), platform.parker(LABEL));
        let (told, wake) = (started.clone(), parker.clone());
        platform.spawn_on(core, LABEL, move |cpu| async move {
            told.store(&cpu, u64::from(cpu.id().0) + 1, Ordering::Release).await;
            wake.unpark(&cpu).await;
        });
        parker.park(cpu).await;
        assert_eq!(started.load(cpu, Ordering::Acquire).await, u64::from(core.0) + 1);
    }

    let before_ns = cpu.now_ns();
    cpu.sleep_ns(50_000).await;
    assert!(cpu.now_ns() >= before_ns + 50_000, "slept too short");
    assert_eq!(cpu.id(), here);

    let ran = Rc::new(Cell::new(false));
    let other = ran.clone();
    cpu.spawn(LABEL, async move { other.set(true) });
    while !ran.get() {
        cpu.yield_now().await;
    }
}

/// A parker holds one permit, loses none, and carries what was written before it was given.
pub async fn parkers<P: Platform>(cpu: &P::Cpu) {
    let platform = cpu.platform();
    let early = platform.parker(LABEL);
    early.unpark(cpu).await;
    early.unpark(cpu).await;
    early.park(cpu).await;
    // The second permit went into the first, so this sleep needs another one.
    let (late, given) = (early.clone(), lone_word(platform, 0));
    let told = given.clone();
    let elsewhere = participants(platform).last().expect("a machine has a core");
    platform.spawn_on(elsewhere, LABEL, move |cpu| async move {
        told.store(&cpu, 1, Ordering::Relaxed).await;
        late.unpark(&cpu).await;
    });
    early.park(cpu).await;
    assert_eq!(given.load(cpu, Ordering::Relaxed).await, 1, "woken without a permit");

    const ROUNDS: u64 = 100;
    let (ping, pong) = (platform.parker(LABEL), platform.parker(LABEL));
    let (their_ping, their_pong) = (ping.clone(), pong.clone());
    platform.spawn_on(elsewhere, LABEL, move |cpu| async move {
        for _ in 0..ROUNDS {
            their_ping.park(&cpu).await;
            their_pong.unpark(&cpu).await;
        }
    });
    for _ in 0..ROUNDS {
        ping.unpark(cpu).await;
        pong.park(cpu).await;
    }
}

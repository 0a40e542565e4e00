//! The story of raid10's resync lock, as far as it was published: what the comparison must show.
//! Nothing in the model may be tuned to make these pass.

use serde_json::Value;
use std::process::Command;
use std::sync::LazyLock;

/// What the drives allow, and the thread measured after the change.
const LIMIT_GIB_PER_S: f64 = 6.6;
/// What the thread measured before the change.
const BEFORE_GIB_PER_S: f64 = 2.9;

static KUNPENG: LazyLock<Value> = LazyLock::new(|| compare("kunpeng920"));
static XEON: LazyLock<Value> = LazyLock::new(|| compare("xeon-2s"));

fn compare(machine: &str) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_raidbed"))
        .args(["compare", "raid10-resync-lock", "--machine", machine, "--json"])
        .output()
        .expect("the binary starts");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Median, low and high of a variant's bandwidth.
fn bandwidth(report: &Value, variant: &str) -> (f64, f64, f64) {
    let variants = report["variants"].as_array().expect("a list");
    let found = variants.iter().find(|it| it["name"] == variant).expect("a variant of that name");
    let number = |key: &str| found["measured"][key].as_f64().expect("a number");
    (number("median"), number("low"), number("high"))
}

fn median(report: &Value, variant: &str) -> f64 {
    bandwidth(report, variant).0
}

/// Not slower, but for the noise of samples.
fn assert_not_slower(report: &Value, faster: &str, slower: &str) {
    let (fast, slow) = (median(report, faster), median(report, slower));
    assert!(fast >= slow * 0.98, "{faster} {fast:.2} GiB/s, {slower} {slow:.2} GiB/s");
}

#[test]
fn each_half_of_the_change_helps_and_the_whole_helps_most() {
    for half in ["seqlock", "wake-if-waiting"] {
        assert_not_slower(&KUNPENG, half, "before");
        assert_not_slower(&KUNPENG, "after", half);
    }
    assert!(median(&KUNPENG, "after") > median(&KUNPENG, "before") * 1.5);
}

#[test]
fn bound_to_one_node_the_limit_is_reached_before_and_after() {
    for variant in ["before-bound", "after-bound"] {
        let median = median(&KUNPENG, variant);
        assert!((median / LIMIT_GIB_PER_S - 1.0).abs() <= 0.1, "{variant}: {median:.2} GiB/s");
    }
}

#[test]
fn unbound_the_old_lock_collapses_as_published() {
    let (median, low, high) = bandwidth(&KUNPENG, "before");
    let is = format!("{median:.2} GiB/s, {low:.2} to {high:.2}");
    assert!((low..=high).contains(&BEFORE_GIB_PER_S), "not inside: {is}");
    assert!(high / low <= 2.5, "too wide: {is}");
    assert!((1.0 / 1.5..=1.5).contains(&(median / BEFORE_GIB_PER_S)), "too far: {is}");
}

#[test]
fn on_a_machine_with_nearer_nodes_the_gain_is_clearly_smaller() {
    let gain = |report| median(report, "after") / median(report, "before");
    let (kunpeng, xeon) = (gain(&KUNPENG), gain(&XEON));
    assert!(xeon - 1.0 < (kunpeng - 1.0) / 2.0, "kunpeng920 x{kunpeng:.2}, xeon-2s x{xeon:.2}");
}

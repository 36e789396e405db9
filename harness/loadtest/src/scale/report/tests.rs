use super::*;

fn measured(scenario: Scenario, seconds: f64, cpu: f64, peak: u64) -> ScenarioResult {
    ScenarioResult {
        scenario,
        left: None,
        seconds,
        cpu_seconds: Some(cpu),
        peak_bytes: Some(peak),
        resident_bytes: Some(peak - 1_000_000),
        server_cpu_seconds: Some(2.5),
        calls: vec![
            CallCount { verb: "LIST".to_owned(), resource: "pods".to_owned(), count: 1 },
            CallCount { verb: "PUT".to_owned(), resource: "poddisruptionbudgets/status".to_owned(), count: 3_000 },
        ],
        calls_unknown: None,
        details: vec![Detail { name: "pods".to_owned(), unit: Unit::Count, value: 15_000.0 }],
    }
}

fn subject(name: &str, scenarios: Vec<ScenarioResult>) -> SubjectReport {
    SubjectReport { name: name.to_owned(), command: format!("./{name} --x"), scenarios, curve: Vec::new() }
}

fn report(subjects: Vec<SubjectReport>) -> ScaleReport {
    ScaleReport {
        api_version: API_VERSION.to_owned(),
        kind: KIND.to_owned(),
        cluster: "fake".to_owned(),
        kubernetes_version: "v1.36.0".to_owned(),
        processors: 2,
        shape: ClusterShape::default(),
        comparisons: compare(ClusterShape::default(), &subjects),
        subjects,
        sizes: Vec::new(),
    }
}

fn two() -> ScaleReport {
    let ours =
        vec![measured(Scenario::Start, 10.0, 5.0, 300_000_000), measured(Scenario::TaintStorm, 20.0, 4.0, 200_000_000)];
    let theirs = vec![
        measured(Scenario::Start, 40.0, 40.0, 2_000_000_000),
        measured(Scenario::TaintStorm, 60.0, 9.0, 2_500_000_000),
    ];
    let mut report = report(vec![subject("ours", ours), subject("theirs", theirs)]);
    report.subjects[0].curve =
        vec![CurvePoint { pods: 1_000, pods_of_budget: 50, syncs: 1_000, cpu_seconds: 0.000_25, seconds: 0.001_5 }];
    report
}

#[test]
fn the_document_is_as_programs_expect_it() {
    let json = serde_json::to_string_pretty(&two()).unwrap();
    assert_eq!(serde_json::from_str::<ScaleReport>(&json).unwrap(), two());
    insta::assert_snapshot!("document", json);
}

#[test]
fn the_table_is_as_people_expect_it() {
    let mut table = Vec::new();
    two().table(&mut table).unwrap();
    insta::assert_snapshot!("table", String::from_utf8(table).unwrap());
}

#[test]
fn ratios_are_of_the_first_to_the_second_and_targets_are_the_issues() {
    let report = two();
    let described: Vec<_> = report.comparisons.iter().map(|c| (c.scenario, c.measure, c.ratio, c.target)).collect();
    assert_eq!(
        described,
        [
            (Scenario::Start, Measure::Time, 0.25, Some(0.5)),
            (Scenario::Start, Measure::Cpu, 0.125, Some(0.25)),
            (Scenario::Start, Measure::Memory, 0.15, Some(0.1)),
            (Scenario::TaintStorm, Measure::Time, 1.0 / 3.0, Some(0.5)),
            (Scenario::TaintStorm, Measure::Cpu, 4.0 / 9.0, None),
            (Scenario::TaintStorm, Measure::Memory, 0.08, None),
        ]
    );
    let missed: Vec<_> = report.missed().map(|missed| (missed.scenario, missed.measure)).collect();
    assert_eq!(missed, [(Scenario::Start, Measure::Memory)]);
}

#[test]
fn alone_it_is_held_against_the_reference_if_the_cluster_is_the_same() {
    let subjects = vec![subject("ours", vec![measured(Scenario::Start, 10.0, 5.0, 300_000_000)])];
    let report = report(subjects);
    let others: Vec<_> = report.comparisons.iter().map(|c| (c.measure, c.other, c.beside.as_str())).collect();
    let expected = [(Measure::Time, 33.0), (Measure::Cpu, 46.0), (Measure::Memory, 2.11e9)];
    assert_eq!(others, expected.map(|(measure, other)| (measure, other, REFERENCE)));
    let smaller = ClusterShape { nodes: 20, ..ClusterShape::default() };
    assert!(compare(smaller, &report.subjects).is_empty());
}

#[test]
fn what_did_not_end_has_no_time_and_is_reported() {
    let mut slow = measured(Scenario::Start, 900.0, 5.0, 300_000_000);
    slow.left = Some("3 budgets without their status after 900 s".to_owned());
    let report = report(vec![subject("ours", vec![slow])]);
    assert!(report.comparisons.iter().all(|comparison| comparison.measure != Measure::Time));
    assert_eq!(report.unfinished().count(), 1);
    let mut table = Vec::new();
    report.table(&mut table).unwrap();
    assert!(String::from_utf8(table).unwrap().contains("did not finish: 3 budgets"));
}

#[test]
fn a_page_has_a_curve_for_each_subject_and_measure() {
    let mut report = two();
    let mut smaller = two();
    smaller.shape = smaller.shape.percent(10);
    smaller.subjects[1].scenarios[0].left = Some("3 budgets".to_owned());
    report.sizes.push(smaller);
    let mut third = two();
    third.subjects.truncate(1);
    third.subjects[0].name = "<i>third</i>".to_owned();
    let page = super::super::page::page(&report, &[third]);
    for part in [
        "<h2>start</h2>",
        "<h2>taint-storm</h2>",
        "<figcaption>start: time</figcaption>",
        "<figcaption>taint-storm: calls</figcaption>",
        // Two sizes of ours; of theirs the smaller one did not finish; the third has one size.
        "start: time. ours: 10.00 s at 15,000 pods, 10.00 s at 150,000 pods; theirs: 40.00 s at 150,000 pods; &lt;i&gt;",
        "theirs, start: did not finish: 3 budgets",
        "CPU time of a sync. ours: 250 µs at 1,000 pods of the namespace",
        "✗ missed",
    ] {
        assert!(page.contains(part), "{part} is missing");
    }
    assert!(!page.contains("<i>") && !page.contains("node-loss"));
}

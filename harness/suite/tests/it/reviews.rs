//! `plumbline review`, in a repository of its own.

use std::process::Output;

use crate::git_repository::GitRepository;

const FIXTURE: &str = "\
promise: A <b>node</b> is annotated.
rule: BR-24-03
level: core
feature: ttl.start-up
controllers: [ttl]
given: { nodes: [n1] }
steps:
- { at: 5s, delete: nodes/n1 }
- { at: 9s, expect: { absent: nodes/n1 } }
allow: [WRITE nodes/*]
";

/// Two commits: snapshots that change alike and differently, new, removed, renamed and unreadable ones.
pub(crate) fn repository() -> GitRepository {
    let repository = GitRepository::new();
    let header = |name: &str| format!("---\nsource: x\ndescription: {name}\n---\n");
    for name in ["a", "b", "c"] {
        repository.write(&format!("fixtures/ttl/{name}.yaml"), FIXTURE.as_bytes());
        let text = format!("{}t=+{}s  ttl PATCH nodes/n1 200\n", header(name), name.len());
        repository.write(&format!("snapshots/ttl/{name}.snap"), text.as_bytes());
    }
    let rows = format!("{}## up\nsame\n\n## down\nt=+9s  ttl PATCH nodes/n1 200\n", header("rows"));
    repository.write("snapshots/ttl/rows.snap", rows.as_bytes());
    repository.write("snapshots/ttl/gone.snap", format!("{}an old\nlist of\nlines\n", header("gone")).as_bytes());
    repository.write("snapshots/ttl/old-name.snap", format!("{}one\ntwo\nthree\n", header("name")).as_bytes());
    repository.write("snapshots/ttl/bytes.snap", b"text\n");
    repository.commit("before");
    for name in ["a", "b"] {
        let text = format!("{}t=+{}s  ttl PATCH nodes/n1 409\n", header(name), name.len());
        repository.write(&format!("snapshots/ttl/{name}.snap"), text.as_bytes());
    }
    let changed = rows.replace("nodes/n1 200", "nodes/n1 409");
    repository.write("snapshots/ttl/rows.snap", changed.as_bytes());
    repository.write("snapshots/ttl/c.snap", format!("{}something else\n", header("c")).as_bytes());
    repository.write("fixtures/ttl/c.yaml", FIXTURE.replace("5s", "6s").as_bytes());
    repository.write("snapshots/ttl/new.snap", b"---\nsource: elsewhere\n---\nnever seen\n");
    repository.write("snapshots/ttl/bytes.snap", b"\xff\xfe\n");
    repository.git(&["rm", "--quiet", "snapshots/ttl/gone.snap"]);
    repository.git(&["mv", "snapshots/ttl/old-name.snap", "snapshots/ttl/new-name.snap"]);
    repository.commit("after");
    repository
}

fn text(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

#[test]
fn changes_are_grouped_with_promise_and_rules() {
    let repository = repository();
    let shown = text(&repository.review(&["HEAD~1..HEAD"]));
    assert!(shown.starts_with("8 snapshots changed, in 6 groups.\n"), "{shown}");
    for part in [
        "\nthe same change in 3 fixtures\n  promise: A <b>node</b> is annotated.\n  rules: BR-24-03\n",
        "  the expectations did not change\n  in: ttl/a, ttl/b, ttl/rows[down]\n",
        "    -t=+1s  ttl PATCH nodes/n1 200\n    +t=+1s  ttl PATCH nodes/n1 409\n",
        "\nchanged: ttl/c\n  promise: A <b>node</b> is annotated.\n  rules: BR-24-03\n  the fixture changed as well\n",
        "\nnew: ttl/new\n",
        "\nremoved: ttl/gone\n",
        "\nrenamed: ttl/old-name → ttl/new-name\n",
        "\nunreadable: ttl/bytes\n",
    ] {
        assert!(shown.contains(part), "{part:?} is missing in:\n{shown}");
    }
    assert_eq!(shown, text(&repository.review(&["HEAD~1"])), "the current commit is the usual end");
    assert_eq!(text(&repository.review(&["HEAD..HEAD"])), "No snapshot changed.\n");
    let unknown = repository.review(&["nonsense..HEAD"]);
    assert_eq!(unknown.status.code(), Some(96), "{}", String::from_utf8_lossy(&unknown.stderr));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("git rev-parse: "));
}

#[test]
fn documents_escape_what_they_show() {
    let repository = repository();
    let markdown = text(&repository.review(&["HEAD~1", "--format", "markdown"]));
    assert!(markdown.starts_with("### Snapshots\n\n8 snapshots changed"), "{markdown}");
    assert!(
        markdown.contains("<details><summary>the same change in 3 fixtures</summary>\n\n- promise: A &lt;b&gt;node")
    );
    let page = text(&repository.review(&["HEAD~1", "--format", "html"]));
    assert!(page.contains("A &lt;b&gt;node&lt;/b&gt;") && !page.contains("<b>node"), "{page}");
    assert!(page.contains("<span class=\"added\">+t=+1s  ttl PATCH nodes/n1 409\n</span>"));
    assert!(page.contains("<a href=\"#ttl/c\">timelines before and after</a>"), "{page}");
    assert!(page.contains("<a href=\"#ttl/rows[down]\">ttl/rows[down]</a>"), "{page}");
}

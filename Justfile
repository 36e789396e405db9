# One plain cargo line per recipe: everything here works without just.

# arguments reach the program one by one, quoted as they were
set positional-arguments

# format, lint and every test, as .ci/run does
check:
    cargo fmt --all --check && cargo clippy --workspace --all-targets --locked -- -D warnings && cargo test --workspace --locked

# unit, integration and snapshot tests
test *ARGS:
    cargo test --workspace "$@"

# every fixture, in virtual time, on the embedded API server
suite *ARGS:
    cargo run --release -- run "$@"

# every fixture on k3s in a container; exit code 96 with the reason if there is no Docker or no image
test-e2e *ARGS:
    cargo build --release -p plumbline-controllers && cargo run --release -- run --cluster k3s --command 'target/release/plumbline-controllers --leader-elect=false --secure-port=0 --kube-api-qps=0' "$@"

# a conformance report: just conform --implementation me.yaml --command './my-controllers --leader-elect=false'
conform *ARGS:
    cargo run --release -- conform "$@"

# review changed transcripts: equal changes once, then one by one (needs cargo-insta)
review:
    cargo run --release -- review HEAD..HEAD --pending
    cargo insta review

# the changes of snapshots since main, or of another range, equal ones once
review-branch *ARGS:
    cargo run --release -- review "$@"

# accept all changed transcripts; read the diff of snapshots/ afterwards
accept:
    INSTA_UPDATE=always cargo test -p plumbline-suite --test snapshots

# check the fixtures without running them
lint:
    cargo run --release -- lint

# an API server for kubectl and other clients
serve *ARGS:
    cargo run --release -- serve "$@"

# speed and size of the API server, with their targets
bench *ARGS:
    cargo run --profile dist -p plumbline-loadtest -- bench server "$@"

# speed and size of our controllers, or of --command's, in a large cluster; --vs compares two
scale *ARGS:
    cargo build --profile dist -p plumbline-controllers && cargo run --profile dist -p plumbline-loadtest -- scale "$@"

# every fixture a thousand times, shuffled, with 1 to 8 jobs, until one differs from its first run (more than an hour)
repeat *ARGS:
    cargo run --release -- repeat "$@"

# faults that no fixture names, at each point of each fixture: just explore --budget 10m
explore *ARGS:
    cargo run --release -- explore "$@"

# the site, in target/site (needs mdBook)
book:
    cargo build && python3 harness/book/build.py target/debug/plumbline --out target/site

# the Python wheel of a debug build, in target/wheel
wheel:
    cargo build && python3 harness/python/build.py target/debug/plumbline --out target/wheel

# the crate documentation
docs:
    cargo doc --workspace --no-deps --open

# which fixture shows which rule: just catalogue --format html > catalogue.html
catalogue *ARGS:
    cargo run -p xtask -- catalogue "$@"

# Kubernetes' own end-to-end tests against the API server: just upstream --e2e-test PATH
upstream *ARGS:
    cargo run --release -p xtask -- upstream "$@"

# mutate the controllers and check that the fixtures notice (report in target/mutants/mutants.md; resumes after an interruption)
mutants *ARGS:
    cargo run -p plumbline-mutants -- mutants "$@"

# reintroduce upstream's own bugs one at a time and check that the fixtures notice (report in target/mutants/bugs.md)
bugs *ARGS:
    cargo run -p plumbline-mutants -- bugs "$@"

# put in the mistakes of harness/mutants/semantic.toml one at a time: just semantic --explore 1m
semantic *ARGS:
    cargo run -p plumbline-mutants -- semantic "$@"

# the same with mistakes written without knowledge of fixtures and oracles: just fresh --from fresh2.toml
fresh *ARGS:
    cargo run -p plumbline-mutants -- fresh "$@"

# regenerate the tables of Kubernetes' types: just codegen --kubernetes PATH
codegen *ARGS:
    cargo run -p xtask -- codegen "$@"

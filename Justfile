# One plain cargo line per recipe; nothing here is needed that cargo alone does not give.

# what stands behind a recipe's name reaches the program word by word, quoted as it was
set positional-arguments

# format, lint and every test: what .ci/run does
check:
    cargo fmt --all --check && cargo clippy --workspace --all-targets --locked -- -D warnings && cargo test --workspace --locked

# unit, integration and snapshot tests
test *ARGS:
    cargo test --workspace "$@"

# every fixture, in virtual time, on the embedded API server
suite *ARGS:
    cargo run --release -- run "$@"

# every fixture on a k3s of its own, in a container; exit code 96 says why where there is no Docker or no image
test-e2e *ARGS:
    cargo build --release -p plumbline-controllers && cargo run --release -- run --cluster k3s --command 'target/release/plumbline-controllers --leader-elect=false --secure-port=0 --kube-api-qps=0' "$@"

# a conformance report: just conform --implementation me.yaml --command './my-controllers --leader-elect=false'
conform *ARGS:
    cargo run --release -- conform "$@"

# look at changed transcripts one by one and accept or reject them (needs cargo-insta)
review:
    cargo insta review

# accept every changed transcript after you have read the diff of snapshots/
accept:
    INSTA_UPDATE=always cargo test -p plumbline --test snapshots

# check the fixtures without running them
lint:
    cargo run --release -- lint

# a fake API server for kubectl and friends
serve *ARGS:
    cargo run --release -- serve "$@"

# speed and size of the API server beside their targets
bench *ARGS:
    cargo run --release -- bench server "$@"

# speed and size of our controllers, or of --command's, in a large cluster; beside --vs's
scale *ARGS:
    cargo build --release -p plumbline-controllers && cargo run --release -- scale "$@"

# every fixture a thousand times, shuffled, with 1 to 8 jobs, until one differs from its first run (more than an hour)
repeat *ARGS:
    cargo run --release -- repeat "$@"

# the crate documentation
docs:
    cargo doc --workspace --no-deps --open

# which fixture shows which rule: just catalogue --format html > catalogue.html
catalogue *ARGS:
    cargo run --release -- catalogue "$@"

# break the controllers in every small way and look whether the fixtures notice (report in target/mutants/mutants.md; goes on where it was broken off)
mutants *ARGS:
    cargo run --manifest-path mutants/Cargo.toml -- mutants "$@"

# bring upstream's own bugs back one at a time and look whether the fixtures notice (report in target/mutants/bugs.md)
bugs *ARGS:
    cargo run --manifest-path mutants/Cargo.toml -- bugs "$@"
